"""Take out arithmetic with a neutral constant."""

from typing import Any, ClassVar

import numpy as np

from onnx_passes import passes
from onnx_passes.passes._support.shapes import widens
from onnx_passes.passes._support.tensors import constant_of
from onnx_passes.passes.base import Op, RewriteRuleSetPass, Transformation, Value, Var

RIGHT = {
    "Add": 0,
    "Sub": 0,
    "Mul": 1,
    "Div": 1,
    "Pow": 1,
    "And": 1,
    "Or": 0,
    "Xor": 0,
    "BitwiseAnd": -1,
    "BitwiseOr": 0,
    "BitwiseXor": 0,
    "BitShift": 0,
}
"""The second operand that changes nothing; -1 stands for all bits set."""

LEFT = ("Add", "Mul", "And", "Or", "Xor", "BitwiseAnd", "BitwiseOr", "BitwiseXor")
"""The operators for which it may be the first one."""


@passes.verify.equality
@passes.register()
@passes.register("eliminate")
class EliminateNoopArithmetic(Transformation, RewriteRuleSetPass):
    """Take out arithmetic with a neutral constant.

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
        return [_Right(name) for name in RIGHT] + [_Left(name) for name in LEFT]

    def check(self) -> list[Any]:
        return [_is_neutral for _ in (*RIGHT, *LEFT)]

    def rewrite(self) -> list[Any]:
        return [_operand for _ in (*RIGHT, *LEFT)]


class _Right:
    def __init__(self, operator: str) -> None:
        self.operator = operator

    def __call__(self, op: Op, x: Var, c: Var) -> Var:
        return getattr(op, self.operator)(x, c)


class _Left(_Right):
    def __call__(self, op: Op, x: Var, c: Var) -> Var:
        return getattr(op, self.operator)(c, x)


def _is_neutral(context: Any, x: Value, c: Value) -> bool:
    tensor = constant_of(c)
    if tensor is None or widens(x, c) or not tensor.size:
        return False
    wanted, array = RIGHT[context.root.op_type], tensor.numpy()
    if context.root.op_type == "Pow" and not (x.dtype and x.dtype.is_floating_point()):
        return False  # engines compute it in double precision, which lacks big integers
    if tensor.dtype.is_floating_point():
        if wanted == 0:
            signs = np.signbit(array)
            return not np.any(array) and bool(np.all(signs == (context.root.op_type == "Add")))
        return wanted == 1 and bool(np.all(array == 1))
    if wanted == -1:
        return tensor.dtype.is_integer() and bool(np.all(~array == 0))
    return array.dtype.kind in "biu" and bool(np.all(array == wanted))


def _operand(op: Op, x: Value, c: Value) -> Value:
    return x
