"""Move one node behind another, in the graph."""

from __future__ import annotations

from collections import Counter

import onnx_ir as ir

from onnx_passes.model.walk import all_nodes
from onnx_passes.passes._support.edit import discard, supersede
from onnx_passes.passes.replace import Namer


class Mover:
    """Replaces nodes by new ones.

    Attributes:
        names: Gives names that are free.
    """

    def __init__(self, model: ir.Model) -> None:
        """Look at the names of the model."""
        self.names = Namer(model)
        self._count = Counter(v.name or "" for n in all_nodes(model) for v in n.outputs)

    def node(
        self, like: ir.Node, inputs: list[ir.Value | None], *shapes: ir.Shape | None
    ) -> ir.Node:
        """Make a copy of a node with other inputs.

        Args:
            like: The node.
            inputs: Its new inputs.
            shapes: Shapes of its outputs, as far as they are known; it has as many.
        """
        made = ir.Node(
            like.domain,
            like.op_type,
            inputs,
            list(like.attributes.values()),
            overload=like.overload,
            num_outputs=len(shapes),
            name=self.names.node(like.op_type),
        )
        for out, old, shape in zip(made.outputs, like.outputs, shapes, strict=False):
            out.name = self.names.value(f"{like.op_type}_out")
            out.type, out.shape = old.type, shape
            self._count[out.name] += 1
        return made

    def constant(self, graph: ir.Graph, tensor: ir.TensorProtocol) -> ir.Value:
        """Add a constant to a graph.

        Args:
            graph: The graph.
            tensor: The constant.
        """
        node = ir.Node("", "Constant", [], [ir.AttrTensor("value", tensor)])
        node.name = self.names.node("Constant")
        node.outputs[0].name = self.names.value("Constant_out")
        node.outputs[0].type = ir.TensorType(tensor.dtype)
        node.outputs[0].shape = ir.Shape(tensor.shape.numpy())
        graph.insert_before(graph[0], node)
        return node.outputs[0]

    def swap(self, old: ir.Node, inner: ir.Node, *outer: ir.Node) -> None:
        """Replace a node, and drop what nothing reads any more.

        Args:
            old: The node; no other output is read than the first ones.
            inner: What comes first.
            outer: What comes second, for each of these outputs.
        """
        graph = old.graph
        assert graph is not None, "the node is in a graph"
        graph.insert_before(old, [inner, *outer])
        before = [value.producer() for value in old.inputs if value is not None]
        for value, node in zip(old.outputs, outer, strict=False):
            new = node.outputs[0]
            new.type, new.shape = value.type, value.shape
            supersede(value, new, self._count)
        discard(old)
        _drop_unread(before)


def _drop_unread(nodes: list[ir.Node | None]) -> None:
    for node in nodes:
        unread = node is not None and not any(
            v.uses() or v.is_graph_output() for v in node.outputs
        )
        if node is not None and unread and node.graph is not None:
            discard(node)
