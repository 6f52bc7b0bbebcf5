"""What the operands of nodes must be, by the descriptions of their operators."""

from __future__ import annotations

import onnx_ir as ir

from onnx_passes.ops.input_hints import ValueHint
from onnx_passes.ops.operator_class import operator_of
from onnx_passes.ops.use import Use


def admitted(use: Use) -> ValueHint | None:
    """Return what a value must be at one use for the node to mean something."""
    operator = operator_of(use.node)
    return None if operator is None else operator.admits(use)


def steers(node: ir.Node, index: int) -> bool:
    """Whether an operand decides sizes or places: a shape, an axis, an index.

    Args:
        node: The node.
        index: Number of the operand.
    """
    operator = operator_of(node)
    return operator is not None and index in operator.steers
