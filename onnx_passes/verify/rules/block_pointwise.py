"""Pointwise operators and constants on tensors cut into blocks."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import TypeAlias

import numpy as np
import onnx_ir as ir

from onnx_passes.arrays import Array
from onnx_passes.ops.elementwise import Elementwise, Variadic
from onnx_passes.ops.operator_class import operator_of, operators
from onnx_passes.ops.semantics import Unsupported, is_float
from onnx_passes.verify.rules import block_terms as terms
from onnx_passes.verify.rules.block_sizes import ONE
from onnx_passes.verify.rules.block_terms import Form
from onnx_passes.verify.rules.block_values import (
    Blocks,
    Node,
    literal,
    map_blocks,
)

BlockRule: TypeAlias = Callable[[Node], Blocks | tuple[Blocks, ...]]
BLOCK_OPERATORS: dict[str, BlockRule] = {}


def block_operator(*names: str) -> Callable[[BlockRule], BlockRule]:
    """Register an operator."""

    def add(rule: BlockRule) -> BlockRule:
        BLOCK_OPERATORS.update(dict.fromkeys(names, rule))
        return rule

    return add


def _pointwise(node: Node) -> Blocks:
    operator = operator_of(node.node)
    assert isinstance(operator, Elementwise), "others are not registered for this"
    operands = [v for v in node.inputs if v is not None]
    result = ir.DataType.BOOL if operator.boolean else operands[operator.typed].dtype
    if node.node.op_type == "Cast":
        result = ir.DataType(node.attribute("to", 0))
    dtype = operands[0].dtype
    return map_blocks(node, result, _combination(node, operator, dtype), *operands)


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
                return lambda x, y: terms.multiply(x, reciprocal(y))
            case "Reciprocal" if is_float(dtype):
                return reciprocal
    commutes = operator.algebra.commutative or isinstance(operator, Variadic)
    given = "".join("x" if v is not None else "-" for v in node.inputs)
    # The mark says to block_terms that the arguments are a multiset.
    label = f"{'~' if commutes else ''}{node.label()}{given}:{dtype.name}"
    return lambda *forms: terms.function(label, *forms, commutes=commutes)


def reciprocal(form: Form) -> Form:
    """Divide one by a form: a number where it is one, else a function of it."""
    if len(form) == 1 and form[0][0] == ():
        return terms.number(1 / form[0][1])
    return terms.function("reciprocal", form)


for _operator in operators():
    if _operator.elementwise:
        block_operator(_operator.op_type)(_pointwise)


@block_operator("Dropout")
def _(node: Node) -> Blocks:
    if node.given(2) is not None or len([o for o in node.node.outputs if o.uses()]) > 1:
        raise Unsupported("Dropout that is not the identity")
    return node.required(0)


@block_operator("Constant")
def _(node: Node) -> Blocks:
    if "value" not in node.node.attributes:
        for name, dtype in {
            "value_float": ir.DataType.FLOAT,
            "value_int": ir.DataType.INT64,
            "value_ints": ir.DataType.INT64,
        }.items():
            if name in node.node.attributes:
                array = np.array(node.attribute(name, 0), dtype.numpy())
                return known_constant(node, array, dtype)
        raise Unsupported("a Constant of this kind")
    tensor = node.node.attributes["value"].as_tensor()
    return known_constant(node, tensor.numpy(), tensor.dtype)


def known_constant(node: Node, array: Array, dtype: ir.DataType) -> Blocks:
    """Return a constant: a number, a symbol for its content, or plain integers.

    Args:
        node: The node, for the kind of numbers.
        array: The numbers, of any shape.
        dtype: Their element type.
    """
    if array.size == 1:
        return literal(array, dtype, node.ring)
    if dtype.is_integer() and array.ndim <= 1:
        # Shapes, axes and bounds: read as numbers by the operators that take them.
        return Blocks(((ONE,),) * array.ndim, {}, dtype, array)
    raise Unsupported("a constant of more than one element")
