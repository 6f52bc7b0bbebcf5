"""Operators that act on each element by itself, and are one primitive of the arithmetic.

Every operator in ``POINTWISE`` commutes with every map of indices: element ``i`` of the
result depends on the elements of the operands at ``i``, broadcast, and on nothing else. The
scalar argument (``scalar.py``) rests on that.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, reduce
from typing import TypeAlias

import onnx_ir as ir

from onnx_passes.ops.call import OPERATORS, Call, Tensor, elementwise, operator
from onnx_passes.ops.semantics import Scalar, Unsupported, is_float

ScalarRule: TypeAlias = tuple[Callable[..., Scalar], ir.DataType]
"""A function of one scalar per operand, and the type of its result."""

POINTWISE: dict[str, Callable[[Call], ScalarRule]] = {}


def pointwise(*names: str) -> Callable[[Callable[[Call], ScalarRule]], None]:
    """Register operators that act on each element by itself."""

    def add(rule: Callable[[Call], ScalarRule]) -> None:
        def evaluate(call: Call) -> Tensor:
            if call.opset < 7 and len(call.inputs) > 1:
                raise Unsupported("the explicit broadcasting of opsets before 7")
            function, dtype = rule(call)
            return elementwise(function, dtype, *(t for t in call.inputs if t is not None))

        for name in names:
            POINTWISE[name] = rule
            OPERATORS[name] = evaluate

    return add


def _primitive(name: str, *, boolean: bool = False) -> Callable[[Call], ScalarRule]:
    def rule(call: Call) -> ScalarRule:
        dtype = call.required(0).dtype
        function = partial(call.semantics.apply, name, dtype)
        return function, ir.DataType.BOOL if boolean else dtype

    return rule


for _operator, _name in {
    "Abs": "abs",
    "Neg": "neg",
    "Sign": "sign",
    "Floor": "floor",
    "Ceil": "ceil",
    "Round": "round",
    "Sqrt": "sqrt",
    "Exp": "exp",
    "Log": "log",
    "Not": "not",
    "BitwiseNot": "bit_not",
    "Add": "add",
    "Sub": "sub",
    "Mul": "mul",
    "Div": "div",
    "And": "and",
    "Or": "or",
    "Xor": "xor",
    "BitwiseAnd": "bit_and",
    "BitwiseOr": "bit_or",
    "BitwiseXor": "bit_xor",
}.items():
    pointwise(_operator)(_primitive(_name))

for _operator, _name in {
    "Equal": "equal",
    "Less": "less",
    "LessOrEqual": "less_equal",
}.items():
    pointwise(_operator)(_primitive(_name, boolean=True))


def _swapped(name: str) -> Callable[[Call], ScalarRule]:
    def rule(call: Call) -> ScalarRule:
        dtype = call.required(0).dtype
        apply = call.semantics.apply
        return lambda x, y: apply(name, dtype, y, x), ir.DataType.BOOL

    return rule


pointwise("Greater")(_swapped("less"))
pointwise("GreaterOrEqual")(_swapped("less_equal"))


@pointwise("Identity")
def _(call: Call) -> ScalarRule:
    return lambda x: x, call.required(0).dtype


@pointwise("IsNaN")
def _(call: Call) -> ScalarRule:
    return partial(call.semantics.apply, "is_nan", call.required(0).dtype), ir.DataType.BOOL


@pointwise("IsInf")
def _(call: Call) -> ScalarRule:
    dtype = call.required(0).dtype
    positive, negative = call.integer("detect_positive", 1), call.integer("detect_negative", 1)
    if not positive and not negative:
        return lambda _: call.literal(0, ir.DataType.BOOL), ir.DataType.BOOL
    suffix = "" if positive and negative else "_positive" if positive else "_negative"
    return partial(call.semantics.apply, f"is_inf{suffix}", dtype), ir.DataType.BOOL


@pointwise("Reciprocal")
def _(call: Call) -> ScalarRule:
    dtype = call.required(0).dtype
    one = call.literal(1, dtype)
    return lambda x: call.semantics.apply("div", dtype, one, x), dtype


@pointwise("Mod")
def _(call: Call) -> ScalarRule:
    dtype = call.required(0).dtype
    name = "fmod" if call.integer("fmod", 0) else "mod"
    return partial(call.semantics.apply, name, dtype), dtype


@pointwise("BitShift")
def _(call: Call) -> ScalarRule:
    dtype = call.required(0).dtype
    name = f"shift_{call.text('direction', '').lower()}"
    return partial(call.semantics.apply, name, dtype), dtype


@pointwise("Pow")
def _(call: Call) -> ScalarRule:
    base, exponent = call.required(0).dtype, call.required(1).dtype
    if not is_float(base):
        raise Unsupported("Pow of integers")

    def power(x: Scalar, y: Scalar) -> Scalar:
        return call.semantics.apply("pow", base, x, call.semantics.cast(y, exponent, base))

    return power, base


def _variadic(name: str) -> Callable[[Call], ScalarRule]:
    def rule(call: Call) -> ScalarRule:
        dtype = call.required(0).dtype
        return lambda *xs: reduce(partial(call.semantics.apply, name, dtype), xs), dtype

    return rule


pointwise("Max")(_variadic("max"))
pointwise("Min")(_variadic("min"))
pointwise("Sum")(_variadic("add"))


@pointwise("Mean")
def _(call: Call) -> ScalarRule:
    dtype = call.required(0).dtype
    apply, count = call.semantics.apply, len(call.inputs)

    def mean(*terms: Scalar) -> Scalar:
        total = reduce(partial(apply, "add", dtype), terms)
        if call.semantics.expands:
            return apply("div", dtype, total, call.literal(count, dtype))
        # ONNX Runtime multiplies by the rounded reciprocal, bit for bit.
        return apply("mul", dtype, total, call.literal(1 / count, dtype))

    return mean, dtype


@pointwise("Where")
def _(call: Call) -> ScalarRule:
    dtype = call.required(1).dtype
    return partial(call.semantics.apply, "select", dtype), dtype


@pointwise("Cast")
def _(call: Call) -> ScalarRule:
    source, target = call.required(0).dtype, ir.DataType(call.integer("to", 0))
    return lambda x: call.semantics.cast(x, source, target), target


@operator("CastLike")
def _(call: Call) -> Tensor:
    # Its second operand gives a type and takes no part in broadcasting.
    x, target = call.required(0), call.required(1).dtype
    return elementwise(lambda v: call.semantics.cast(v, x.dtype, target), target, x)


@pointwise("Clip")
def _(call: Call) -> ScalarRule:
    dtype = call.required(0).dtype
    clip = partial(call.semantics.apply, "clip", dtype)
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
