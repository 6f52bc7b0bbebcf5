"""Parts of a model, by the nodes that they keep."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

import numpy as np
import onnx_ir as ir

from onnx_passes.surgery.copy import copy_nodes
from onnx_passes.surgery.extract import assemble
from onnx_passes.surgery.walk import captured_values
from onnx_passes.verify.node_equality import constant_tensor
from onnx_passes.verify.reduce.boundary import Boundary

Nodes = frozenset[int]
"""Nodes of the main graph by their position among those that are no constants."""


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

    def __post_init__(self) -> None:
        """Look at the graph once."""
        graph = self.model.graph
        self.nodes = [n for n in graph if not (n.outputs and constant_tensor(n.outputs[0]))]
        makers = {v: i for i, node in enumerate(self.nodes) for v in node.outputs}
        self.parents = [{makers[v] for v in _read(node) if v in makers} for node in self.nodes]
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

    def part(self, kept: Nodes) -> ir.Model | None:
        """Return a model of some nodes; None where the type of an input is not known.

        Its inputs are the values that the nodes read and do not compute; shapes, axes and
        indices computed outside are constants where their values are known. Its outputs are
        those of the model, and what no node of the part reads.
        """
        picked = [self.nodes[index] for index in sorted(kept)]
        copies, known = copy_nodes(picked)
        inside = {value for node in picked for value in node.outputs}
        outside = dict.fromkeys(v for n in picked for v in _read(n) if v not in inside)
        inputs: list[ir.Value] = []
        initializers: list[ir.Value] = []
        frozen = self._frozen(outside)
        for value in outside:
            copy = known[value]
            tensor = constant_tensor(value) or frozen.get(value)
            if tensor is not None:
                copy.const_value = tensor
                copy.type, copy.shape = (
                    ir.TensorType(tensor.dtype),
                    ir.Shape(tensor.shape.numpy()),
                )
                initializers.append(copy)
                continue
            if not _typed(copy, value, self.boundary):
                return None
            inputs.append(copy)
            if value.is_initializer():  # a default, which callers may override
                copy.const_value = value.const_value
                initializers.append(copy)
            else:
                copy.const_value = None
        outputs = [known[value] for value in self._results(picked, inside)]
        for value, copy in known.items():
            if value in inside and copy in outputs:
                _typed(copy, value, self.boundary)
        order = {str(v.name): i for i, v in enumerate(self.model.graph.inputs)}
        inputs.sort(key=lambda v: order.get(str(v.name), len(order)))
        return assemble(self.model, copies, inputs, outputs, initializers)

    def _frozen(self, outside: Iterable[ir.Value]) -> dict[ir.Value, ir.TensorProtocol]:
        """Return values that have to stay as they are; none where no input would be left."""
        free = [v for v in outside if constant_tensor(v) is None]
        found: dict[ir.Value, ir.TensorProtocol] = {}
        for value in free:
            array = None if value.is_graph_input() else self.boundary.frozen(value)
            if array is not None:
                found[value] = ir.tensor(np.array(array), name=value.name)
        return found if len(found) < len(free) else {}

    def _results(self, picked: list[ir.Node], inside: set[ir.Value]) -> list[ir.Value]:
        read = {value for node in picked for value in _read(node)}
        given = [value for value in self.model.graph.outputs if value in inside]
        loose = [
            value
            for node in picked
            for value in node.outputs
            if value.name and value not in read and not value.is_graph_output()
        ]
        if self.keep_outputs and given:
            return given
        used = [value for value in loose if value.uses()] or ([] if given else loose)
        return list(dict.fromkeys(given + used))


def reach(start: Iterable[int], edges: list[set[int]]) -> Nodes:
    """Return the nodes that some lead to, and these."""
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


def _typed(copy: ir.Value, value: ir.Value, boundary: Boundary) -> bool:
    described = boundary.describe(value)
    if described is None:
        return False
    copy.type, copy.shape = described
    return True
