"""Pointwise operators and constants on tensors cut into blocks."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from onnx_passes.ops.base import operators
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

_COMMUTES = {"Add", "Mul", "Max", "Min", "Sum", "And", "Or", "Xor", "Equal"} | {
    "BitwiseAnd",
    "BitwiseOr",
    "BitwiseXor",
}
_BOOLEAN = {"Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual", "IsNaN", "IsInf"}


def block_operator(*names: str) -> Callable[[BlockRule], BlockRule]:
    """Register an operator."""

    def add(rule: BlockRule) -> BlockRule:
        BLOCK_OPERATORS.update(dict.fromkeys(names, rule))
        return rule

    return add


def _pointwise(node: Node) -> Blocks:
    op_type = node.node.op_type
    operands = [v for v in node.inputs if v is not None]
    dtype = operands[0].dtype
    result = dtype
    if op_type in _BOOLEAN:
        result = ir.DataType.BOOL
    elif op_type == "Cast":
        result = ir.DataType(node.attribute("to", 0))
    elif op_type == "Where":
        result = operands[1].dtype
    return map_blocks(node, result, _combination(node, op_type, dtype), *operands)


def _combination(node: Node, op_type: str, dtype: ir.DataType) -> Callable[..., Form]:
    if op_type == "Identity":
        return lambda x: x
    if node.ring and dtype != ir.DataType.BOOL:
        match op_type:
            case "Add" | "Sum":
                return terms.add
            case "Sub":
                return lambda x, y: terms.add(x, terms.scale(y, Fraction(-1)))
            case "Neg":
                return lambda x: terms.scale(x, Fraction(-1))
            case "Mul":
                return terms.multiply
            case "Div" if is_float(dtype):
                return lambda x, y: terms.multiply(x, reciprocal(y))
            case "Reciprocal" if is_float(dtype):
                return reciprocal
    commutes = op_type in _COMMUTES
    given = "".join("x" if v is not None else "-" for v in node.inputs)
    # The mark tells block_terms that the arguments are a multiset.
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


def known_constant(node: Node, array: npt.NDArray[Any], dtype: ir.DataType) -> Blocks:
    """Return a constant: a number, a symbol that stands for its content, or plain integers."""
    if array.size == 1:
        return literal(array, dtype, node.ring)
    if dtype.is_integer() and array.ndim <= 1:
        # Shapes, axes and bounds: read as numbers by the operators that take them.
        return Blocks(((ONE,),) * array.ndim, {}, dtype, array)
    raise Unsupported("a constant of more than one element")
