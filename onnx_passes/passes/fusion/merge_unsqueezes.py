"""Merge two Unsqueeze in a row, or two Squeeze."""

from typing import Any, ClassVar

import numpy as np
import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.passes._support.axes import axes_of, beyond, counted, rank_of
from onnx_passes.passes._support.matches import node_of
from onnx_passes.passes.base import Op, RewriteRuleSetPass, Transformation, Value, Var

OPERATORS = ("Unsqueeze", "Squeeze")


@passes.verify.equality
@passes.register()
@passes.register("fuse")
class MergeUnsqueezes(Transformation, RewriteRuleSetPass):
    """Merge two Unsqueeze in a row, or two Squeeze.

    Before: ``Unsqueeze(Unsqueeze(x, [0]), [2])``, ``Squeeze(Squeeze(x, [0]), [1])``
    After:  ``Unsqueeze(x, [0, 2])``, ``Squeeze(x, [0, 2])``

    Sound because the axes of both are axes of the bigger tensor, counted past each other.

    Leaves alone: axes that are computed or left out; negative axes of a tensor of unknown
    rank; a tensor between that something else reads.
    """

    requires: ClassVar[Any] = ("shape-inference",)
    exclusive = True

    def pattern(self) -> list[Any]:
        return [_Pair(name) for name in OPERATORS]

    def check(self) -> list[Any]:
        return [_count for _ in OPERATORS]

    def rewrite(self) -> list[Any]:
        return [_merged for _ in OPERATORS]


class _Pair:
    def __init__(self, operator: str) -> None:
        self.operator = operator

    def __call__(self, op: Op, x: Var) -> Var:
        call = getattr(op, self.operator)
        t = call(x, _allow_other_inputs=True, _outputs=["t"])
        return call(t, _allow_other_inputs=True, _outputs=["y"])


def _count(context: Any, x: Value, t: Value, y: Value, **_: Any) -> bool:
    return _axes(x, node_of(t), node_of(y)) is not None


def _merged(op: Op, x: Value, t: Value, y: Value, **_: Any) -> Value:
    outer = node_of(y)
    axes = _axes(x, node_of(t), outer)
    made: Value
    if "axes" in outer.attributes:  # before opset 13
        made = getattr(op, outer.op_type)(x, axes=axes)
    else:
        given = op.Constant(value=ir.tensor(np.array(axes, np.int64)))
        made = getattr(op, outer.op_type)(x, given)
    return made


def _axes(x: Value, inner: ir.Node, outer: ir.Node) -> list[int] | None:
    first, second, rank = axes_of(inner), axes_of(outer), rank_of(x)
    if first is None or second is None:
        return None
    grows = inner.op_type == "Unsqueeze"
    between = None if rank is None else rank + len(first) * (1 if grows else -1)
    last = None if between is None else between + len(second)
    inside = counted(first, between if grows else rank)
    outside = counted(second, last if grows else between)
    if inside is None or outside is None:
        return None
    if grows:
        return sorted([*outside, *beyond(outside, inside)])
    return sorted([*inside, *beyond(inside, outside)])
