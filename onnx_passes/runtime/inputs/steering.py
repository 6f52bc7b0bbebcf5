"""Which inputs decide sizes, positions and how often a loop runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import onnx_ir as ir

from onnx_passes.model.walk import captured_values
from onnx_passes.ops.input_hints import constant_of
from onnx_passes.ops.node_queries import steers
from onnx_passes.ops.operator_class import operator_of


def steering_inputs(model: ir.Model) -> frozenset[str]:
    """Return the names of the inputs that extreme values are not safe for.

    A shape may come out at terabytes, a loop without an end, and a division of integers by
    zero ends the process on most processors. Arithmetic on the way is followed.

    Args:
        model: A model with the types of its values, as far as they can be inferred.
    """
    found: set[ir.Value] = set()
    nodes = list(model.graph.all_nodes())
    owners = {graph: node for node in nodes for graph in _graphs(node)}
    stack = [(value, False) for node in nodes for value in _steered(node)]
    stack += [(value, True) for node in nodes for value in _repeated(node)]
    while stack:
        value, decisions = stack.pop()
        if value in found:
            continue
        producer = value.producer()
        described = None if producer is None else operator_of(producer)
        bounded = described is not None and value.index() in described.in_range
        if bounded or (_decides(value) and not decisions):
            continue
        found.add(value)
        stack += [(read, decisions) for read in _read_for(value, owners)]
    return frozenset(str(v.name) for v in model.graph.inputs if v in found)


def _decides(value: ir.Value) -> bool:
    """Whether a value is a truth value, computed element by element: it is always in range."""
    producer = value.producer()
    described = None if producer is None else operator_of(producer)
    return described is not None and described.elementwise and value.dtype is ir.DataType.BOOL


def _steered(node: ir.Node) -> Iterator[ir.Value]:
    described = operator_of(node)
    divides = described is not None and described.divides and not _divides_safely(node)
    for index, value in enumerate(node.inputs):
        if value is None:
            continue
        if steers(node, index) or (
            divides and (value.dtype is None or value.dtype.is_integer())
        ):
            yield value


def _divides_safely(node: ir.Node) -> bool:
    """Whether the divisor is known: neither zero nor -1, which the least integer overflows."""
    divisor = node.inputs[1] if len(node.inputs) == 2 else None
    known = constant_of(divisor)
    if known is None or divisor is None or divisor.is_graph_input():
        return False
    return not np.isin(known, (0, -1)).any()


def _repeated(node: ir.Node) -> Iterator[ir.Value]:
    """Yield what decides whether a loop continues."""
    body = node.attributes.get("body")
    if node.op_type == "Loop" and body is not None and not body.is_ref():
        yield from (value for value in node.inputs[:2] if value is not None)
        yield from body.as_graph().outputs[:1]


def _read_for(value: ir.Value, owners: Mapping[ir.Graph, ir.Node]) -> Iterator[ir.Value]:
    """Yield what a value is computed from, as far as one step goes."""
    node = value.producer()
    if node is None:  # an input, of a body if not of the model
        node = owners.get(value.graph) if isinstance(value.graph, ir.Graph) else None
    if node is not None:
        yield from (read for read in node.inputs if read is not None)
        yield from captured_values(node)
        for graph in _graphs(node):
            yield from graph.outputs


def _graphs(node: ir.Node) -> list[ir.Graph]:
    return [
        attribute.as_graph()
        for attribute in node.attributes.values()
        if not attribute.is_ref() and attribute.type == ir.AttributeType.GRAPH
    ]
