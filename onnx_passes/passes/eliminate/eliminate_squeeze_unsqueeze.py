"""Remove a Squeeze and an Unsqueeze that undo each other."""

from collections.abc import Iterator

from onnx_passes import passes
from onnx_passes.passes.base import Op, RewriteRuleSetPass, Rule, Transformation, Value
from onnx_passes.passes.common.shapes import counted, ints_of, rank_of


@passes.verify.equality
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

    def rules(self) -> Iterator[Rule]:
        def closes(context: object, x: Value, a: Value, b: Value) -> bool:
            return _same(a, b, rank_of(x))

        def opens(context: object, x: Value, a: Value, b: Value) -> bool:
            rank, taken = rank_of(x), ints_of(a) or ()
            return _same(a, b, None if rank is None else rank + len(taken))

        yield Rule(lambda op, x, a, b: op.Unsqueeze(op.Squeeze(x, a), b), _first, closes)
        yield Rule(lambda op, x, a, b: op.Squeeze(op.Unsqueeze(x, a), b), _first, opens)


def _same(a: Value, b: Value, rank: int | None) -> bool:
    """Whether both name the same axes of the bigger tensor; their order does not matter."""
    first, second = ints_of(a), ints_of(b)
    if first is None or second is None:
        return False
    one, other = counted(first, rank), counted(second, rank)
    return sorted(first) == sorted(second) or (one is not None and one == other)


def _first(op: Op, x: Value, a: Value, b: Value) -> Value:
    return x
