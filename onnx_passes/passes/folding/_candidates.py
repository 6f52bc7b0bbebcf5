"""Which nodes compute the same result in every run, and what it costs to keep it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import onnx_ir as ir

from onnx_passes.model.walk import (
    all_nodes,
    captured_values,
    node_inputs,
    subgraphs_of,
    topological_order,
)
from onnx_passes.passes._support.determinism import Determinism
from onnx_passes.passes._support.scopes import nodes_within
from onnx_passes.passes._support.tensors import constant_of, constant_tensor

EXPANDING = frozenset(
    {
        "CenterCropPad",
        "Col2Im",
        "ConstantOfShape",
        "Expand",
        "Loop",
        "MaxUnpool",
        "OneHot",
        "Pad",
        "Range",
        "Resize",
        "Scan",
        "SequenceMap",
        "Tile",
        "Upsample",
    }
)
"""Operators whose output can be far bigger than their inputs: their shape must be known."""

MEMORY = 1 << 28
"""Bytes up to which a value may be computed, if it is not kept."""


def held_nodes(model: ir.Model) -> set[ir.Node]:
    """List the nodes whose results ONNX Runtime and the standard do not agree on.

    Among them are reductions of an empty constant, and what follows from them: along an axis
    that is counted from the end, ONNX Runtime does not reduce it.
    """
    empty: set[ir.Node] = set()
    for node in all_nodes(model):
        reduces = node.op_type.startswith("Reduce") and bool(node.inputs)
        if (reduces and _is_empty(node.inputs[0])) or any(
            v is not None and v.producer() in empty for v in node.inputs
        ):
            empty.add(node)
    return empty | _held_by_range(model)


def _is_empty(value: ir.Value | None) -> bool:
    tensor = constant_of(value) if value is not None else None
    return tensor is not None and tensor.size == 0


def _held_by_range(model: ir.Model) -> set[ir.Node]:
    """List the nodes behind an If that a Range reads, unless it is seen to be a scalar.

    ONNX Runtime runs a Range whose bounds have one element and rank 1, as long as it cannot
    see the rank beforehand. The standard does not allow them, and constants would show the
    rank.
    """
    held: set[ir.Node] = set()
    bounds = [v for n in all_nodes(model) if n.op_type == "Range" for v in n.inputs]
    pending = [
        v.producer()
        for v in bounds
        if v is not None and (v.shape is None or len(v.shape) > 0) and _is_if(v.producer())
    ]
    while pending:
        node = pending.pop()
        if node is None or node in held:
            continue
        held.add(node)
        read = [*node.inputs, *(v for branch in subgraphs_of(node) for v in branch.outputs)]
        pending.extend(value.producer() for value in read if value is not None)
    return held


def _is_if(node: ir.Node | None) -> bool:
    return node is not None and node.op_type == "If" and node.domain == ""


def constant_nodes(
    graph: ir.Graph,
    imports: Mapping[str, int],
    deterministic: Determinism,
    never: set[str],
    is_held: Callable[[ir.Node], bool],
) -> list[ir.Node]:
    """List the nodes of a graph that depend on constants only, in topological order.

    Args:
        graph: The graph; constants outside of it count.
        imports: The opset imports around it.
        deterministic: Says which nodes draw no random numbers.
        never: Operators that are not folded.
        is_held: Says which nodes are not folded. It is asked of constant nodes only.
    """
    found: dict[ir.Node, None] = {}
    for node in topological_order(graph):
        # Nearly all nodes read something that is not constant: that is asked first.
        if not all(_is_known(value, found) for value in node_inputs(node)):
            continue
        if constant_tensor(node) is not None or node.op_type in never or is_held(node):
            continue
        if _names_an_output(node):
            continue
        captured = list(captured_values(node))
        reads = [*captured, *(v for v in node.inputs if v is not None)]
        if not reads or not all(_is_known(value, found) for value in captured):
            continue
        refers = (a.is_ref() for n in nodes_within(node) for a in n.attributes.values())
        if any(refers) or not deterministic.holds(node, imports) or _is_too_big(node):
            continue
        found[node] = None
    return list(found)


def _is_known(value: ir.Value | None, found: Mapping[ir.Node, None]) -> bool:
    """Whether a value is left out, constant, or computed by one of the nodes found."""
    return value is None or value.producer() in found or _is_constant(value)


def _names_an_output(node: ir.Node) -> bool:
    """Whether a node only gives an output another name, by which it is an output again.

    A constant in its place would be a second copy, which is merged into the first one again.
    """
    ends = [*node.inputs, *node.outputs]
    return node.op_type == "Identity" and all(v and v.is_graph_output() for v in ends)


def _is_constant(value: ir.Value) -> bool:
    return constant_of(value) is not None


def estimated_bytes(value: ir.Value) -> int | None:
    """Return the bytes of a value whose type and shape are known."""
    if value.dtype is None or value.shape is None or not value.shape.is_static():
        return None
    if value.dtype is ir.DataType.STRING or not isinstance(value.type, ir.TensorType):
        return None
    size = 1
    for dim in value.shape.numpy():
        size *= dim
    return -(-size * value.dtype.bitwidth // 8)


def _is_too_big(node: ir.Node) -> bool:
    sizes = [estimated_bytes(value) for value in node.outputs if value.name]
    if any(size is None for size in sizes):
        return node.op_type in EXPANDING
    return sum(size or 0 for size in sizes) > MEMORY + 4 * source_bytes([node])


def source_bytes(nodes: Iterable[ir.Node]) -> int:
    """Sum the bytes of the constants that nodes read, each once."""
    sources = {v for node in nodes for v in node.inputs if v is not None}
    tensors = (constant_of(value) for value in sources)
    return sum(t.nbytes for t in tensors if t is not None)
