"""Remove a Squeeze and an Unsqueeze that undo each other."""

from typing import Any

from onnx_passes import passes
from onnx_passes.passes._support.axes import counted, rank_of
from onnx_passes.passes._support.shapes import ints_of
from onnx_passes.passes.base import Op, RewriteRuleSetPass, Transformation, Value, Var


@passes.verify.equality
@passes.register()
@passes.register("eliminate")
class EliminateSqueezeUnsqueeze(Transformation, RewriteRuleSetPass):
    """Remove a Squeeze and an Unsqueeze that undo each other.

    Before: ``Unsqueeze(Squeeze(x, [1]), [1])``, ``Squeeze(Unsqueeze(x, [1]), [1])``
    After:  ``x``

    Sound because both name the same axes of the same rank: what one takes away the other
    puts back.

    Leaves alone: axes that are computed, left out, or given as attributes (before opset 13);
    the same axes in other numbers (1 and -1) where the rank is not known.
    """

    needs = ("shape-inference",)

    def pattern(self) -> list[Any]:
        def closes(op: Op, x: Var, a: Var, b: Var) -> Var:
            return op.Unsqueeze(op.Squeeze(x, a), b)

        def opens(op: Op, x: Var, a: Var, b: Var) -> Var:
            return op.Squeeze(op.Unsqueeze(x, a), b)

        return [closes, opens]

    def check(self) -> list[Any]:
        def closes(context: object, x: Value, a: Value, b: Value) -> bool:
            return _same(a, b, rank_of(x))

        def opens(context: object, x: Value, a: Value, b: Value) -> bool:
            rank, taken = rank_of(x), ints_of(a)
            return _same(a, b, None if rank is None or taken is None else rank + len(taken))

        return [closes, opens]

    def rewrite(self) -> list[Any]:
        return [_first, _first]


def _same(a: Value, b: Value, rank: int | None) -> bool:
    """Whether both name the same axes of the bigger tensor; their order does not matter."""
    first, second = ints_of(a), ints_of(b)
    if first is None or second is None:
        return False
    one, other = counted(first, rank), counted(second, rank)
    return sorted(first) == sorted(second) or (one is not None and one == other)


def _first(op: Op, x: Value, a: Value, b: Value) -> Value:
    return x
