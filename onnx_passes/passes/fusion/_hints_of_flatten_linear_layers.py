"""Hints for the certificate of flatten-linear-layers: operands that its guards admit."""

from __future__ import annotations

import onnx_ir as ir

from onnx_passes.passes.hints import Hint, Spec, data

_NUMBERS = (0.5, 2.0, -1.5, 0.25, -0.75)
HINTS: dict[str, Hint] = {
    "flatten-linear-layers": Hint(
        {
            "x": data("a b d", "a b c d"),
            "w": (Spec("d e", mixed=_NUMBERS),),
            "b": (Spec("e", mixed=_NUMBERS),),
        },
        types=(ir.DataType.FLOAT,),
        since=7,
    ),
}
