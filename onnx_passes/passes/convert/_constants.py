"""Constants that a model computes, such as axes that Range counts."""

from __future__ import annotations

from collections.abc import Mapping

import onnx_ir as ir

from onnx_passes.passes._support.knowledge import Knowledge
from onnx_passes.passes._support.tensors import constant_of
from onnx_passes.passes.folding._evaluate import Evaluation

MAX_NODES = 50
"""Nodes by which attributes and axes are computed at most."""


def constant_value(
    model: ir.Model, imports: Mapping[str, int], value: ir.Value
) -> ir.TensorProtocol | None:
    """Return what a value always holds, computed from constants if need be.

    Args:
        model: Where the functions are that nodes call.
        imports: The opsets that the nodes before the value are of.
        value: The value.
    """
    tensor = constant_of(value)
    if tensor is not None:
        return tensor
    nodes = _computed_by(value)
    if not nodes:
        return None
    evaluation, facts = Evaluation(model, imports), Knowledge(imports)
    for node in nodes:
        known = facts.visit(node)
        found = None if known is None else known.tensor()
        if found is not None:
            evaluation.results[node.outputs[0]] = found
    evaluation.run(nodes, [value])
    return evaluation.results.get(value)


def _computed_by(value: ir.Value) -> list[ir.Node]:
    """Return the nodes by which constants and shapes make a value; none if others do."""
    found: dict[ir.Node, None] = {}
    pending = [value]
    while pending:
        current = pending.pop()
        node = current.producer()
        if constant_of(current) is not None:
            continue
        if node is None or not node.inputs or len(found) > MAX_NODES:
            return []
        found.pop(node, None)  # what is needed twice goes before both
        found[node] = None
        if node.op_type == "Shape":
            continue  # what is known of the shape decides
        pending.extend(v for v in node.inputs if v is not None)
    return list(found)[::-1]
