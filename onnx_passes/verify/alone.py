"""Nodes as models of their own, to ask an engine about each."""

from __future__ import annotations

import onnx_ir as ir

from onnx_passes.model.copy import copy_nodes
from onnx_passes.model.extract import assemble
from onnx_passes.model.walk import captured_values


def name_of(node: ir.Node) -> str:
    """Return the name of a node; the first value that it computes where it has none."""
    return node.name or (str(node.outputs[0].name) if node.outputs else "")


def untyped(node: ir.Node) -> str | None:
    """Return the name of a value that a node reads and whose type is not known."""
    return next((str(v.name) for v in _fed(node) if v.type is None), None)


def alone(node: ir.Node, model: ir.Model) -> ir.Model:
    """Return a node as a model, fed with what other nodes compute.

    Weights are shared, and those functions that the node calls: others may be broken.

    Args:
        node: The node; the types of what it reads are known.
        model: The model that it is in, subgraphs included.
    """
    fed = _fed(node)
    (copy,), values = copy_nodes([node])
    return assemble(
        model,
        [copy],
        [values[v] for v in fed],
        [value for value in copy.outputs if value.name],
        [values[v] for v in _read(node) if v not in fed],
    )


def _read(node: ir.Node) -> list[ir.Value]:
    found = dict.fromkeys((*node.inputs, *captured_values(node)))
    return [value for value in found if value is not None]


def _fed(node: ir.Node) -> list[ir.Value]:
    return [v for v in _read(node) if v.const_value is None or v.producer() is not None]
