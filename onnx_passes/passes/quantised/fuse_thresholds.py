"""Replace two MultiThresholds of the same value by one."""

from __future__ import annotations

from typing import Any

import numpy as np

from onnx_passes import passes
from onnx_passes.ops.bodies.domains import CUSTOM
from onnx_passes.passes.base import Op, RewriteRuleSetPass, Transformation, Value, Var
from onnx_passes.passes.quantised._tables import Array, multi_threshold, table_of
from onnx_passes.passes.quantised.sort_thresholds import adds_exactly


@passes.verify.equality
@passes.register()
class FuseThresholds(Transformation, RewriteRuleSetPass):
    """Replace two MultiThresholds of the same value by one.

    Before: ``Add(MultiThreshold(x, s, v), MultiThreshold(x, t, w))``, also Sub
    After:  ``MultiThreshold(x, [s, t], [v, w])``, with ``-w`` for Sub

    Sound because both are sums over thresholds, of integers that float32 adds without
    rounding.

    Leaves alone: thresholds and weights that are computed; weights that are no integers.
    """

    def pattern(self) -> list[Any]:
        return [_Pair("Add"), _Pair("Sub")]

    def check(self) -> list[Any]:
        return [_fit, _fit]

    def rewrite(self) -> list[Any]:
        return [_joined(1.0), _joined(-1.0)]


class _Pair:
    def __init__(self, kind: str) -> None:
        self.kind = kind

    def __call__(self, op: Op, x: Var, s: Var, v: Var, t: Var, w: Var) -> Var:
        first = op.MultiThreshold(x, s, v, _domain=CUSTOM)
        second = op.MultiThreshold(x, t, w, _domain=CUSTOM)
        return getattr(op, self.kind)(first, second)


def _fit(context: Any, x: Value, s: Value, v: Value, t: Value, w: Value) -> bool:
    found = _both(s, v, t, w, 1.0)
    return found is not None and adds_exactly(found[1])


def _both(s: Value, v: Value, t: Value, w: Value, sign: float) -> tuple[Array, Array] | None:
    first, second = table_of(s, v), table_of(t, w)
    if first is None or second is None:
        return None
    tables = [first, (second[0], sign * second[1])]
    shape: tuple[int, ...] = np.broadcast_shapes(*(a[..., 0].shape for a, _ in tables))
    spread = [[np.broadcast_to(a, (*shape, a.shape[-1])) for a in table] for table in tables]
    thresholds, weights = (np.concatenate(parts, -1) for parts in zip(*spread, strict=True))
    return thresholds, weights


def _joined(sign: float) -> Any:
    def rewrite(op: Op, x: Value, s: Value, v: Value, t: Value, w: Value) -> Value:
        found = _both(s, v, t, w, sign)
        assert found is not None, "check has seen to it"
        return multi_threshold(op, x, *found)

    return rewrite
