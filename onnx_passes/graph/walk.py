"""Walks over everything a model holds: subgraphs and function bodies included."""

from __future__ import annotations

from collections import Counter

import onnx_ir as ir

from onnx_passes.io.contents import (
    all_graphs,
    all_nodes,
    all_tensors,
    attribute_tensors,
    graphs_within,
    subgraphs_of,
)
from onnx_passes.io.order import captured_values, cycle_error, topological_order

__all__ = [
    "all_graphs",
    "all_nodes",
    "all_tensors",
    "attribute_tensors",
    "captured_values",
    "cycle_error",
    "graphs_within",
    "node_count",
    "operator_histogram",
    "subgraphs_of",
    "topological_order",
    "weight_bytes",
]


def node_count(model: ir.Model) -> int:
    """Count all nodes, those in subgraphs and functions included."""
    return sum(len(graph) for graph in all_graphs(model))


def weight_bytes(model: ir.Model) -> int:
    """Sum the bytes of all tensors, each object counted once."""
    return sum(tensor.nbytes for tensor in all_tensors(model))


def operator_histogram(model: ir.Model) -> dict[str, int]:
    """Count nodes by operator, most frequent first; other domains as ``domain::Op``."""
    names = Counter(
        f"{node.domain}::{node.op_type}" if node.domain else node.op_type
        for node in all_nodes(model)
    )
    return dict(sorted(names.items(), key=lambda item: (-item[1], item[0])))
