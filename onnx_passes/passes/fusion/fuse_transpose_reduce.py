"""Fuse a Transpose into the reduction that reads it."""

from collections.abc import Iterator
from functools import partial

import numpy as np
import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.passes.base import Op, RewriteRuleSetPass, Rule, Transformation, Value, Var
from onnx_passes.passes.common.matches import node_of
from onnx_passes.passes.common.shapes import axes_of, counted
from onnx_passes.plain import PlainDict

REDUCTIONS = (
    *("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1"),
    *("ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceSumSquare"),
)


@passes.verify.tolerance
@passes.register("fuse")
class FuseTransposeReduce(Transformation, RewriteRuleSetPass):
    """Fuse a Transpose into the reduction that reads it.

    Before: ``ReduceMean<keepdims = 0>(Transpose<perm = [0, 2, 3, 1]>(x), [1, 2])``
    After:  ``ReduceMean<keepdims = 0>(x, [2, 3])``

    Sound because the axes that are left keep their order, so that the Transpose moves nothing
    but what is reduced. The contract is a tolerance: sums are taken in another order.

    Leaves alone: axes that are computed or left out; ``keepdims``; axes that are left in
    another order; a Transpose without a permutation, or that something else reads.
    """

    exclusive = True

    def rules(self) -> Iterator[Rule]:
        for name in REDUCTIONS:
            yield Rule(partial(_turned, name), _reduced, _keeps_order)


def _turned(operator: str, op: Op, x: Var) -> Var:
    t = op.Transpose(x, _outputs=["t"])
    return getattr(op, operator)(t, _allow_other_inputs=True, _outputs=["y"])


def _keeps_order(context: object, t: Value, y: Value, **_: object) -> bool:
    return _axes(t, y) is not None


def _axes(t: Value, y: Value) -> list[int] | None:
    node, perm = node_of(y), node_of(t).attributes.get_ints("perm") or ()
    axes = counted(axes_of(node), len(perm) or None)
    if not perm or axes is None or node.attributes.get_int("keepdims", True):
        return None
    left = [source for place, source in enumerate(perm) if place not in axes]
    if left != sorted(left) or any(axis >= len(perm) for axis in axes):
        return None
    return sorted(perm[axis] for axis in axes)


def _reduced(op: Op, x: Value, t: Value, y: Value, **_: object) -> Value:
    node, axes = node_of(y), _axes(t, y)
    attributes: PlainDict = dict(node.attributes)
    inputs: list[Value] = [x]
    if "axes" in attributes:
        attributes["axes"] = axes
    else:
        inputs.append(op.Constant(value=ir.tensor(np.array(axes, np.int64))))
    return getattr(op, node.op_type)(*inputs, **attributes)
