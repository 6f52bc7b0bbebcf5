"""Hints of the normalizations: their operands, and the means in their formulas."""

from __future__ import annotations

import onnx_ir as ir

from onnx_passes.passes.hints import Hint, data, filled, ints

LAST = ints("-1", "-1", "-1", "-2 -1")
SQUARES = {
    "x": data("b s d", "s d", "b h s d"),
    "variance.1": LAST,
    "epsilon": filled("", 1e-5, 1e-6, 1e-12, 0.1),
}
MEAN = {
    "ReduceMean.axes": ([-1],),
    "ReduceMean.keepdims": (1, None),
    "ReduceMean.noop_with_empty_axes": (None,),
}
PRECISE = (ir.DataType.FLOAT, ir.DataType.DOUBLE)
CAST_NORMALIZATION = Hint(
    {"x": data("b s d", "s d"), "s": filled("d", 1.0, dtype=ir.DataType.FLOAT)},
    {"Cast.to": (int(ir.DataType.FLOAT16),)},
    (ir.DataType.FLOAT16,),
)
