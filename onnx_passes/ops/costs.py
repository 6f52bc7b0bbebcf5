"""How many scalar operations a node takes, by the description of its operator."""

from __future__ import annotations

from onnx_passes.ops.operands import Operands
from onnx_passes.ops.operator_class import Operator, operator_of
from onnx_passes.ops.semantics import MALFORMED, Unsupported


def flops_of(operands: Operands) -> int | None:
    """Return the operations of one run of a node, its subgraphs not among them.

    Returns:
        None if a size is not known, or the operator is not described: see ``has_rule``.
    """
    operator = operator_of(operands.node)
    if operator is None:
        return None
    if operator.free or operator.moves:
        return 0
    try:
        return operator.cost(operands)
    except (Unsupported, *MALFORMED):
        return None


def has_rule(operands: Operands) -> bool:
    """Whether the operations of a node are known, once its sizes are."""
    operator = operator_of(operands.node)
    if operator is None:
        return False
    costs = type(operator).cost is not Operator.cost
    return costs or operator.free or bool(operator.moves)
