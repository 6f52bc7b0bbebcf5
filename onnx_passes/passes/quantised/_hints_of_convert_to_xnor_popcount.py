"""Hints for the certificate of convert-to-xnor-popcount: operands that its guards admit."""

from __future__ import annotations

import onnx_ir as ir

from onnx_passes.passes.hints import Hint, Spec, data, filled

_BITS_OF_TWO = Hint(
    {
        "x": data("a b"),
        "t": (Spec("1", mixed=(-1.0, 0.5, 0.0)),),
        "v": filled("", 2.0),
        "a": filled("", -1.0),
        "w": (Spec("b 3", mixed=(-1.0, 1.0)),),
    },
    {},
    (ir.DataType.FLOAT,),
    13,
)
HINTS: dict[str, Hint] = {
    "convert-to-xnor-popcount": _BITS_OF_TWO,
}
