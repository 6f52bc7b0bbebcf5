"""Put thresholds in order, and merge equal ones."""

from typing import ClassVar

import numpy as np

from onnx_passes import passes
from onnx_passes.arrays import Array
from onnx_passes.ops.bodies.operator_bodies import CUSTOM
from onnx_passes.passes.base import Op, RewriteRulePass, Transformation, Value, Var
from onnx_passes.passes.hints import Hints
from onnx_passes.passes.quantised._quantised_hints import THRESHOLDS
from onnx_passes.passes.quantised._quantisers import multi_threshold, table_of

_EXACT = 2.0**24


@passes.verify.equality
@passes.register()
class SortThresholds(Transformation, RewriteRulePass):
    """Sort thresholds.

    Before: ``MultiThreshold(x, [3, 1, 2], weights)``
    After:  ``MultiThreshold(x, [1, 2, 3], weights')``, the weights in the same order

    Sound because the sum does not depend on the order: weights are integers that float32 adds
    without rounding.

    Leaves alone: thresholds and weights that are computed or in order; weights that are not
    integers, or whose sum is above 2 ** 24.
    """

    hints: ClassVar[Hints] = {"*": THRESHOLDS}

    def pattern(self, op: Op, x: Var, t: Var, w: Var) -> Var:
        return op.MultiThreshold(x, t, w, _domain=CUSTOM)

    def check(self, context: object, x: Value, t: Value, w: Value) -> bool:
        found = table_of(t, w)
        return found is not None and adds_exactly(found[1]) and not _in_order(found[0])

    def rewrite(self, op: Op, x: Value, t: Value, w: Value) -> Value:
        found = table_of(t, w)
        assert found is not None, "check has seen to it"
        order = np.argsort(found[0], axis=-1, kind="stable")
        thresholds, weights = (np.take_along_axis(a, order, axis=-1) for a in found)
        return multi_threshold(op, x, thresholds, weights)


def adds_exactly(weights: Array) -> bool:
    """Whether every sum of weights is an integer that float32 holds."""
    whole = np.isfinite(weights).all() and np.array_equal(weights, np.rint(weights))
    return bool(whole and np.abs(weights.astype(np.float64)).sum(-1).max(initial=0) <= _EXACT)


def _in_order(thresholds: Array) -> bool:
    return bool((thresholds[..., 1:] >= thresholds[..., :-1]).all()) or bool(
        np.isnan(thresholds).any()
    )
