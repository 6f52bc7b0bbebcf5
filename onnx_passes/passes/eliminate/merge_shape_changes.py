"""Replace two operators that only change a shape by one Reshape."""

from collections.abc import Iterator
from functools import partial

import numpy as np
import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.passes.base import MatchContext, Op, Rule, Value, Var
from onnx_passes.passes.common.shapes import Dim, dims_of, ints_of

SHAPERS = ("Reshape", "Flatten", "Squeeze", "Unsqueeze")
PAIRS = tuple(
    (inner, outer)
    for inner in SHAPERS
    for outer in SHAPERS
    if {inner, outer} & {"Reshape", "Flatten"}
)


@passes.verify.equality
@passes.register("eliminate")
class MergeShapeChanges(passes.Transformation, passes.RewriteRuleSetPass):
    """Replace two operators that only change a shape by one Reshape.

    Before: ``Squeeze(Reshape(x, [-1, 1, 6]), [1])`` of a result of shape [n, 6]
    After:  ``Reshape(x, [-1, 6])``

    Sound because all four keep the order of the elements, and the shape of the result is
    known. A dimension that the first tensor has in the same place is copied (0), and one other
    may be inferred (-1).

    Leaves alone: results with more unknown dimensions than that, or with an empty one; a
    tensor between that something else reads; a Reshape to a target of its own, which
    eliminate-double-reshape takes.
    """

    needs = ("shape-inference",)
    exclusive = True

    def rules(self) -> Iterator[Rule]:
        def expressible(context: MatchContext, x: Value, y: Value) -> bool:
            if _stands_alone(context.root) or _has_no_axes(context.root):
                return False
            return _target(x, y) is not None

        for pair in PAIRS:
            yield Rule(partial(_twice, *pair), _once, expressible)


def _twice(inner: str, outer: str, op: Op, x: Var) -> Var:
    between = getattr(op, inner)(x, _allow_other_inputs=True)
    return getattr(op, outer)(between, _allow_other_inputs=True, _outputs=["y"])


def _once(op: Op, x: Value, y: Value) -> Value:
    target = np.array(_target(x, y), dtype=np.int64)
    return op.Reshape(x, op.Constant(value=ir.tensor(target)))


def _stands_alone(node: ir.Node) -> bool:
    """Whether a Reshape describes its result by itself."""
    if node.op_type != "Reshape":
        return False
    target = ints_of(node.inputs[1])
    return target is None or 0 not in target or bool(node.attributes.get_int("allowzero", 0))


def _has_no_axes(node: ir.Node) -> bool:
    """Whether a list of axes is empty, which ONNX Runtime takes for none at all."""
    return len(node.inputs) == 2 and ints_of(node.inputs[1]) == []


def _target(x: Value, y: Value) -> list[int] | None:
    """Return what a Reshape of ``x`` must aim at to have the shape of ``y``."""
    source, wanted = dims_of(x), dims_of(y)
    if wanted is None or 0 in wanted:
        return None
    if y.is_graph_output():
        # Names of the user's outputs say nothing of the inside.
        wanted = [dim if isinstance(dim, int) else None for dim in wanted]
    unknown = [axis for axis, dim in enumerate(wanted) if not isinstance(dim, int)]
    if len(unknown) <= 1:
        return [dim if isinstance(dim, int) else -1 for dim in wanted]
    if not all(_is_copied(axis, source, wanted) for axis in unknown):
        return None  # to infer beside a copy is refused where the copy is empty
    return [dim if isinstance(dim, int) else 0 for dim in wanted]


def _is_copied(axis: int, source: list[Dim] | None, wanted: list[Dim]) -> bool:
    return (
        source is not None
        and axis < len(source)
        and wanted[axis] is not None
        and wanted[axis] == source[axis]
    )
