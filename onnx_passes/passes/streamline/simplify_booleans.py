"""Let Not stand at one place instead of two."""

from __future__ import annotations

from typing import Any, ClassVar

from onnx_passes import passes
from onnx_passes.passes.base import Op, RewriteRuleSetPass, Transformation, Value, Var


@passes.verify.equality
@passes.register()
@passes.register("algebraic")
class SimplifyBooleans(Transformation, RewriteRuleSetPass):
    """Let Not stand at one place instead of two.

    Before: ``And(Not(a), Not(b))``, ``Or(Not(a), Not(b))``, ``Xor(Not(a), Not(b))``,
            ``Not(Not(a))``
    After:  ``Not(Or(a, b))``, ``Not(And(a, b))``, ``Xor(a, b)``, ``a``

    Sound because of the laws of De Morgan, and because two negations undo each other.

    Leaves alone: a Not that something else reads.
    """

    exclusive: ClassVar[bool] = True

    def pattern(self) -> list[Any]:
        def both(op: Op, a: Var, b: Var) -> Var:
            return op.And(op.Not(a), op.Not(b))

        def either(op: Op, a: Var, b: Var) -> Var:
            return op.Or(op.Not(a), op.Not(b))

        def differ(op: Op, a: Var, b: Var) -> Var:
            return op.Xor(op.Not(a), op.Not(b))

        def twice(op: Op, a: Var) -> Var:
            return op.Not(op.Not(a))

        return [both, either, differ, twice]

    def rewrite(self) -> list[Any]:
        def both(op: Op, a: Value, b: Value) -> Any:
            return op.Not(op.Or(a, b))

        def either(op: Op, a: Value, b: Value) -> Any:
            return op.Not(op.And(a, b))

        def differ(op: Op, a: Value, b: Value) -> Any:
            return op.Xor(a, b)

        def twice(op: Op, a: Value) -> Any:
            return op.Identity(a)

        return [both, either, differ, twice]
