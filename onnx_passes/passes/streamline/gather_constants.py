"""Move constants together in operations whose grouping does not matter."""

from collections.abc import Callable

import numpy as np

from onnx_passes import passes
from onnx_passes.ops.operator_class import Operator
from onnx_passes.passes.common.rules import RulePass, TermRule, Values, call, law
from onnx_passes.passes.constants import constant_of
from onnx_passes.passes.streamline._rule_constants import commuting, is_kind, numbers


@passes.verify.equality
@passes.register("algebraic")
class GatherConstants(RulePass):
    """Move constants together in operations whose grouping does not matter.

    Before: ``And(c, x)``, ``And(And(x, c), d)``, ``And(And(x, c), y)``
    After:  ``And(x, c)``, ``And(x, And(c, d))``, ``And(And(x, y), c)``, which the rule before
            meets again; ``fold-constants`` makes one constant of two

    So are Or and Xor, Min and Max, the bitwise kin, and Add and Mul of integers.

    Sound because these are commutative and associative in the arithmetic of their types:
    integers wrap around the same way in any order, and NaN goes through Min and Max.

    Leaves alone: sums and products of floats, which round (``gather-terms``); constants that
    are bigger together; values between that something else reads.
    """

    needs = ("shape-inference",)
    exclusive = True

    def table(self) -> list[TermRule]:
        return _LAWS


def _laws(operator: Operator) -> list[TermRule]:
    f = operator.op_type

    def exact(holds: Callable[[Values], bool]) -> Callable[[Values], bool]:
        def both(values: Values) -> bool:
            kinds = operator.algebra.associative
            return is_kind(kinds, *values.values()) and holds(values)

        return both

    return [
        law(call(f, "c", "x"), call(f, "x", "c"), exact(_is_computed)),
        law(call(f, call(f, "x", "c"), "d"), call(f, "x", call(f, "c", "d")), exact(_fit)),
        law(call(f, call(f, "x", "c"), "y"), call(f, call(f, "x", "y"), "c"), exact(_is_one)),
        law(call(f, "y", call(f, "x", "c")), call(f, call(f, "y", "x"), "c"), exact(_is_one)),
    ]


def _is_computed(values: Values) -> bool:
    return numbers(values["c"]) is not None and constant_of(values["x"]) is None


def _fit(values: Values) -> bool:
    """Whether both constants together are at most as big as one of them."""
    both = [numbers(values[name]) for name in "cd"]
    shapes = [array.shape for array in both if array is not None]
    if len(shapes) < 2 or constant_of(values["x"]) is not None:
        return False
    try:
        shape = np.broadcast_shapes(*shapes)
    except ValueError:
        return False  # they do not broadcast with each other
    return int(np.prod(shape)) <= max(int(np.prod(one)) for one in shapes)


def _is_one(values: Values) -> bool:
    return _is_computed(values) and constant_of(values["y"]) is None


_LAWS = [rule for operator in commuting() for rule in _laws(operator)]
