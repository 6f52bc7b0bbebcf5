"""Putting one node behind another, on the graph itself."""

from __future__ import annotations

from collections import Counter

import onnx_ir as ir

from onnx_passes.model.walk import all_nodes
from onnx_passes.passes._support.edit import discard, supersede
from onnx_passes.passes.replace import Namer


class Mover:
    """Puts new nodes in the place of old ones.

    Attributes:
        names: Gives names that are free.
    """

    def __init__(self, model: ir.Model) -> None:
        """Look at the names of the model."""
        self.names = Namer(model)
        self._count = Counter(v.name or "" for n in all_nodes(model) for v in n.outputs)

    def node(
        self, like: ir.Node, inputs: list[ir.Value | None], shape: ir.Shape | None
    ) -> ir.Node:
        """Make a copy of a node with other inputs.

        Args:
            like: The node.
            inputs: Its new inputs.
            shape: Shape of its first output, if it is known.
        """
        made = ir.Node(
            like.domain,
            like.op_type,
            inputs,
            list(like.attributes.values()),
            overload=like.overload,
            name=self.names.node(like.op_type),
        )
        out = made.outputs[0]
        out.name, out.type, out.shape = (
            self.names.value(f"{like.op_type}_out"),
            like.outputs[0].type,
            shape,
        )
        self._count[out.name] += 1
        return made

    def constant(self, graph: ir.Graph, tensor: ir.TensorProtocol) -> ir.Value:
        """Add a constant to a graph."""
        node = ir.Node("", "Constant", [], [ir.AttrTensor("value", tensor)])
        node.name = self.names.node("Constant")
        node.outputs[0].name = self.names.value("Constant_out")
        node.outputs[0].type = ir.TensorType(tensor.dtype)
        node.outputs[0].shape = ir.Shape(tensor.shape.numpy())
        graph.insert_before(graph[0], node)
        return node.outputs[0]

    def swap(self, old: ir.Node, inner: ir.Node, outer: ir.Node) -> None:
        """Let two nodes stand for an old one, and drop what nothing reads any more.

        Args:
            old: A node with one output that is read.
            inner: What comes first; its output is read by ``outer``.
            outer: What comes second.
        """
        graph = old.graph
        assert graph is not None, "the node is in a graph"
        graph.insert_before(old, inner)
        graph.insert_before(old, outer)
        before = [value.producer() for value in old.inputs if value is not None]
        self._take_place(old.outputs[0], outer.outputs[0])
        discard(old)
        _drop_unread(before)

    def swap_each(self, old: ir.Node, first: ir.Node) -> None:
        """Put an operation behind each output of a node, and not in front of it.

        Args:
            old: A node that reads what ``first`` makes as its first operand.
            first: A product or sum with a constant as its second operand.
        """
        graph = old.graph
        assert graph is not None, "the node is in a graph"
        inner = ir.Node(
            old.domain,
            old.op_type,
            [first.inputs[0], *old.inputs[1:]],
            list(old.attributes.values()),
            num_outputs=len(old.outputs),
            name=self.names.node(old.op_type),
        )
        graph.insert_before(old, inner)
        before = [value.producer() for value in old.inputs if value is not None]
        for value, part in zip(old.outputs, inner.outputs, strict=True):
            part.name = self.names.value(f"{old.op_type}_out")
            part.type, part.shape = value.type, value.shape
            self._count[part.name] += 1
            outer = self.node(first, [part, first.inputs[1]], value.shape)
            graph.insert_before(old, outer)
            self._take_place(value, outer.outputs[0])
        discard(old)
        _drop_unread(before)

    def _take_place(self, value: ir.Value, new: ir.Value) -> None:
        new.type, new.shape = value.type, value.shape
        supersede(value, new, self._count)


def _drop_unread(nodes: list[ir.Node | None]) -> None:
    for node in nodes:
        unread = node is not None and not any(
            v.uses() or v.is_graph_output() for v in node.outputs
        )
        if node is not None and unread and node.graph is not None:
            discard(node)
