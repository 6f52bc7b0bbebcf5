"""Take out a Squeeze and an Unsqueeze that undo each other."""

from typing import Any

from onnx_passes import passes
from onnx_passes.passes._support.shapes import ints_of
from onnx_passes.passes.base import Op, RewriteRuleSetPass, Transformation, Value, Var


@passes.verify.equality
@passes.register()
@passes.register("eliminate")
class EliminateSqueezeUnsqueeze(Transformation, RewriteRuleSetPass):
    """Take out a Squeeze and an Unsqueeze that undo each other.

    Before: ``Unsqueeze(Squeeze(x, [1]), [1])``, ``Squeeze(Unsqueeze(x, [1]), [1])``
    After:  ``x``

    Sound because both name the same axes of the same rank: what one takes away the other
    puts back.

    Leaves alone: axes that are computed, left out, or given as attributes (before opset 13);
    the same axes in other numbers (1 and -1).
    """

    def pattern(self) -> list[Any]:
        def closes(op: Op, x: Var, a: Var, b: Var) -> Var:
            return op.Unsqueeze(op.Squeeze(x, a), b)

        def opens(op: Op, x: Var, a: Var, b: Var) -> Var:
            return op.Squeeze(op.Unsqueeze(x, a), b)

        return [closes, opens]

    def check(self) -> list[Any]:
        def same(context: Any, x: Value, a: Value, b: Value) -> bool:
            first, second = ints_of(a), ints_of(b)
            if first is None or second is None:
                return False
            # The order does not matter: the axes are those of the bigger tensor for both.
            return sorted(first) == sorted(second)

        return [same, same]

    def rewrite(self) -> list[Any]:
        return [_first, _first]


def _first(op: Op, x: Value, a: Value, b: Value) -> Value:
    return x
