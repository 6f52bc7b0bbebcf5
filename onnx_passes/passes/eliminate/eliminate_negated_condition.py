"""Remove the negation of a condition, and swap what it chooses from."""

from onnx_passes import passes
from onnx_passes.passes.base import Op, RewriteRulePass, Transformation, Value, Var


@passes.verify.equality
@passes.register("eliminate")
class EliminateNegatedCondition(Transformation, RewriteRulePass):
    """Remove the negation of a condition, and swap what it chooses from.

    Before: ``Where(Not(c), x, y)``
    After:  ``Where(c, y, x)``

    Sound because a condition is true or false, and what is taken stays what it was. Zeros are
    equal whatever their sign. ONNX Runtime adds both choices, with zero for the one that is
    not taken, and keeps the sign of a negative zero for one order of them alone.

    Leaves alone: a negation that something else reads, as it is computed anyway.
    """

    exclusive = True

    def pattern(self, op: Op, c: Var, x: Var, y: Var) -> Var:
        return op.Where(op.Not(c), x, y)

    def rewrite(self, op: Op, c: Value, x: Value, y: Value) -> Value:
        return op.Where(c, y, x)
