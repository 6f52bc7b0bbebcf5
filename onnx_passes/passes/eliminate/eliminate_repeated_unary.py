"""Remove operators that undo or repeat the one before."""

from collections.abc import Iterator
from functools import partial

from onnx_passes import passes
from onnx_passes.ops import activations, elementwise  # noqa: F401 (makes operators known)
from onnx_passes.ops.elementwise import Primitive, Variadic
from onnx_passes.ops.operator_class import operators
from onnx_passes.passes.base import Op, RewriteRuleSetPass, Rule, Transformation, Value, Var

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

    def rules(self) -> Iterator[Rule]:
        for name in UNDOES:
            yield Rule(partial(_pair, name, name), _operand)
        for inner, outer in REPEATS:
            even = (inner, outer) in _EVEN
            yield Rule(
                partial(_pair, inner, outer), partial(_outer, outer) if even else _between
            )


def _pair(inner: str, outer: str, op: Op, x: Var) -> Var:
    return getattr(op, outer)(getattr(op, inner)(x, _outputs=["between"]))


def _outer(operator: str, op: Op, x: Value, between: Value) -> Value:
    return getattr(op, operator)(x)


def _operand(op: Op, x: Value, between: Value) -> Value:
    return x


def _between(op: Op, x: Value, between: Value) -> Value:
    return between
