"""Replace two MultiThresholds of the same value by one."""

from typing import ClassVar

import numpy as np

from onnx_passes import passes
from onnx_passes.arrays import Array
from onnx_passes.ops.bodies.operator_bodies import CUSTOM
from onnx_passes.passes.base import Op, Value
from onnx_passes.passes.common.rules import RulePass, TermRule, Values, call
from onnx_passes.passes.hints import Hints
from onnx_passes.passes.quantised._quantised_hints import THRESHOLDS
from onnx_passes.passes.quantised._quantisers import multi_threshold, table_of
from onnx_passes.passes.quantised.sort_thresholds import adds_exactly


@passes.verify.equality
@passes.register()
class FuseThresholds(RulePass):
    """Replace two MultiThresholds of the same value by one.

    Before: ``Add(MultiThreshold(x, s, v), MultiThreshold(x, t, w))``, also Sub
    After:  ``MultiThreshold(x, [s, t], [v, w])``, with ``-w`` for Sub

    Sound because both are sums over thresholds, of integers that float32 adds without
    rounding.

    Leaves alone: thresholds and weights that are computed; weights that are not integers.
    """

    hints: ClassVar[Hints] = {"*": THRESHOLDS}

    def table(self) -> list[TermRule]:
        return [_fuse("Add", 1.0), _fuse("Sub", -1.0)]


def _fuse(kind: str, sign: float) -> TermRule:
    def find(v: Values) -> list[Array] | None:
        first, second = table_of(v["s"], v["v"]), table_of(v["t"], v["w"])
        if first is None or second is None:
            return None
        tables = [first, (second[0], sign * second[1])]
        shape: tuple[int, ...] = np.broadcast_shapes(*(a[..., 0].shape for a, _ in tables))
        wide = [[np.broadcast_to(a, (*shape, a.shape[-1])) for a in t] for t in tables]
        joined = [np.concatenate(parts, -1) for parts in zip(*wide, strict=True)]
        return joined if adds_exactly(joined[1]) else None

    def make(op: Op, v: Values, found: list[Array]) -> Value:
        return multi_threshold(op, v["x"], *found)

    sides = (call("MultiThreshold", "x", *names, domain=CUSTOM) for names in ("sv", "tw"))
    return TermRule(call(kind, *sides), find, make)
