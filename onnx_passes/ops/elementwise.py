"""Operators that act on each element by itself.

They are arithmetic, elementary functions, comparisons, logic, bits, choices and casts.
"""

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial, reduce
from typing import ClassVar, TypeAlias

import numpy as np
import onnx_ir as ir

from onnx_passes.model.walk import named_type
from onnx_passes.ops import input_hints as hints
from onnx_passes.ops import versions
from onnx_passes.ops.call import Call, Operands, Tensor
from onnx_passes.ops.domains import block_terms as terms
from onnx_passes.ops.domains.block_terms import Form
from onnx_passes.ops.domains.blocks import Blocks, Node, map_blocks
from onnx_passes.ops.operator_class import Algebra, Element, Operator
from onnx_passes.ops.semantics import Elements, Scalar, TypedPrimitives, Unsupported, is_float

ScalarRule: TypeAlias = tuple[Callable[..., Scalar], ir.DataType]
"""A function of one scalar for each operand that is given, and the type of its result."""


class Elementwise(Operator, abstract=True):
    """An operator on each element by itself.

    Attributes:
        typed: The operand whose type the result has.
        boolean: Whether the result is of booleans instead.
        opaque: Whether only a function is known of it where each rounding matters, because
            the engine's kernel is not the formula.
        size: What the error of the engine's kernel is relative to where the result is smaller.
        scaled: Whether that error is multiplied by the operand.
        attributes: Numbers that the formula takes, with their defaults.
        domain_of: What its operands must be for the result to be a number, by operand.
        kinks: Numbers of the first operand at which pieces of the operator meet.
        ties: Whether pieces meet where the operands are equal.
    """

    elementwise = True
    typed: ClassVar[int] = 0
    boolean: ClassVar[bool] = False
    opaque: ClassVar[bool] = False
    size: ClassVar[float] = 0.0
    scaled: ClassVar[bool] = False
    attributes: ClassVar[tuple[tuple[str, float], ...]] = ()
    domain_of: ClassVar[tuple[tuple[int, hints.ValueHint], ...]] = ()
    kinks: ClassVar[tuple[float, ...]] = ()
    ties: ClassVar[bool] = False

    formula: Callable[..., Scalar]
    """Return the result of one element of each operand, given primitives and attributes."""

    def scalar(self, call: Call) -> ScalarRule:
        """Return the function of scalars that a node is, and the type of its result."""
        dtype = call.required(self.typed).dtype
        a = call.primitives(dtype)
        given = {name: call.number(name, value) for name, value in self.attributes}
        result = ir.DataType.BOOL if self.boolean else dtype
        if self.opaque and not call.semantics.expands:
            label = self.op_type + "".join(f"[{k}={v!r}]" for k, v in given.items())
            return partial(a.function, label), result
        return partial(self.formula, a, **given), result

    def evaluate(self, call: Call) -> Tensor:
        if call.opset < 7 and len(call.inputs) > 1:
            raise Unsupported("the explicit broadcasting of opsets before 7")
        function, dtype = self.scalar(call)
        found = call.map(function, dtype, *(t for t in call.inputs if t is not None))
        if not self.opaque:
            return found

        def size() -> Elements:
            x, a = call.required(0), call.primitives(call.required(0).dtype)
            if not self.scaled:
                return np.full((), self.size)
            return call.semantics.map(lambda v: a.max(a.abs(v), self.size), x.data)

        return Tensor(call.semantics.kernel(found.data, dtype, size), dtype)

    def representatives(self, operands: Operands) -> Sequence[Sequence[int]]:
        return [()] * len(operands.node.inputs)

    def cost(self, operands: Operands) -> int | None:
        return operands.made() * operands.counted(
            self.representatives(operands), self.evaluate
        )

    def admits(self, use: hints.Use) -> hints.ValueHint | None:
        return dict(self.domain_of).get(use.index)

    def breakpoints(self, use: hints.Use) -> tuple[float, ...]:
        kinks = self.kinks if use.index == 0 else ()
        if not self.ties:
            return kinks
        others = [use.constant(i) for i in range(len(use.node.inputs)) if i != use.index]
        numbers = [float(n) for c in others if c is not None for n in c.reshape(-1)[:8]]
        return (*kinks, *dict.fromkeys(numbers))

    def block_type(self, node: Node) -> ir.DataType:
        """Return the type of the result of a node on blocks."""
        if self.boolean:
            return ir.DataType.BOOL
        return [v for v in node.inputs if v is not None][self.typed].dtype

    def blocks(self, node: Node) -> Blocks:
        operands = [v for v in node.inputs if v is not None]
        combine = _combination(node, self, operands[0].dtype)
        return map_blocks(node, self.block_type(node), combine, *operands)


