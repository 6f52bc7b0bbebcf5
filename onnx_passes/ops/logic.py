"""Comparisons, logic and bits, each element by itself."""

from __future__ import annotations

import onnx_ir as ir

from onnx_passes.ops.call import Call
from onnx_passes.ops.elementwise_base import Elementwise, Primitive, ScalarRule
from onnx_passes.ops.input_hints import ValueHint, between
from onnx_passes.ops.operator_class import Algebra, Element
from onnx_passes.ops.primitives import TypedPrimitives
from onnx_passes.ops.semantics import Scalar, Unsupported
from onnx_passes.ops.suggestions import Choices, Known, Operand, conditions
from onnx_passes.ops.use import Use


class Equal(Primitive):
    """Whether two numbers are equal; NaN equals nothing."""

    primitive, boolean, ties = "equal", True, True
    algebra = Algebra(commutative=True)


class Less(Primitive):
    """Whether the first number is below the second."""

    primitive, boolean, ties = "less", True, True
    algebra = Algebra(monotone={0: -1, 1: 1})


class LessOrEqual(Primitive):
    """Whether the first number is not above the second."""

    primitive, boolean, ties = "less_equal", True, True
    algebra = Algebra(monotone={0: -1, 1: 1})


class Greater(Elementwise):
    """Whether the first number is above the second."""

    boolean, ties = True, True
    algebra = Algebra(monotone={0: 1, 1: -1})

    def formula(self, a: TypedPrimitives, x: Scalar, y: Scalar) -> Scalar:
        return a.less(y, x)


class GreaterOrEqual(Elementwise):
    """Whether the first number is not below the second."""

    boolean, ties = True, True
    algebra = Algebra(monotone={0: 1, 1: -1})

    def formula(self, a: TypedPrimitives, x: Scalar, y: Scalar) -> Scalar:
        return a.less_equal(y, x)


class IsNaN(Primitive):
    """Whether an element is not a number."""

    primitive, boolean = "is_nan", True
    algebra = Algebra(even=True)


class IsInf(Elementwise):
    """Whether an element is infinite, above or below as the attributes say."""

    boolean = True

    def scalar(self, call: Call) -> ScalarRule:
        boolean = ir.DataType.BOOL
        a = call.primitives(call.required(0).dtype)
        positive, negative = call.flag("detect_positive", 1), call.flag("detect_negative", 1)
        if not positive and not negative:
            return lambda _: call.literal(0, boolean), boolean
        suffix = "" if positive and negative else "_positive" if positive else "_negative"
        return getattr(a, f"is_inf{suffix}"), boolean


class _OfConditions(Primitive, abstract=True):
    """An operator on booleans."""

    def suggest(self, c: Choices, index: int, known: Known) -> Operand:
        return conditions(c, known)


class Not(_OfConditions):
    """The contrary."""

    primitive = "not"
    algebra = Algebra(involution=True, inverse="Not", monotone={0: -1})


def _lattice(neutral: float, absorbing: float, kinds: str) -> Algebra:
    """Return the laws of a conjunction or disjunction."""
    return Algebra(
        commutative=True,
        associative=kinds,
        neutral={0: Element(neutral, kinds), 1: Element(neutral, kinds)},
        absorbing={0: Element(absorbing, kinds), 1: Element(absorbing, kinds)},
        idempotent=True,
        monotone={0: 1, 1: 1} if kinds == "b" else {},
    )


def _parity(kinds: str) -> Algebra:
    """Return the laws of an exclusive disjunction."""
    neutral = Element(0, kinds)
    return Algebra(commutative=True, associative=kinds, neutral={0: neutral, 1: neutral})


class And(_OfConditions):
    """Whether both hold."""

    primitive = "and"
    algebra = _lattice(1, 0, "b")


class Or(_OfConditions):
    """Whether one holds."""

    primitive = "or"
    algebra = _lattice(0, 1, "b")


class Xor(_OfConditions):
    """Whether exactly one holds."""

    primitive = "xor"
    algebra = _parity("b")


class BitwiseAnd(Primitive):
    """The bits that both have."""

    primitive = "bit_and"
    algebra = _lattice(-1, 0, "i")


class BitwiseOr(Primitive):
    """The bits that one has."""

    primitive = "bit_or"
    algebra = _lattice(0, -1, "i")


class BitwiseXor(Primitive):
    """The bits that exactly one has."""

    primitive = "bit_xor"
    algebra = _parity("i")


class BitwiseNot(Primitive):
    """The contrary of each bit."""

    primitive = "bit_not"
    algebra = Algebra(involution=True, inverse="BitwiseNot")


class BitShift(Elementwise):
    """The bits, moved to the left or the right."""

    algebra = Algebra(neutral={1: Element(0, "i")})

    def scalar(self, call: Call) -> ScalarRule:
        dtype = call.required(0).dtype
        if dtype.is_signed():
            raise Unsupported("BitShift of signed integers")  # from opset 28 on
        name = f"shift_{call.text('direction', '').lower()}"
        return getattr(call.primitives(dtype), name), dtype

    def admits(self, use: Use) -> ValueHint | None:
        value = use.input(0)
        bits = 8 if value is None or value.dtype is None else int(value.dtype.itemsize * 8)
        return between(0, bits - 1) if use.index == 1 else None
