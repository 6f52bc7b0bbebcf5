"""Which operators pool over windows."""

from __future__ import annotations

import onnx_ir as ir

POOLING = {
    "AveragePool",
    "GlobalAveragePool",
    "GlobalLpPool",
    "GlobalMaxPool",
    "LpPool",
    "MaxPool",
}


def is_pooling(op: str | ir.Node) -> bool:
    """Whether an operator pools over windows."""
    return (op.op_type if isinstance(op, ir.Node) else op) in POOLING
