"""Remove a Where whose condition is known, or does not matter."""

from collections.abc import Iterator

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.passes.base import Op, RewriteRuleSetPass, Rule, Transformation, Value, Var
from onnx_passes.passes.common.shapes import widens
from onnx_passes.passes.constants import constant_of


@passes.verify.equality
@passes.register("eliminate")
class EliminateConstantWhere(Transformation, RewriteRuleSetPass):
    """Remove a Where whose condition is known, or does not matter.

    Before: ``Where(true, x, y)``, ``Where(false, y, x)``, ``Where(c, x, x)``
    After:  ``x``

    Sound because one operand is taken everywhere, and has the shape of the result.

    Leaves alone: an operand that is broadcast to the shape of the others.
    """

    needs = ("shape-inference",)

    def rules(self) -> Iterator[Rule]:
        def of_two(op: Op, c: Var, x: Var, y: Var) -> Var:
            return op.Where(c, x, y)

        def first(context: object, c: Value, x: Value, y: Value) -> bool:
            return (x is y or _always(c, True)) and not widens(x, c) and not widens(x, y)

        def second(context: object, c: Value, x: Value, y: Value) -> bool:
            return _always(c, False) and not widens(y, c) and not widens(y, x)

        yield Rule(of_two, lambda op, x, **_: x, first)
        yield Rule(of_two, lambda op, y, **_: y, second)


def _always(condition: ir.Value, wanted: bool) -> bool:
    tensor = constant_of(condition)
    return tensor is not None and bool((tensor.numpy() == wanted).all())
