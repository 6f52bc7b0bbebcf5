"""What operators share that act on each element by itself.

Each commutes with every map of indices: element ``i`` of the result depends on the elements
of the operands at ``i``, broadcast, and on nothing else. The prover's scalar argument rests
on that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial, reduce
from typing import ClassVar, TypeAlias

import numpy as np
import onnx_ir as ir

from onnx_passes.ops.call import Call, Tensor
from onnx_passes.ops.domains import block_terms as terms
from onnx_passes.ops.domains.block_terms import Form
from onnx_passes.ops.domains.block_values import Blocks, Node, map_blocks
from onnx_passes.ops.input_hints import ValueHint
from onnx_passes.ops.operands import Operands
from onnx_passes.ops.operator_class import Operator
from onnx_passes.ops.primitives import TypedPrimitives
from onnx_passes.ops.semantics import Elements, Scalar, Unsupported, is_float
from onnx_passes.ops.use import Use

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
    domain_of: ClassVar[tuple[tuple[int, ValueHint], ...]] = ()
    kinks: ClassVar[tuple[float, ...]] = ()
    ties: ClassVar[bool] = False

    formula: Callable[..., Scalar]
    """Return the result of one element of each operand, given primitives and attributes."""

    def scalar(self, call: Call) -> ScalarRule:
        """Return the function of scalars that a node is, and the type of its result.

        Raises:
            Unsupported: This form of the operator is not described.
        """
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

    def admits(self, use: Use) -> ValueHint | None:
        return dict(self.domain_of).get(use.index)

    def breakpoints(self, use: Use) -> tuple[float, ...]:
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
    """An operator that is one primitive of the arithmetic.

    Attributes:
        primitive: Its name.
    """

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
