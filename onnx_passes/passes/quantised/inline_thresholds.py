"""Put comparisons and a sum in the place of a MultiThreshold."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.ops.bodies.domains import CUSTOM
from onnx_passes.passes._support.matches import opset_at
from onnx_passes.passes.base import Op, RewriteRulePass, Transformation, Value, Var


@passes.verify.equality
@passes.register()
class InlineThresholds(Transformation, RewriteRulePass):
    """Put comparisons and a sum in the place of a MultiThreshold.

    Before: ``MultiThreshold(x, thresholds, weights)`` of our own domain
    After:  ``ReduceSum(weights * Cast(Unsqueeze(x, -1) >= thresholds), -1)``

    Sound because this is how the operator is defined.

    Leaves alone: opsets before 13; inputs of other types than float32.
    """

    def pattern(self, op: Op, x: Var, t: Var, w: Var) -> Var:
        return op.MultiThreshold(x, t, w, _domain=CUSTOM)

    def check(self, context: object, x: Value, t: Value, w: Value) -> bool:
        return opset_at(context) >= 13 and x.dtype in (None, ir.DataType.FLOAT)

    def rewrite(self, op: Op, x: Value, t: Value, w: Value) -> Value:
        last = op.Constant(value=ir.tensor(np.array([-1], np.int64)))
        reached = op.GreaterOrEqual(op.Unsqueeze(x, last), t)
        steps = op.Cast(reached, to=int(ir.DataType.FLOAT))
        made: Value = op.ReduceSum(op.Mul(w, steps), last, keepdims=0)
        return made
