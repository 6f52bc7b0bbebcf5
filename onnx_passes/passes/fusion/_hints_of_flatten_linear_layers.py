"""Hints for the certificate of flatten-linear-layers: operands that its guards admit."""

from __future__ import annotations

import onnx_ir as ir

from onnx_passes.passes.hints import Hint, Spec, data, ints

_NUMBERS = (0.5, 2.0, -1.5, 0.25, -0.75)
_LAYER = {"w": (Spec("d e", mixed=_NUMBERS),), "b": (Spec("e", mixed=_NUMBERS),)}
_FLOAT = (ir.DataType.FLOAT,)
_RESHAPED = {
    "x": (Spec(node="Reshape", of=("rows", "target")),),
    "rows": data("a*b d"),
    "target": ints("a b d"),
}
HINTS: dict[str, Hint] = {
    "flatten-linear-layers": Hint(
        {"x": data("a b d", "a b c d"), **_LAYER}, types=_FLOAT, since=7
    ),
    **{
        f"flatten-linear-layers[{index}]": Hint({**_RESHAPED, **_LAYER}, types=_FLOAT, since=7)
        for index in range(8, 12)
    },
}
