"""Nodes between values: the region of a graph that options name by its ends."""

from __future__ import annotations

from collections.abc import Collection

import onnx_ir as ir

from onnx_passes.model.walk import (
    captured_values,
    graphs_within,
    subgraphs_of,
    topological_order,
)


def names_of(graph: ir.Graph) -> set[str]:
    """Return the names of the values of a graph, without those in bodies."""
    values = {v for node in graph for v in (*node.inputs, *node.outputs) if v is not None}
    return {str(v.name) for v in (*values, *graph.inputs)}


def nodes_between(
    graph: ir.Graph, after: Collection[str], before: Collection[str]
) -> set[ir.Node]:
    """Return the nodes that depend on some values, and that others depend on.

    The nodes in their bodies are among them.

    Args:
        graph: The graph; a node with a body reads what its body captures.
        after: Names of the first values; empty for any node.
        before: Names of the last ones; empty for any node.
    """
    order = list(topological_order(graph))
    found = set(order)
    if after:
        below = set(after)
        for node in order:
            if below & _read(node):
                below |= _output_names(node)
            else:
                found.discard(node)
    if before:
        above = set(before)
        for node in reversed(order):
            if above & _output_names(node):
                above |= _read(node)
            else:
                found.discard(node)
    roots = [root for node in found for root in subgraphs_of(node)]
    return found.union(*(graph for root in roots for graph in graphs_within(root)))


def _read(node: ir.Node) -> set[str]:
    values = (*node.inputs, *captured_values(node))
    return {str(value.name) for value in values if value is not None}


def _output_names(node: ir.Node) -> set[str]:
    return {str(value.name) for value in node.outputs if value.name}
