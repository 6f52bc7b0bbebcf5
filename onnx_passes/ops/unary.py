"""Elementary functions of one number: absolute value, rounding, root, logarithm, ..."""

from __future__ import annotations

from onnx_passes.ops.elementwise_base import Elementwise, Primitive
from onnx_passes.ops.input_hints import ValueHint, between
from onnx_passes.ops.operator_class import Algebra
from onnx_passes.ops.primitives import TypedPrimitives
from onnx_passes.ops.semantics import Scalar

POSITIVE, NONZERO = between(0.1, None), ValueHint(nonzero=True)


class Identity(Elementwise):
    """The operand."""

    moves, view = (0,), True
    algebra = Algebra(idempotent=True, involution=True, monotone={0: 1}, linear=(0,))

    def formula(self, a: TypedPrimitives, x: Scalar) -> Scalar:
        return x


class Abs(Primitive):
    """The absolute value."""

    primitive = "abs"
    algebra = Algebra(idempotent=True, even=True)
    kinks = (0.0,)


class Neg(Primitive):
    """The negative."""

    primitive = "neg"
    algebra = Algebra(involution=True, inverse="Neg", monotone={0: -1}, linear=(0,))


class Sign(Primitive):
    """-1, 0 or 1."""

    primitive = "sign"
    algebra = Algebra(idempotent=True, monotone={0: 1})
    kinks = (0.0,)


_INTEGRAL = ("Ceil", "Floor", "Round")


_STEPS = (-1.0, 0.0, 1.0, 2.0)


class Floor(Primitive):
    """The greatest integer that is not above."""

    primitive = "floor"
    algebra = Algebra(idempotent=True, monotone={0: 1}, fixes=_INTEGRAL)
    kinks = _STEPS


class Ceil(Primitive):
    """The least integer that is not below."""

    primitive = "ceil"
    algebra = Algebra(idempotent=True, monotone={0: 1}, fixes=_INTEGRAL)
    kinks = _STEPS


class Round(Primitive):
    """The nearest integer; the even one of two."""

    primitive = "round"
    algebra = Algebra(idempotent=True, monotone={0: 1}, fixes=_INTEGRAL)
    kinks = (-1.5, -0.5, 0.5, 1.5, 2.5)


class Sqrt(Primitive):
    """The square root."""

    primitive = "sqrt"
    algebra = Algebra(monotone={0: 1})
    domain_of = ((0, POSITIVE),)


class Exp(Primitive):
    """The exponential."""

    primitive = "exp"
    algebra = Algebra(monotone={0: 1}, inverse="Log")


class Log(Primitive):
    """The natural logarithm."""

    primitive = "log"
    algebra = Algebra(monotone={0: 1}, inverse="Exp")
    domain_of = ((0, POSITIVE),)


class Reciprocal(Elementwise):
    """One divided by the operand."""

    domain_of = ((0, NONZERO),)

    def formula(self, a: TypedPrimitives, x: Scalar) -> Scalar:
        return a.div(1, x)
