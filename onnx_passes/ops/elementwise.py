"""Operators that act on each element by itself: arithmetic, extremes, choices and casts."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import reduce

import onnx_ir as ir

from onnx_passes.model.fields import named_type
from onnx_passes.ops import early_changes, later_changes
from onnx_passes.ops.call import Call, Tensor
from onnx_passes.ops.domains.block_values import Node
from onnx_passes.ops.elementwise_base import Elementwise as Elementwise
from onnx_passes.ops.elementwise_base import Primitive, ScalarRule
from onnx_passes.ops.elementwise_base import Variadic as Variadic
from onnx_passes.ops.input_hints import ValueHint, between
from onnx_passes.ops.operator_class import Algebra, Element, Operator
from onnx_passes.ops.primitives import TypedPrimitives
from onnx_passes.ops.semantics import Scalar, Unsupported, is_float
from onnx_passes.ops.suggestions import Choices, Known, Operand, conditions
from onnx_passes.ops.unary import NONZERO, POSITIVE
from onnx_passes.ops.use import Use


class Add(Primitive):
    """The sum."""

    primitive = "add"
    # A float plus +0 turns -0 into +0.
    algebra = Algebra(
        commutative=True,
        associative="i",
        neutral={0: Element(-0.0, "if"), 1: Element(-0.0, "if")},
        inverse="Sub",
        monotone={0: 1, 1: 1},
        affine=(0, 1),
    )


class Sub(Primitive):
    """The difference."""

    primitive = "sub"
    algebra = Algebra(
        neutral={1: Element(0.0, "if")},
        inverse="Add",
        monotone={0: 1, 1: -1},
        affine=(0, 1),
    )


class Mul(Primitive):
    """The product."""

    primitive = "mul"
    algebra = Algebra(
        commutative=True,
        associative="i",
        neutral={0: Element(1, "if"), 1: Element(1, "if")},
        absorbing={0: Element(0, "i"), 1: Element(0, "i")},
        inverse="Div",
        linear=(0, 1),
    )


class Div(Primitive):
    """The quotient; of integers, towards zero."""

    divides = True

    primitive = "div"
    algebra = Algebra(neutral={1: Element(1, "if")}, inverse="Mul", linear=(0,))
    domain_of = ((1, NONZERO),)


class Mod(Elementwise):
    """The remainder, with the sign of the divisor, or with ``fmod`` of the dividend."""

    divides = True

    domain_of = ((1, NONZERO),)

    def scalar(self, call: Call) -> ScalarRule:
        dtype = call.required(0).dtype
        name = "fmod" if call.flag("fmod") else "mod"
        return getattr(call.primitives(dtype), name), dtype


class Pow(Elementwise):
    """A power of floats; engines compute powers of integers in floating point."""

    exact_bits = 10
    algebra = Algebra(neutral={1: Element(1, "f")})
    domain_of = ((0, POSITIVE), (1, between(0, 3)))

    def scalar(self, call: Call) -> ScalarRule:
        base, exponent = call.required(0).dtype, call.required(1).dtype
        if not is_float(base):
            raise Unsupported("Pow of integers")
        a, cast = call.primitives(base), call.semantics.cast
        return lambda x, y: a.pow(x, cast(y, exponent, base)), base


class Max(Variadic):
    """The greatest operand."""

    primitive, chooses = "max", range(2**31)
    exact_bits = 31
    ties = True
    algebra = Algebra(
        associative="bif",
        neutral={0: Element(-math.inf, "i"), 1: Element(-math.inf, "i")},
        absorbing={0: Element(math.inf, "i"), 1: Element(math.inf, "i")},
        idempotent=True,
        monotone={0: 1, 1: 1},
    )


class Min(Variadic):
    """The least operand."""

    primitive, chooses = "min", range(2**31)
    exact_bits = 31
    ties = True
    algebra = Algebra(
        associative="bif",
        neutral={0: Element(math.inf, "i"), 1: Element(math.inf, "i")},
        absorbing={0: Element(-math.inf, "i"), 1: Element(-math.inf, "i")},
        idempotent=True,
        monotone={0: 1, 1: 1},
    )


class Sum(Variadic):
    """The sum of all operands."""

    primitive = "add"
    algebra = Algebra(monotone={0: 1, 1: 1}, affine=(0, 1))


class Mean(Elementwise):
    """The mean of all operands."""

    algebra = Algebra(monotone={0: 1, 1: 1}, affine=(0, 1))

    def scalar(self, call: Call) -> ScalarRule:
        dtype = call.required(0).dtype
        a, count = call.primitives(dtype), len(call.inputs)

        def mean(*terms: Scalar) -> Scalar:
            total = reduce(a.add, terms)
            # ONNX Runtime multiplies by the rounded reciprocal, bit for bit.
            return a.div(total, count) if call.semantics.expands else a.mul(total, 1 / count)

        return mean, dtype


class Where(Elementwise):
    """The second operand where the first one holds, else the third."""

    typed = 1
    moves = (1, 2)
    algebra = Algebra(monotone={1: 1, 2: 1}, affine=(1, 2))

    def formula(self, a: TypedPrimitives, *operands: Scalar) -> Scalar:
        return a.select(*operands)

    def suggest(self, c: Choices, index: int, known: Known) -> Operand:
        condition = conditions(c, known)
        return condition if index == 0 else c.data(condition.shape)


def _converted(call: Call, target: ir.DataType) -> Callable[[Scalar], Scalar]:
    """Return the conversion of an operand; the formats of 8 bits saturate, each in its way."""
    source = call.required(0).dtype
    if target.name.startswith("FLOAT8") and source != target:
        raise Unsupported(f"{call.node.op_type} to {target.name}")
    return lambda x: call.semantics.cast(x, source, target)


class Cast(Elementwise):
    """The operand in another type."""

    changes = early_changes.CAST

    def scalar(self, call: Call) -> ScalarRule:
        target = named_type(call.node.attributes.get("to"))
        if target is None:
            raise Unsupported("Cast to a type that a function's caller names")
        return _converted(call, target), target

    def admits(self, use: Use) -> ValueHint | None:
        value = use.input(0)
        if named_type(use.node.attributes.get("to")) == ir.DataType.BOOL:
            return between(0, 1)
        if value is not None and value.dtype == ir.DataType.STRING:
            return ValueHint(words=("0", "1", "2", "10", "7"))
        return None

    def block_type(self, node: Node) -> ir.DataType:
        return named_type(node.node.attributes.get("to")) or ir.DataType.UNDEFINED


class CastLike(Operator):
    """The operand in the type of the second one, which takes no part in broadcasting."""

    free = True

    def evaluate(self, call: Call) -> Tensor:
        x, target = call.required(0), call.required(1).dtype
        return call.map(_converted(call, target), target, x)


class Clip(Elementwise):
    """The operand, kept between two bounds; where they cross, the upper one wins."""

    changes = later_changes.CLIP

    algebra = Algebra(idempotent=True, monotone={0: 1, 1: 1, 2: 1})

    def scalar(self, call: Call) -> ScalarRule:
        dtype = call.required(0).dtype
        clip = call.primitives(dtype).clip
        least, greatest = call.semantics.extremes(dtype)
        if call.opset < 11:
            low, high = call.attribute("min", None), call.attribute("max", None)
            fixed = (
                least if low is None else call.literal(float(low), dtype),
                greatest if high is None else call.literal(float(high), dtype),
            )
            return lambda x: clip(x, *fixed), dtype
        has_low, has_high = call.given(1) is not None, call.given(2) is not None

        def clip_given(x: Scalar, *given: Scalar) -> Scalar:
            bounds = list(given)
            low = bounds.pop(0) if has_low else least
            return clip(x, low, bounds.pop(0) if has_high else greatest)

        return clip_given, dtype

    def admits(self, use: Use) -> ValueHint | None:
        value = use.input(0)
        unsigned = (
            value is not None and value.dtype is not None and not value.dtype.is_signed()
        )
        middle = 10 if unsigned else 0
        return {1: between(None, middle), 2: between(middle, None)}.get(use.index)

    def breakpoints(self, use: Use) -> tuple[float, ...]:
        if use.index:
            return ()
        old = (use.number("min"), use.number("max"))
        given = [use.constant(i) for i in (1, 2)]
        new = [float(b.reshape(-1)[0]) for b in given if b is not None and b.size]
        return (*(b for b in old if b is not None), *new)

    def suggest(self, c: Choices, index: int, known: Known) -> Operand:
        return c.data(c.shape()) if index == 0 else c.data((), constant=True)
