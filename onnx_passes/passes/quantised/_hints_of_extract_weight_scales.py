"""Hints for the certificate of extract-weight-scales: operands that its guards admit."""

from __future__ import annotations

import onnx_ir as ir

from onnx_passes.passes.hints import Hint, Spec, filled
from onnx_passes.passes.quantised._hints_of_quantisers import SMALL, quantiser

_CONSTANT = (Spec("a b", mixed=(0.5, -0.25, 1.0, 3.0)),)
_LEVELS = Hint(
    {
        "x": (Spec("a b", mixed=(-8.0, 3.0, 0.0, 7.0), dtype=ir.DataType.INT8),),
        "s": filled("", 0.5, 0.3, 2.0),
        "z": SMALL,
    },
    {"DequantizeLinear.axis": (None,)},
    (ir.DataType.FLOAT,),
    13,
)
HINTS: dict[str, Hint] = {
    **{f"extract-weight-scales[{i}]": quantiser("s", "z", "b", _CONSTANT) for i in range(7)},
    "extract-weight-scales[7]": _LEVELS,
    "extract-weight-scales[8]": _LEVELS,
}
