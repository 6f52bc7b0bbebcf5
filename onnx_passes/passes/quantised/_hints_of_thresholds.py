"""Hints of thresholds and of the steps between them."""

from __future__ import annotations

import onnx_ir as ir

from onnx_passes.passes.hints import Hint, Spec, data, filled

STEPS = (Spec("3", mixed=(-1.0, 0.5, 2.0, 0.25, 1.5)), Spec("b 3", mixed=(-1.0, 0.5, 2.0)))
WEIGHTS = (*filled("", 1.0, 2.0, -1.0), Spec("3", mixed=(1.0, -1.0, 2.0)))
THRESHOLDS = Hint(
    {"x": data("a b"), "s": STEPS, "v": WEIGHTS, "t": STEPS, "w": WEIGHTS},
    {},
    (ir.DataType.FLOAT,),
    13,
)
