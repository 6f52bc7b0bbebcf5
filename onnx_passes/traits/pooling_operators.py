"""Which operators pool over windows."""

from __future__ import annotations

import onnx
import onnx_ir as ir

POOLING = {
    schema.name
    for schema in onnx.defs.get_all_schemas()
    if schema.domain == "" and schema.name.endswith("Pool")
} - {"MaxRoiPool"}
"""Of those that pool, one pools over regions that are an operand."""


def is_pooling(op: str | ir.Node) -> bool:
    """Whether an operator pools over windows."""
    return (op.op_type if isinstance(op, ir.Node) else op) in POOLING
