"""Replace a MultiThreshold by some with one weight each."""

from typing import ClassVar

import numpy as np

from onnx_passes import passes
from onnx_passes.arrays import Array
from onnx_passes.compat.names import is_for_seed
from onnx_passes.ops.bodies.operator_bodies import CUSTOM
from onnx_passes.passes.base import Op, RewriteRulePass, Transformation, Value, Var
from onnx_passes.passes.hints import Hints
from onnx_passes.passes.quantised._quantised_hints import THRESHOLDS
from onnx_passes.passes.quantised._quantisers import multi_threshold, table_of
from onnx_passes.passes.quantised.sort_thresholds import adds_exactly

_MOST = 4096
"""Thresholds of a row above which none is repeated."""


@passes.verify.equality
@passes.register()
class DecomposeThresholds(Transformation, RewriteRulePass):
    """Replace a MultiThreshold by some with one weight each.

    Before: ``MultiThreshold(x, [1, 2, 3], [2, -2, 4])``
    After:  ``Sub(MultiThreshold(x, [1, 3, 3], 2), MultiThreshold(x, [2], 2))``

    The weight is the greatest that divides all of them. A threshold stands as many times as
    its own weight has it; rows that have fewer than others are filled with NaN, which nothing
    reaches. Hardware that counts thresholds needs no weights then but for one factor, which is
    2 where results are -1 and 1.

    Sound because both are the same sum of integers, which float32 adds without rounding.

    Leaves alone: weights that are one positive number, computed or no integers; more than
    4,096 thresholds.

    Attributes:
        unit: Whether the weight is 1 in any case; None for no, except where the pipeline has
            keys of the seed system, whose clients count thresholds.
    """

    hints: ClassVar[Hints] = {"*": THRESHOLDS}

    unit: bool | None = None

    def pattern(self, op: Op, x: Var, t: Var, w: Var) -> Var:
        return op.MultiThreshold(x, t, w, _domain=CUSTOM)

    def check(self, context: object, x: Value, t: Value, w: Value) -> bool:
        found = table_of(t, w)
        if found is None or not adds_exactly(found[1]) or not found[1].any():
            return False
        weight = self._weight(found[1])
        if (found[1] == weight).all():
            return False
        return bool(np.abs(found[1]).sum(-1).max() <= _MOST * weight)

    def rewrite(self, op: Op, x: Value, t: Value, w: Value) -> Value:
        found = table_of(t, w)
        assert found is not None, "check has seen to it"
        thresholds, weights = found
        weight = self._weight(weights)
        times = weights / weight
        rising = _repeat(thresholds, np.maximum(times, 0))
        falling = _repeat(thresholds, np.maximum(-times, 0))
        result = multi_threshold(op, x, rising, weight)
        if np.isnan(falling).all():
            return result
        return op.Sub(result, multi_threshold(op, x, falling, weight))

    def _weight(self, weights: Array) -> Array:
        """Return 1, or the greatest integer that divides all weights, as float32."""
        if self.unit or (self.unit is None and is_for_seed(self.config)):
            return np.ones((), np.float32)
        found: Array = np.gcd.reduce(np.abs(weights).astype(np.int64), axis=None)
        return found.astype(np.float32)


def _repeat(thresholds: Array, weights: Array) -> Array:
    """Repeat each threshold as its weight says, along the last axis."""
    rows = thresholds.reshape(-1, thresholds.shape[-1])
    counts = weights.reshape(rows.shape).astype(np.int64)
    width = max(int(counts.sum(-1).max()), 1)
    made = np.full((rows.shape[0], width), np.nan, np.float32)
    for row, (values, times) in enumerate(zip(rows, counts, strict=True)):
        filled = np.repeat(values, times)
        made[row, : filled.size] = filled
    return made.reshape(*thresholds.shape[:-1], width)
