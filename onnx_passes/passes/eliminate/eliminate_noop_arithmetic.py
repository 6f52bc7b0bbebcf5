"""Remove arithmetic with a neutral constant."""

from collections.abc import Iterator
from functools import partial
from typing import ClassVar

import numpy as np
from onnxscript.rewriter.pattern import MatchResult

from onnx_passes import passes
from onnx_passes.ops import elementwise  # noqa: F401 (makes operators known)
from onnx_passes.ops.domains.concrete import ConcreteSemantics
from onnx_passes.ops.operator_class import Element, kind_of, operators
from onnx_passes.passes.base import (
    MatchContext,
    Op,
    RewriteRuleSetPass,
    Rule,
    Transformation,
    Value,
    Var,
)
from onnx_passes.passes.common.matches import is_normalized
from onnx_passes.passes.common.shapes import widens
from onnx_passes.passes.constants import constant_of
from onnx_passes.passes.hints import Hint, Hints, Spec, Specs, data

NEUTRAL = tuple(
    (operator.op_type, index, operator.algebra.neutral[index])
    for index in (1, 0)
    for operator in operators()
    if operator.elementwise
    and not operator.domain
    and index in operator.algebra.neutral
    and np.isfinite(operator.algebra.neutral[index].value)
)
"""Operators with a neutral element, where it stands, and the element."""


def _name(operator: str, index: int) -> str:
    return f"{operator}-{('left', 'right')[index]}"


def _all_of(element: float) -> Specs:
    """Return constants of one number alone; zeros of either sign."""
    numbers = (0.0, -0.0) if element == 0 else (float(element),)
    return tuple(Spec(dims, fill=numbers) for dims in ("", "", "1", "b"))


@passes.verify.equality
@passes.register("eliminate")
class EliminateNoopArithmetic(Transformation, RewriteRuleSetPass):
    """Remove arithmetic with a neutral constant.

    Before: ``Mul(x, 1)``, ``Div(x, 1)``, ``Sub(x, 0)``, ``Add(x, -0.0)``, ``Pow(x, 1)``,
            ``And(x, true)``, ``Or(x, false)``, ``BitShift(x, 0)``, ...
    After:  ``x``

    Sound because the result is the first operand bit for bit, for NaN, infinities and -0 as
    well. That is why a float plus +0 stays: it turns -0 into +0, and a reciprocal behind it
    from minus to plus infinity. Integers have one zero.

    Leaves alone: a power of integers, which engines compute in floating point; a constant
    whose shape makes the result bigger than the operand; before opset 17, which brings
    LayerNormalization, the scale of a quotient by a square root: engines know the formula of
    a normalization by its scale.
    """

    needs = ("shape-inference",)
    hints: ClassVar[Hints] = {
        _name(operator, index): Hint(
            {"x": data("a b", "b", "a b c"), "c": _all_of(element.value)}
        )
        for operator, index, element in NEUTRAL
    }

    def rules(self) -> Iterator[Rule]:
        for name, index, element in NEUTRAL:
            check = partial(_is_neutral_scale if name == "Mul" else _is_neutral, element)
            yield Rule(partial(_call, name, index), _operand, check, _name(name, index))


def _call(operator: str, index: int, op: Op, x: Var, c: Var) -> Var:
    return getattr(op, operator)(*((x, c) if index else (c, x)))


def _is_neutral_scale(
    element: Element, context: MatchContext, x: Value, c: Value
) -> MatchResult:
    """Whether a factor is 1, and no engine looks for it."""
    if is_normalized(context, x):
        return MatchResult().fail("engines know a normalization by its scale", x)
    return _is_neutral(element, context, x, c)


def _is_neutral(element: Element, context: object, x: Value, c: Value) -> MatchResult:
    """Whether a constant is the neutral element for the type of the other operand."""
    tensor, element, result = constant_of(c), element, MatchResult()
    if tensor is None or not tensor.size:
        return result.fail("the operand is not a constant", c)
    if widens(x, c):
        return result.fail("the constant may make the result bigger", c)
    if x.dtype is None and element.kinds == "f":
        return result.fail("the type of the operand is not known", x)
    if kind_of(x.dtype or tensor.dtype) not in element.kinds:
        return result.fail("a number of this type has no neutral element here", x)
    wanted = ConcreteSemantics().literal(element.value, tensor.dtype)
    array = tensor.numpy()
    if array.tobytes() != np.full_like(array, wanted).tobytes():  # zeros have a sign
        return result.fail(f"the constant is not {wanted} in each element", c)
    return result


def _operand(op: Op, x: Value, c: Value) -> Value:
    return x
