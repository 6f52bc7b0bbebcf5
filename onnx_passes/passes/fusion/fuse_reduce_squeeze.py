"""Fuse a reduction and the Squeeze or Unsqueeze of its axes."""

from collections.abc import Iterator
from functools import partial
from itertools import product

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.passes.base import Op, RewriteRuleSetPass, Rule, Transformation, Value, Var
from onnx_passes.passes.common.matches import node_of
from onnx_passes.passes.common.shapes import axes_of, counted, rank_of

REDUCTIONS = (
    *("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1"),
    *("ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceSumSquare", "ArgMax", "ArgMin"),
)


@passes.verify.equality
@passes.register("fuse")
class FuseReduceSqueeze(Transformation, RewriteRuleSetPass):
    """Fuse a reduction and the Squeeze or Unsqueeze of its axes.

    Before: ``Squeeze(ReduceMean<keepdims = 1>(x, [1]), [1])``,
            ``Unsqueeze(ReduceMax<keepdims = 0>(x, [1]), [1])``
    After:  ``ReduceMean<keepdims = 0>(x, [1])``, ``ReduceMax<keepdims = 1>(x, [1])``

    Sound because ``keepdims`` decides about the shape only, and both name the same axes of the
    tensor that is reduced. ArgMax and ArgMin too.

    Leaves alone: axes that are computed, left out, or not the same; the same axes in other
    numbers (1 and -1) where the rank is not known; ArgMax and ArgMin of a scalar, or of a
    tensor whose rank is not known; a reduction that something else reads.
    """

    needs = ("shape-inference",)
    exclusive = True

    def rules(self) -> Iterator[Rule]:
        for pair in product(REDUCTIONS, ("Squeeze", "Unsqueeze")):
            yield Rule(partial(_changed, *pair), _reduced, _same_axes)


def _changed(operator: str, then: str, op: Op, x: Var) -> Var:
    t = getattr(op, operator)(x, _allow_other_inputs=True, _outputs=["t"])
    return getattr(op, then)(t, _allow_other_inputs=True, _outputs=["y"])


def _same_axes(context: object, x: Value, t: Value, y: Value, **_: object) -> bool:
    reduction, last = node_of(t), node_of(y)
    keeps = bool(reduction.attributes.get_int("keepdims", True))
    if keeps != (last.op_type == "Squeeze"):
        return False
    first, second = _axes(reduction), axes_of(last)
    if first is None or second is None:
        return False
    # Axes of the result before a Squeeze and behind an Unsqueeze are those of x.
    rank = rank_of(x)
    if rank == 0 or (rank is None and reduction.op_type.startswith("Arg")):
        return False  # engines take an ArgMax of a scalar, and keep no axis of it
    mine, theirs = counted(first, rank), counted(second, rank)
    if mine is None or theirs is None:
        mine, theirs = sorted(first), sorted(second)
    return mine == theirs


def _axes(node: ir.Node) -> list[int] | None:
    # Without an axis, ArgMax and ArgMin take the first.
    return axes_of(node) or ([0] if node.op_type.startswith("Arg") else None)


def _reduced(op: Op, x: Value, t: Value, y: Value, **_: object) -> Value:
    node = node_of(t)
    keeps = 0 if node_of(y).op_type == "Squeeze" else 1
    attributes = {**node.attributes, "keepdims": keeps}
    return getattr(op, node.op_type)(x, *node.inputs[1:], **attributes)
