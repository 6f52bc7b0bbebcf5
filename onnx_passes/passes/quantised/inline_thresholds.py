"""Replace a MultiThreshold by comparisons and a sum."""

from typing import ClassVar

import numpy as np
import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.ops.bodies.operator_bodies import CUSTOM
from onnx_passes.passes.base import MatchContext, Op, Value, Var
from onnx_passes.passes.common.matches import opset_at
from onnx_passes.passes.hints import Hints
from onnx_passes.passes.quantised._quantised_hints import THRESHOLDS


@passes.verify.equality
@passes.register()
class InlineThresholds(passes.Transformation, passes.RewriteRulePass):
    """Replace a MultiThreshold by comparisons and a sum.

    Before: ``MultiThreshold(x, thresholds, weights)`` of our own domain
    After:  ``ReduceSum(weights * Cast(Unsqueeze(x, -1) >= thresholds), -1)``

    Sound because this is how the operator is defined.

    Leaves alone: opsets before 13; inputs of other types than float32; ranks that are not
    known.
    """

    needs = ("shape-inference",)
    hints: ClassVar[Hints] = {"*": THRESHOLDS}

    def pattern(self, op: Op, x: Var, t: Var, w: Var) -> Var:
        return op.MultiThreshold(x, t, w, _domain=CUSTOM)

    def check(self, context: MatchContext, x: Value, t: Value, w: Value) -> bool:
        known = all(value.shape is not None for value in (x, t, w))
        return known and opset_at(context) >= 13 and x.dtype in (None, ir.DataType.FLOAT)

    def rewrite(self, op: Op, x: Value, t: Value, w: Value) -> Value:
        # ONNX Runtime 1.31 reduces an empty tensor over a negative axis to another rank.
        axis = max(_rank(x), _rank(t) - 1, _rank(w) - 1)
        last = op.Constant(value=ir.tensor(np.array([axis], np.int64)))
        behind = op.Constant(value=ir.tensor(np.array([-1], np.int64)))
        reached = op.GreaterOrEqual(op.Unsqueeze(x, behind), t)
        steps = op.Cast(reached, to=int(ir.DataType.FLOAT))
        return op.ReduceSum(op.Mul(w, steps), last, keepdims=0)


def _rank(value: Value) -> int:
    assert value.shape is not None, "check has seen to it"
    return len(value.shape)
