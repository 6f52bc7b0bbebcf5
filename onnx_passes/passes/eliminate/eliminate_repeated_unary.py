"""Remove operators that undo or repeat the one before."""

from typing import Any

from onnx_passes import passes
from onnx_passes.ops import activations, logic  # noqa: F401 (makes operators known)
from onnx_passes.ops.base import operators
from onnx_passes.ops.elementwise import Variadic
from onnx_passes.ops.elementwise_base import Primitive
from onnx_passes.passes.base import Op, RewriteRuleSetPass, Transformation, Value, Var

_UNARY = tuple(o for o in operators() if o.elementwise and not o.moves and not o.domain)
UNDOES = tuple(o.op_type for o in _UNARY if o.algebra.involution)
_FIXED = tuple((inner, o.op_type) for o in _UNARY for inner in o.algebra.fixes)
_TWICE = tuple(
    (o.op_type, o.op_type)
    for o in _UNARY
    if o.algebra.idempotent and isinstance(o, Primitive) and not isinstance(o, Variadic)
    if not o.algebra.fixes and not o.algebra.commutative
)
_EVEN = tuple(("Neg", o.op_type) for o in _UNARY if o.algebra.even and o.algebra.idempotent)
REPEATS = (*_TWICE, *_FIXED, *_EVEN)
"""Pairs of operators, inner and outer, and which of them is not needed."""


@passes.verify.equality
@passes.register()
@passes.register("eliminate")
class EliminateRepeatedUnary(Transformation, RewriteRuleSetPass):
    """Remove operators that undo or repeat the one before.

    Before: ``Not(Not(x))``, ``Neg(Neg(x))``; ``Abs(Abs(x))``, ``Floor(Ceil(x))``;
            ``Abs(Neg(x))``
    After:  ``x``; ``Abs(x)``, ``Ceil(x)``; ``Abs(x)``

    Sound because negation flips a bit, or wraps the same way twice. Abs, Relu and Sign leave
    their own results as they are, and roundings those of each other. The sign is lost in Abs.

    Leaves alone: any other pair, such as Neg of Abs.
    """

    def pattern(self) -> list[Any]:
        return [_UnaryPair(name, name) for name in UNDOES] + [
            _UnaryPair(*pair) for pair in REPEATS
        ]

    def rewrite(self) -> list[Any]:
        return [_operand for _ in UNDOES] + [
            _Outer(pair[1]) if pair in _EVEN else _between for pair in REPEATS
        ]


class _UnaryPair:
    def __init__(self, inner: str, outer: str) -> None:
        self.inner, self.outer = inner, outer

    def __call__(self, op: Op, x: Var) -> Var:
        return getattr(op, self.outer)(getattr(op, self.inner)(x, _outputs=["between"]))


class _Outer:
    def __init__(self, operator: str) -> None:
        self.operator = operator

    def __call__(self, op: Op, x: Value, between: Value) -> Value:
        return getattr(op, self.operator)(x)


def _operand(op: Op, x: Value, between: Value) -> Value:
    return x


def _between(op: Op, x: Value, between: Value) -> Value:
    return between
