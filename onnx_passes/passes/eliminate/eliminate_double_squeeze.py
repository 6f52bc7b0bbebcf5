"""Merge two Squeeze, or two Unsqueeze, in a row."""

from collections.abc import Iterator
from functools import partial
from typing import ClassVar

import numpy as np
import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.passes.base import MatchContext, Op, Rule, Value, Var
from onnx_passes.passes.common.shapes import dims_of, ints_of
from onnx_passes.passes.hints import Hint, Hints, data, ints


@passes.verify.equality
@passes.register("eliminate")
class EliminateDoubleSqueeze(passes.Transformation, passes.RewriteRuleSetPass):
    """Merge two Squeeze, or two Unsqueeze, in a row.

    Before: ``Unsqueeze(Unsqueeze(x, [0]), [2])``, ``Squeeze(Squeeze(x, [0]), [1])``
    After:  ``Unsqueeze(x, [0, 2])``, ``Squeeze(x, [0, 2])``

    Sound because both only insert, or remove, dimensions of size 1: axes of the tensor
    between are moved to where they are in the bigger one.

    Leaves alone: axes that are computed, left out, or given as attributes (before opset 13);
    negative axes of a tensor whose rank is not known; a tensor between that something reads
    with which it cannot be merged, because it would stay.
    """

    needs = ("shape-inference",)
    hints: ClassVar[Hints] = {
        "*": Hint(
            {"x": data("1 1 a", "1 a 1"), "a": ints("0", "-1"), "b": ints("0", "-1", "1")}
        )
    }

    def rules(self) -> Iterator[Rule]:
        def mergeable(
            context: MatchContext, x: Value, a: Value, t: Value, **_: object
        ) -> bool:
            root = context.root
            return not t.is_graph_output() and all(
                (node.domain, node.op_type, node.graph) == ("", root.op_type, root.graph)
                and len(node.inputs) == 2
                and node.inputs[0] is t
                and node.inputs[1] is not None
                and _merged(root.op_type, x, a, node.inputs[1]) is not None
                for node in t.consumers()
            )

        for name in ("Unsqueeze", "Squeeze"):
            yield Rule(partial(_twice, name), partial(_once, name), mergeable)


def _twice(operator: str, op: Op, x: Var, a: Var, b: Var) -> Var:
    call = getattr(op, operator)
    return call(call(x, a, _outputs=["t"]), b)


def _once(operator: str, op: Op, x: Value, a: Value, b: Value, **_: object) -> Value:
    axes = np.array(_merged(operator, x, a, b), dtype=np.int64)
    return getattr(op, operator)(x, op.Constant(value=ir.tensor(axes)))


def _merged(operator: str, x: Value, a: Value, b: Value) -> list[int] | None:
    """Return the axes of both in terms of the biggest tensor."""
    first, second = ints_of(a), ints_of(b)
    if not first or not second:
        return None
    dims = dims_of(x)
    if dims is None and min(*first, *second) < 0:
        return None
    rank = 0 if dims is None else len(dims)
    if operator == "Unsqueeze":
        middle = rank + len(first)
        outer = {axis % (middle + len(second)) if axis < 0 else axis for axis in second}
        inner = {axis % middle if axis < 0 else axis for axis in first}
        size = max(middle + len(second), *outer, *inner) + len(inner) + len(outer)
        free = [axis for axis in range(size) if axis not in outer]
        return sorted(outer | {free[axis] for axis in inner})
    inner = {axis % rank if axis < 0 else axis for axis in first}
    outer = {axis % (rank - len(inner)) if axis < 0 else axis for axis in second}
    size = max(rank, *inner, *outer) + len(inner) + 1
    free = [axis for axis in range(size) if axis not in inner]
    return sorted(inner | {free[axis] for axis in outer})
