"""Which operators reduce axes."""

from __future__ import annotations

import onnx
import onnx_ir as ir

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
