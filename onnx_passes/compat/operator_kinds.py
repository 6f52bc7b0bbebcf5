"""Which operators work element by element, pool over windows, or reduce axes."""

from __future__ import annotations

import onnx
import onnx_ir as ir

from onnx_passes.ops.operator_class import find

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
