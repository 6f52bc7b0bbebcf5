"""Which nodes compute in floating point between thresholds."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import onnx_ir as ir

from onnx_passes.ops.bodies.operator_bodies import CUSTOM, is_quantiser
from onnx_passes.ops.operator_class import operator_of
from onnx_passes.passes.quantised._pairs import STANDARD
from onnx_passes.passes.streamline._integers import integer_ranges

_MEANS = frozenset({"AveragePool", "GlobalAveragePool", "ReduceMean"})


def floats_between(graph: ir.Graph, beside: Collection[str] = ()) -> list[ir.Node]:
    """Return nodes between thresholds whose results are not known to be integers.

    A node is between thresholds if something that a threshold (or quantiser) makes reaches it,
    and what it makes reaches another. Nodes that only move elements compute nothing. A mean is
    let through: it is a sum of integers by their number.

    Args:
        graph: The graph, in topological order.
        beside: Operators that may compute in floating point, with what lies between them and
            the thresholds in front of them.
    """
    integers = integer_ranges(graph)
    behind: set[ir.Node] = set()
    for node in graph:
        if any(_is_step(p) or p in behind for p in _producers(node)):
            behind.add(node)
    found: set[ir.Node] = set()
    seen: set[ir.Node] = set()
    todo = [node for node in graph if _is_step(node)]
    while todo:
        for node in _producers(todo.pop()):
            if node in seen or _is_step(node) or node not in behind:
                continue
            seen.add(node)
            if node.op_type in beside:
                continue
            todo.append(node)
            if node.outputs[0] not in integers and not _only_moves(node):
                found.add(node)
    return [node for node in graph if node in found]


def steps_of(graph: ir.Graph) -> tuple[list[ir.Node], list[ir.Node]]:
    """Return the thresholds of a graph, and the quantisers."""
    steps = [node for node in graph if _is_step(node)]
    thresholds = [node for node in steps if node.op_type == "MultiThreshold"]
    return thresholds, [node for node in steps if node.op_type != "MultiThreshold"]


def _producers(node: ir.Node) -> Iterator[ir.Node]:
    for value in node.inputs:
        producer = None if value is None else value.producer()
        if producer is not None:
            yield producer


def _is_step(node: ir.Node) -> bool:
    kind = (node.domain, node.op_type)
    threshold = kind in ((CUSTOM, "MultiThreshold"), STANDARD)
    return threshold or is_quantiser(node.domain, node.op_type)


def _only_moves(node: ir.Node) -> bool:
    if node.op_type in _MEANS:
        return True
    operator = operator_of(node)
    return operator is not None and bool(operator.moves)
