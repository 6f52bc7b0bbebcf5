"""Replace a computed value by a constant."""

from __future__ import annotations

from collections.abc import Iterable

import onnx_ir as ir

from onnx_passes.passes._support.edit import discard
from onnx_passes.passes._support.scopes import nodes_within


def install(value: ir.Value, tensor: ir.TensorProtocol, *, in_function: bool) -> None:
    """Let every reader of a node's output read a constant of the same name.

    The constant is an initializer; a Constant node in functions, which have no initializers,
    and for outputs of a graph, which stay values that a node computes.

    Args:
        value: The output of a node; afterwards without a name and without readers.
        tensor: What it always holds.
        in_function: Whether the graph is the body of a function, or inside of one.
    """
    node = value.producer()
    assert node is not None, "only a node's output is replaced"
    graph = node.graph
    assert graph is not None, "the node is in a graph"
    name, value.name = value.name, None
    tensor.name = name
    new = ir.Value(
        name=name,
        type=ir.TensorType(tensor.dtype),
        shape=ir.Shape(tensor.shape.numpy()),
        doc_string=value.doc_string,
        metadata_props=dict(value.metadata_props),
    )
    new.meta.update(value.meta)
    if value.is_graph_output():
        new.type, new.shape = value.type or new.type, value.shape or new.shape
    if in_function or value.is_graph_output():
        attribute = ir.AttrTensor("value", tensor)
        constant = ir.Node(
            "",
            "Constant",
            [],
            [attribute],
            outputs=[new],
            # onnx-ir would count from 0 in each subgraph, and two nodes would share a name.
            name=f"{name}_constant",
            metadata_props=dict(node.metadata_props),
        )
        graph.insert_before(node, constant)
        value.replace_all_uses_with(new, replace_graph_outputs=True)
    else:
        new.const_value = tensor
        value.replace_all_uses_with(new)
        graph.register_initializer(new)


def discard_unread(nodes: Iterable[ir.Node]) -> None:
    """Remove the nodes that nobody reads any more, and what only they read."""
    pending = list(nodes)
    while pending:
        node = pending.pop()
        if node.graph is None or not node.outputs:
            continue
        if any(value.uses() or value.is_graph_output() for value in node.outputs):
            continue
        inputs = {v for inner in nodes_within(node) for v in inner.inputs if v is not None}
        discard(node)
        producers = (value.producer() for value in inputs)
        pending.extend(dict.fromkeys(p for p in producers if p is not None))
