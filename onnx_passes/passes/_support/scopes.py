"""Scopes and names: which graph sees what, and under which name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import onnx_ir as ir

from onnx_passes.model.walk import (
    all_graphs,
    graphs_within,
    meta,
    node_outputs,
    nodes_of,
    subgraphs_of,
)

QUANTIZATION = "quant_parameter_tensor_names"
"""Where onnx-ir keeps a value's quantization annotation: it refers to tensors by *name*."""


def roots(model: ir.Model) -> Iterator[tuple[ir.Graph, dict[str, int]]]:
    """Yield the main graph and every function body, with the opset imports that hold there."""
    yield model.graph, model.graph.opset_imports
    for function in model.functions.values():
        yield function.graph, function.opset_imports


def own_values(graph: ir.Graph) -> Iterator[ir.Value]:
    """Yield the values that a graph itself defines, each once."""
    seen: set[ir.Value] = set()
    for value in (*graph.inputs, *graph.initializers.values()):
        if value not in seen:
            seen.add(value)
            yield value
    for node in nodes_of(graph):
        yield from node_outputs(node)


def name_counts(model: ir.Model) -> Counter[str]:
    """Count the values of each name, over all graphs and functions."""
    return Counter(v.name for g in all_graphs(model) for v in own_values(g) if v.name)


def nodes_within(node: ir.Node) -> Iterator[ir.Node]:
    """Yield a node, then every node of its subgraphs, at any depth."""
    yield node
    for subgraph in subgraphs_of(node):
        for graph in graphs_within(subgraph):
            yield from graph


def annotated_names(model: ir.Model) -> set[str]:
    """Return the names that quantization annotations refer to."""
    return {
        name
        for graph in all_graphs(model)
        for store in map(meta, own_values(graph))
        if store
        for name in (store.get(QUANTIZATION) or {}).values()
    }