class Primitive(Elementwise, abstract=True):
    """An operator that is one primitive of the arithmetic."""

    primitive: ClassVar[str]

    def formula(self, a: TypedPrimitives, *operands: Scalar) -> Scalar:
        return getattr(a, self.primitive)(*operands)


class Variadic(Primitive, abstract=True):
    """A primitive of two operands, applied to any number of them from left to right."""

    def formula(self, a: TypedPrimitives, *operands: Scalar) -> Scalar:
        return reduce(getattr(a, self.primitive), operands)


def _combination(node: Node, operator: Elementwise, dtype: ir.DataType) -> Callable[..., Form]:
    if operator.view:
        return lambda x: x
    if node.ring and dtype != ir.DataType.BOOL:
        primitive = getattr(operator, "primitive", operator.op_type)
        match primitive:
            case "add":
                return terms.add
            case "sub":
                return lambda x, y: terms.add(x, terms.scale(y, Fraction(-1)))
            case "neg":
                return lambda x: terms.scale(x, Fraction(-1))
            case "mul":
                return terms.multiply
            case "div" if is_float(dtype):
                return lambda x, y: terms.multiply(x, terms.reciprocal(y))
            case "Reciprocal" if is_float(dtype):
                return terms.reciprocal
    commutes = operator.algebra.commutative or isinstance(operator, Variadic)
    given = "".join("x" if v is not None else "-" for v in node.inputs)
    # The mark says to block_terms that the arguments are a multiset.
    label = f"{'~' if commutes else ''}{node.label()}{given}:{dtype.name}"
    return lambda *forms: terms.function(label, *forms, commutes=commutes)


POSITIVE, NONZERO = hints.between(0.1, None), hints.ValueHint(nonzero=True)


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
        neutral={1: Element(0.0, "if")}, inverse="Add", monotone={0: 1, 1: -1}, affine=(0, 1)
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
    domain_of = ((0, POSITIVE), (1, hints.between(0, 3)))

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

    def suggest(self, c: hints.Choices, index: int, known: hints.Known) -> hints.Operand:
        condition = hints.conditions(c, known)
        return condition if index == 0 else c.data(condition.shape)


def _converted(call: Call, target: ir.DataType) -> Callable[[Scalar], Scalar]:
    """Return the conversion of an operand; the formats of 8 bits saturate, each in its way."""
    source = call.required(0).dtype
    if target.name.startswith("FLOAT8") and source != target:
        raise Unsupported(f"{call.node.op_type} to {target.name}")
    return lambda x: call.semantics.cast(x, source, target)


class Cast(Elementwise):
    """The operand in another type."""

    changes = versions.CAST

    def scalar(self, call: Call) -> ScalarRule:
        target = named_type(call.node.attributes.get("to"))
        if target is None:
            raise Unsupported("Cast to a type that a function's caller names")
        return _converted(call, target), target

    def admits(self, use: hints.Use) -> hints.ValueHint | None:
        value = use.input(0)
        if named_type(use.node.attributes.get("to")) == ir.DataType.BOOL:
            return hints.between(0, 1)
        if value is not None and value.dtype == ir.DataType.STRING:
            return hints.ValueHint(words=("0", "1", "2", "10", "7"))
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

    changes = versions.CLIP

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

    def admits(self, use: hints.Use) -> hints.ValueHint | None:
        value = use.input(0)
        unsigned = (
            value is not None and value.dtype is not None and not value.dtype.is_signed()
        )
        middle = 10 if unsigned else 0
        return {1: hints.between(None, middle), 2: hints.between(middle, None)}.get(use.index)

    def breakpoints(self, use: hints.Use) -> tuple[float, ...]:
        if use.index:
            return ()
        old = (use.number("min"), use.number("max"))
        given = [use.constant(i) for i in (1, 2)]
        new = [float(b.reshape(-1)[0]) for b in given if b is not None and b.size]
        return (*(b for b in old if b is not None), *new)

    def suggest(self, c: hints.Choices, index: int, known: hints.Known) -> hints.Operand:
        return c.data(c.shape()) if index == 0 else c.data((), constant=True)


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

    def suggest(self, c: hints.Choices, index: int, known: hints.Known) -> hints.Operand:
        return hints.conditions(c, known)


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

    def admits(self, use: hints.Use) -> hints.ValueHint | None:
        value = use.input(0)
        bits = 8 if value is None or value.dtype is None else int(value.dtype.itemsize * 8)
        return hints.between(0, bits - 1) if use.index == 1 else None
