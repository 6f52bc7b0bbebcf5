"""Walks over everything a model holds: subgraphs and function bodies included."""

from __future__ import annotations

from collections import Counter

import onnx_ir as ir

from onnx_passes.model.contents import (
    all_graphs,
    all_nodes,
    all_tensors,
    attribute_tensors,
    graphs_within,
    subgraphs_of,
)
from onnx_passes.model.order import captured_values, cycle_error, topological_order
from onnx_passes.model.tensor_bytes import byte_count

__all__ = [
    "GROWTH",
    "all_graphs",
    "all_nodes",
    "all_tensors",
    "attribute_tensors",
    "captured_values",
    "constant_bytes",
    "cycle_error",
    "file_bytes",
    "graphs_within",
    "node_bytes",
    "node_count",
    "operator_histogram",
    "subgraphs_of",
    "tensor_growth",
    "topological_order",
    "ungrown_bytes",
    "weight_bytes",
]


_PORT, _CONSTANT, _ATTRIBUTE, _METADATA = 24, 16, 10, 6
"""Bytes of a port, a constant, an attribute, a property, besides names and data."""

GROWTH = "onnx_passes.growth"
"""Metadata of a constant that was folded: the bytes by which the model grew."""


def node_count(model: ir.Model) -> int:
    """Count all nodes, those in subgraphs and functions included."""
    return sum(len(graph) for graph in all_graphs(model))


def weight_bytes(model: ir.Model) -> int:
    """Sum the bytes of all tensors, each object counted once."""
    return sum(map(byte_count, all_tensors(model)))


def file_bytes(model: ir.Model) -> int:
    """Estimate the bytes of a model's file, its inferred types left out.

    Names and weights are counted as they are, the rest by what it usually takes.
    """
    found = sum(map(node_bytes, all_nodes(model)))
    for graph in all_graphs(model):
        found += sum(_PORT + _length(value) for value in (*graph.inputs, *graph.outputs))
        if isinstance(graph, ir.Graph):
            found += sum(map(constant_bytes, graph.initializers))
    return found + weight_bytes(model)


def ungrown_bytes(model: ir.Model) -> int:
    """Estimate the bytes of a model's file, less what folding has made it grow by so far."""
    return file_bytes(model) - sum(tensor_growth(tensor) for tensor in all_tensors(model))


def tensor_growth(tensor: ir.TensorProtocol) -> int:
    """Return the bytes by which folding a constant has made the model bigger."""
    noted = getattr(tensor, "metadata_props", {}).get(GROWTH, "")
    return int(noted) if noted.isdecimal() else 0


def node_bytes(node: ir.Node) -> int:
    """Estimate the bytes of a node, its subgraphs and tensors left out."""
    values = sum(2 + _length(value) for value in (*node.inputs, *node.outputs))
    named = 6 + len(node.op_type) + len(node.domain) + len(node.name or "")
    # Exporters note where each node comes from: that may be most of a small file.
    told = sum(_METADATA + len(key) + len(text) for key, text in node.metadata_props.items())
    told += len(node.doc_string or "")
    return named + values + told + sum(_ATTRIBUTE + len(name) for name in node.attributes)


def constant_bytes(name: str) -> int:
    """Estimate the bytes of an initializer beside its data."""
    return _CONSTANT + len(name)


def _length(value: ir.Value | None) -> int:
    return len(value.name or "") if value is not None else 0


def operator_histogram(model: ir.Model) -> dict[str, int]:
    """Count nodes by operator, most frequent first; other domains as ``domain::Op``."""
    names = Counter(
        f"{node.domain}::{node.op_type}" if node.domain else node.op_type
        for node in all_nodes(model)
    )
    return dict(sorted(names.items(), key=lambda item: (-item[1], item[0])))
