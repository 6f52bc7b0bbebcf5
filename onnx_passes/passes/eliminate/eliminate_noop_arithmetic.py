"""Remove arithmetic with a neutral constant."""

from typing import Any, ClassVar

import numpy as np
from onnxscript.rewriter.pattern import MatchResult

from onnx_passes import passes
from onnx_passes.ops import elementwise, logic  # noqa: F401 (makes operators known)
from onnx_passes.ops.base import Element, kind_of, operators
from onnx_passes.ops.domains.concrete import ConcreteSemantics
from onnx_passes.passes._support.shapes import widens
from onnx_passes.passes._support.tensors import constant_of
from onnx_passes.passes.base import Op, RewriteRuleSetPass, Transformation, Value, Var

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


@passes.verify.equality
@passes.register()
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
    whose shape makes the result bigger than the operand.
    """

    requires: ClassVar[Any] = ("shape-inference",)

    def pattern(self) -> list[Any]:
        return [_Pattern(name, index) for name, index, _ in NEUTRAL]

    def check(self) -> list[Any]:
        return [_NeutralCheck(element) for _, _, element in NEUTRAL]

    def rewrite(self) -> list[Any]:
        return [_operand for _ in NEUTRAL]


class _Pattern:
    def __init__(self, operator: str, index: int) -> None:
        self.operator, self.index = operator, index

    def __call__(self, op: Op, x: Var, c: Var) -> Var:
        return getattr(op, self.operator)(*((x, c) if self.index else (c, x)))


class _NeutralCheck:
    """Whether a constant is the neutral element for the type of the other operand."""

    def __init__(self, element: Element) -> None:
        self.element = element

    def __call__(self, context: Any, x: Value, c: Value) -> MatchResult:
        tensor, element, result = constant_of(c), self.element, MatchResult()
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
        same = array == wanted
        if tensor.dtype.is_floating_point() and element.value == 0:
            same = same & (np.signbit(array) == np.signbit(wanted))
        if not np.all(same):
            return result.fail(f"the constant is not {wanted} in each element", c)
        return result


def _operand(op: Op, x: Value, c: Value) -> Value:
    return x
