"""Which kind an operator is of, and templates of laws, under the names of the seed system.

The laws of the library itself are data: ``onnx_passes.passes.streamline._rule_constants``.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable

import numpy as np
import onnx
import onnx_ir as ir

from onnx_passes.arrays import Array
from onnx_passes.compat.util import get_const_or_none
from onnx_passes.ops.operator_class import find
from onnx_passes.passes.base import (
    Op,
    RewriteRulePass,
    RewriteRuleSetPass,
    Transformation,
    Value,
    Var,
)
from onnx_passes.passes.constants import is_constant

_OPERANDS = {1: "unary", 2: "binary", 3: "ternary"}


def is_elementwise_unary(op: str | ir.Node) -> bool:
    """Whether an operator works on the elements of one operand."""
    return _operands(op) == 1


def is_elementwise_binary(op: str | ir.Node) -> bool:
    """Whether an operator works on the elements of two operands."""
    return _operands(op) == 2


def is_elementwise_ternary(op: str | ir.Node) -> bool:
    """Whether an operator works on the elements of three operands."""
    return _operands(op) == 3


def is_elementwise(op: str | ir.Node) -> bool:
    """Whether an operator works element by element."""
    return _operands(op) in _OPERANDS


def _operands(op: str | ir.Node) -> int:
    name = op.op_type if isinstance(op, ir.Node) else op
    told = find("", name)
    if told is None or not told.elementwise or not onnx.defs.has(name):
        return 0
    schema = onnx.defs.get_schema(name)
    # Max, Min, Sum and Mean take any number; two are what passes look for.
    return 2 if schema.max_input > 3 else int(schema.max_input)


ELEMENTWISE_UNARY, ELEMENTWISE_BINARY, ELEMENTWISE_TERNARY = (
    {
        schema.name
        for schema in onnx.defs.get_all_schemas()
        if schema.domain == "" and _operands(schema.name) == count
    }
    for count in _OPERANDS
)
ELEMENTWISE_NARY = ELEMENTWISE_UNARY | ELEMENTWISE_BINARY | ELEMENTWISE_TERNARY


POOLING = {
    schema.name
    for schema in onnx.defs.get_all_schemas()
    if schema.domain == "" and schema.name.endswith("Pool")
} - {"MaxRoiPool"}
"""Of those that pool, one pools over regions that are an operand."""


def is_pooling(op: str | ir.Node) -> bool:
    """Whether an operator pools over windows."""
    return (op.op_type if isinstance(op, ir.Node) else op) in POOLING


REDUCTION = {
    schema.name
    for schema in onnx.defs.get_all_schemas()
    if schema.domain == "" and schema.name.startswith("Reduce")
}

REDUCTIONS = sorted(REDUCTION)
"""The same under the name, and in the form, that passes of the seed system import."""


def is_reduction(op: str | ir.Node) -> bool:
    """Whether an operator reduces axes."""
    return (op.op_type if isinstance(op, ir.Node) else op) in REDUCTION


class _Commutative(Transformation, RewriteRulePass):
    """Operands may have any order."""

    commute = True


class _DistributiveLhs(Transformation, RewriteRulePass):
    """``x * y + x * z`` is ``x * (y + z)``."""

    __MUL__: Callable[..., Var]
    __ADD__: Callable[..., Var]

    def pattern(self, op: Op, x: Var, y: Var, z: Var) -> Var:
        return self.__ADD__(op, self.__MUL__(op, x, y), self.__MUL__(op, x, z))

    def rewrite(self, op: Op, x: Value, y: Value, z: Value) -> Value:
        return self.__MUL__(op, x, self.__ADD__(op, y, z))


class _DistributiveRhs(Transformation, RewriteRulePass):
    """``y * x + z * x`` is ``(y + z) * x``."""

    __MUL__: Callable[..., Var]
    __ADD__: Callable[..., Var]

    def pattern(self, op: Op, x: Var, y: Var, z: Var) -> Var:
        return self.__ADD__(op, self.__MUL__(op, y, x), self.__MUL__(op, z, x))

    def rewrite(self, op: Op, x: Value, y: Value, z: Value) -> Value:
        return self.__MUL__(op, self.__ADD__(op, y, z), x)


class _Distributive(_DistributiveLhs):
    """The same, with operands in any order."""

    commute = True


class _Associative(Transformation, RewriteRulePass):
    """``(x + y) + z`` is ``x + (y + z)`` where constants come together, or stand alone."""

    __OP__: Callable[..., Var]

    def pattern(self, op: Op, x: Var, y: Var, z: Var) -> Var:
        return self.__OP__(op, self.__OP__(op, x, y), z)

    def check(self, context: object, x: Value, y: Value, z: Value) -> bool:
        known = tuple(map(is_constant, (x, y, z)))
        return known in ((False, True, True), (True, False, False))

    def rewrite(self, op: Op, x: Value, y: Value, z: Value) -> Value:
        return self.__OP__(op, x, self.__OP__(op, y, z))


class _Involution(Transformation, RewriteRulePass):
    """``f(f(x))`` is ``x``."""

    __OP__: Callable[..., Var]

    def pattern(self, op: Op, x: Var) -> Var:
        return self.__OP__(op, self.__OP__(op, x))

    def rewrite(self, op: Op, x: Value) -> Value:
        return op.Identity(x)


class _Idempotence(Transformation, RewriteRulePass):
    """``f(f(x))`` is ``f(x)``; with two operands, ``f(x, x)`` is ``x``."""

    __OP__: Callable[..., Var]

    @property
    def arity(self) -> int:
        """Number of operands."""
        return len(inspect.signature(self.__OP__).parameters) - 1

    def pattern(self, op: Op, x: Var) -> Var:
        return self.__OP__(op, *([self.__OP__(op, x)] if self.arity == 1 else [x, x]))

    def rewrite(self, op: Op, x: Value) -> Value:
        return self.__OP__(op, x) if self.arity == 1 else op.Identity(x)


class _Absorption(Transformation, RewriteRuleSetPass):
    """``f(x, g(x, y))`` and ``g(x, f(x, y))`` are ``x``."""

    __OP1__: Callable[..., Var]
    __OP2__: Callable[..., Var]

    def pattern(self) -> list[Callable[..., Var]]:
        def first(op: Op, x: Var, y: Var) -> Var:
            return self.__OP1__(op, x, self.__OP2__(op, x, y))

        def second(op: Op, x: Var, y: Var) -> Var:
            return self.__OP2__(op, x, self.__OP1__(op, x, y))

        return [first, second]

    def rewrite(self) -> list[Callable[..., Var]]:
        def operand(op: Op, x: Value, y: Value) -> Value:
            return op.Identity(x)

        return [operand, operand]


class _Annihilator(Transformation, RewriteRulePass):
    """``f(x, a)`` is ``a`` for one number."""

    __OP__: Callable[..., Var]
    __ANNIHILATOR__: float | Array

    def pattern(self, op: Op, x: Var, a: Var) -> Var:
        return self.__OP__(op, x, a)

    def check(self, context: object, x: Value, a: Value) -> bool:
        known = get_const_or_none(a)
        static = x.shape is not None and x.shape.is_static()
        return known is not None and static and bool(np.all(known == self.__ANNIHILATOR__))

    def rewrite(self, op: Op, x: Value, a: Value) -> Value:
        shape = np.broadcast_shapes(tuple(x.shape or ()), tuple(a.shape or ()))  # type: ignore[arg-type]
        return op.Expand(a, op.Constant(value_ints=[int(size) for size in shape]))


class _Converse(Transformation, RewriteRulePass):
    """``f(x, y)`` is ``g(y, x)``."""

    __OP__: Callable[..., Var]
    __CONVERSE__: Callable[..., Var]

    def pattern(self, op: Op, x: Var, y: Var) -> Var:
        return self.__OP__(op, x, y)

    def rewrite(self, op: Op, x: Value, y: Value) -> Value:
        return self.__CONVERSE__(op, y, x)
