"""Merge two Slice in a row."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.passes.base import Op, RewriteRulePass, Transformation, Value, Var
from onnx_passes.passes.common.matches import node_of
from onnx_passes.passes.common.shapes import counted, ints_of, rank_of
from onnx_passes.passes.hints import Hint, Hints, data, ints


@passes.verify.equality
@passes.register("eliminate")
class MergeSlices(Transformation, RewriteRulePass):
    """Merge two Slice in a row.

    Before: ``Slice(Slice(x, [1], [9], [0]), [2], [5], [1])``
    After:  ``Slice(x, [1, 2], [9, 5], [0, 1])``

    Sound because a Slice of one axis changes nothing along the others. Along one axis, without
    steps and counted from the front, the starts add up and the nearer end ends.

    Leaves alone: numbers that are computed; opsets before 10; the same axis with a step or
    counted from the end; negative axes of a tensor of unknown rank; a Slice that something
    reads with which it cannot be merged, for it would stay.
    """

    needs = ("shape-inference",)
    hints: ClassVar[Hints] = {
        "*": Hint(
            {
                "x": data("a b"),
                "Slice.1": ints("0", "1", "-2"),
                "Slice.2": ints("2", "3", "9"),
                "Slice.3": ints("0", "1", "-1"),
                "Slice.4": ints("1", "1", "2"),
            }
        )
    }

    def pattern(self, op: Op, x: Var) -> Var:
        t = op.Slice(x, _allow_other_inputs=True, _outputs=["t"])
        return op.Slice(t, _allow_other_inputs=True, _outputs=["y"])

    def check(self, context: object, x: Value, t: Value, y: Value, **_: object) -> bool:
        readers = t.consumers()
        return not t.is_graph_output() and all(
            (node.domain, node.op_type) == ("", "Slice")
            and node.graph is node_of(y).graph
            and node.inputs.count(t) == 1
            and node.inputs[0] is t
            and _merged(x, t, node.outputs[0]) is not None
            for node in readers
        )

    def rewrite(self, op: Op, x: Value, t: Value, y: Value, **_: object) -> Value:
        cuts = _merged(x, t, y)
        assert cuts is not None, "check has seen to it"
        columns = [
            [getattr(cut, name) for cut in cuts] for name in ("start", "end", "axis", "step")
        ]
        if set(columns[3]) == {1}:
            columns.pop()
        given = [op.Constant(value=ir.tensor(np.array(c, np.int64))) for c in columns]
        return op.Slice(x, *given)


@dataclass(frozen=True)
class _Cut:
    """What a Slice does to one axis."""

    axis: int
    start: int
    end: int
    step: int


def _merged(x: Value, t: Value, y: Value) -> list[_Cut] | None:
    rank = rank_of(x)
    first, second = _cuts(node_of(t), rank), _cuts(node_of(y), rank)
    if not first or not second:
        return None
    found = {cut.axis: cut for cut in first}
    for cut in second:
        before = found.get(cut.axis)
        found[cut.axis] = cut
        if before is None:
            continue
        numbers = (before.start, before.end, cut.start, cut.end)
        if min(numbers) < 0 or before.step != 1 or cut.step != 1:
            return None
        start, end = before.start + cut.start, before.start + cut.end
        limit = np.iinfo(np.int64).max
        if start > limit:
            return None
        found[cut.axis] = _Cut(cut.axis, start, min(before.end, end), 1)
    return list(found.values())


def _cuts(node: ir.Node, rank: int | None) -> list[_Cut] | None:
    given = [None if value is None else ints_of(value) for value in node.inputs[1:]]
    left_out = [value is None for value in node.inputs[1:]]
    if len(given) < 2 or any(
        numbers is None and not out for numbers, out in zip(given, left_out, strict=True)
    ):
        return None
    starts, ends, axes, steps = [*given, None, None][:4]
    if not starts or not ends or len(starts) != len(ends):
        return None
    axes = list(range(len(starts))) if axes is None else axes
    steps = [1] * len(starts) if steps is None else steps
    front = [counted([axis], rank) for axis in axes]
    known = [axis[0] for axis in front if axis is not None]
    if len(known) != len(starts) or len(steps) != len(starts) or len({*known}) != len(known):
        return None
    return [_Cut(*cut) for cut in zip(known, starts, ends, steps, strict=True)]
