"""Hints for the certificate of convert-from-qcdq: operands that its guards admit."""

from __future__ import annotations

import onnx_ir as ir

from onnx_passes.passes.hints import Hint, Spec, filled
from onnx_passes.passes.quantised._hints_of_quantisers import PAIR, SMALL

_INTEGERS = Hint(
    {
        "x": (Spec("a b", mixed=(-8.0, 3.0, 0.0, 7.0), dtype=ir.DataType.INT8),),
        "t": filled("", 0.5, 0.25),
        "w": SMALL,
    },
    {"DequantizeLinear.axis": (None,)},
    (ir.DataType.FLOAT,),
    13,
)
HINTS: dict[str, Hint] = {
    "convert-from-qcdq[0]": PAIR,
    "convert-from-qcdq[1]": PAIR,
    "convert-from-qcdq[2]": _INTEGERS,
}
