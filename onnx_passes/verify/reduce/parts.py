"""Parts of a model, by the nodes that they keep."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

import numpy as np
import onnx_ir as ir

from onnx_passes.model.copy import copy_nodes
from onnx_passes.model.extract import assemble
from onnx_passes.model.walk import captured_values
from onnx_passes.verify.node_equality import constant_tensor
from onnx_passes.verify.reduce.boundary import Boundary

Nodes = frozenset[int]
"""Nodes of the main graph by their position among those that are not constants."""


@dataclass(frozen=True)
class Piece:
    """How some nodes are cut out of a model.

    Attributes:
        nodes: Their positions, in order.
        inputs: Values of the model that become inputs.
        constants: Values that are constants, and what they hold.
        outputs: Values that become outputs.
    """

    nodes: list[int]
    inputs: list[ir.Value]
    constants: dict[ir.Value, ir.TensorProtocol]
    outputs: list[ir.Value]


@dataclass
class Parts:
    """The nodes of a model, how they depend on each other, and models of some of them.

    Attributes:
        model: The model; left as it is.
        boundary: What is known of values that become inputs and outputs.
        keep_inputs: Whether a part has to start at the inputs of the model.
        keep_outputs: Whether a part has to end at the outputs of the model.
    """

    model: ir.Model
    boundary: Boundary
    keep_inputs: bool = False
    keep_outputs: bool = False
    nodes: list[ir.Node] = field(init=False)
    parents: list[set[int]] = field(init=False)
    children: list[set[int]] = field(init=False)
    reads: list[list[ir.Value]] = field(init=False)
    _tensors: dict[ir.Value, ir.TensorProtocol | None] = field(
        init=False, default_factory=dict
    )

    def __post_init__(self) -> None:
        """Look at the graph once."""
        graph = self.model.graph
        self.nodes = [n for n in graph if not (n.outputs and constant_tensor(n.outputs[0]))]
        makers = {v: i for i, node in enumerate(self.nodes) for v in node.outputs}
        self.reads = [_read(node) for node in self.nodes]
        self.parents = [{makers[v] for v in read if v in makers} for read in self.reads]
        self.children = [set() for _ in self.nodes]
        for index, parents in enumerate(self.parents):
            for parent in parents:
                self.children[parent].add(index)

    @property
    def whole(self) -> Nodes:
        """All nodes."""
        return frozenset(range(len(self.nodes)))

    def grow(self, kept: Iterable[int]) -> Nodes:
        """Add what a part needs so that it starts, or ends, where it has to."""
        if self.keep_inputs:
            return reach(kept, self.parents)
        return reach(kept, self.children) if self.keep_outputs else frozenset(kept)

    def trim(self, kept: Collection[int]) -> Nodes:
        """Take away what cannot stay in a part that starts, or ends, where it has to."""
        if not (self.keep_inputs or self.keep_outputs):
            return frozenset(kept)
        lost = set(self.whole.difference(kept))
        return self.whole - reach(lost, self.children if self.keep_inputs else self.parents)

    def piece(self, kept: Nodes) -> Piece | None:
        """Return how some nodes are cut out; None where the type of an input is not known.

        Inputs are the values that the nodes read and do not compute; shapes, axes and indices
        computed outside are constants where their values are known. Outputs are those of the
        model, and what no node of the part reads.
        """
        picked = sorted(kept)
        inside = {value for index in picked for value in self.nodes[index].outputs}
        read = dict.fromkeys(v for index in picked for v in self.reads[index])
        outside = [value for value in read if value not in inside]
        frozen = self._frozen(outside)
        inputs: list[ir.Value] = []
        constants: dict[ir.Value, ir.TensorProtocol] = {}
        for value in outside:
            tensor = self._tensor(value) or frozen.get(value)
            if tensor is not None:
                constants[value] = tensor
            elif self.boundary.describe(value) is None:
                return None
            else:
                inputs.append(value)
        order = {value: i for i, value in enumerate(self.model.graph.inputs)}
        inputs.sort(key=lambda value: order.get(value, len(order)))
        return Piece(picked, inputs, constants, self._results(picked, inside, read))

    def part(self, kept: Nodes) -> ir.Model | None:
        """Return a model of some nodes; None where the type of an input is not known."""
        piece = self.piece(kept)
        return None if piece is None else self.model_of(piece)

    def model_of(self, piece: Piece) -> ir.Model:
        """Return the model of a part; weights are shared."""
        copies, known = copy_nodes([self.nodes[index] for index in piece.nodes])
        initializers = []
        for value, tensor in piece.constants.items():
            copy = known[value]
            copy.const_value = tensor
            copy.type = ir.TensorType(tensor.dtype)
            copy.shape = ir.Shape(tensor.shape.numpy())
            initializers.append(copy)
        for value in (*piece.inputs, *piece.outputs):
            described = self.boundary.describe(value)
            if described is not None:
                known[value].type, known[value].shape = described
            known[value].const_value = None
        for value in piece.inputs:
            if value.is_initializer():  # a default, which callers may override
                known[value].const_value = value.const_value
                initializers.append(known[value])
        return assemble(
            self.model,
            copies,
            [known[value] for value in piece.inputs],
            [known[value] for value in piece.outputs],
            initializers,
        )

    def _frozen(self, outside: Iterable[ir.Value]) -> dict[ir.Value, ir.TensorProtocol]:
        """Return values that have to stay as they are; none where no input would be left."""
        free = [v for v in outside if self._tensor(v) is None]
        found: dict[ir.Value, ir.TensorProtocol] = {}
        for value in free:
            array = None if value.is_graph_input() else self.boundary.frozen(value)
            if array is not None:
                found[value] = ir.tensor(np.array(array), name=value.name)
        return found if len(found) < len(free) else {}

    def _tensor(self, value: ir.Value) -> ir.TensorProtocol | None:
        if value not in self._tensors:
            self._tensors[value] = constant_tensor(value)
        return self._tensors[value]

    def _results(
        self, picked: list[int], inside: set[ir.Value], read: Collection[ir.Value]
    ) -> list[ir.Value]:
        given = [value for value in self.model.graph.outputs if value in inside]
        if self.keep_outputs and given:
            return list(dict.fromkeys(given))
        loose = [
            value
            for index in picked
            for value in self.nodes[index].outputs
            if value.name and value not in read and not value.is_graph_output()
        ]
        used = [value for value in loose if value.uses()] or ([] if given else loose)
        return list(dict.fromkeys(given + used))


def reach(start: Iterable[int], edges: list[set[int]]) -> Nodes:
    """Return the nodes that some lead to, and these.

    Args:
        start: Numbers of the nodes.
        edges: For each node the nodes that it leads to.
    """
    found: set[int] = set()
    pending = list(start)
    while pending:
        index = pending.pop()
        if index not in found:
            found.add(index)
            pending.extend(edges[index])
    return frozenset(found)


def _read(node: ir.Node) -> list[ir.Value]:
    return [v for v in (*node.inputs, *captured_values(node)) if v is not None]
