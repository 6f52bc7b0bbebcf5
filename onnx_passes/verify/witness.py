"""Each application of a rule as two pieces of graph: what it matched and what it put there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import onnx_ir as ir

from onnx_passes.graph.copy import copy_nodes
from onnx_passes.passes.constants import is_constant
from onnx_passes.passes.context import Application


@dataclass(frozen=True)
class Side:
    """Some nodes, apart from their graph.

    Attributes:
        nodes: Copies of the nodes, in an order in which they can run.
        outputs: The values that count, copies or values of no node.
        values: Copy by value of the model.
        fixed: Values read that always hold the same tensor, and that tensor.
    """

    nodes: list[ir.Node]
    outputs: list[ir.Value]
    values: dict[ir.Value, ir.Value]
    fixed: dict[ir.Value, ir.TensorProtocol]

    @classmethod
    def of(cls, nodes: Sequence[ir.Node], outputs: Sequence[ir.Value]) -> Side:
        """Copy nodes of a model, and say which values count."""
        copies, values = copy_nodes(nodes)
        for value in outputs:
            if value not in values:
                values[value] = ir.Value(name=value.name, const_value=value.const_value)
        made = {out for node in copies for out in node.outputs}
        fixed = {}
        for value, copy in values.items():
            tensor = ir.convenience.get_const_tensor(value) if is_constant(value) else None
            if tensor is not None and copy not in made:
                fixed[copy] = tensor
        return cls(_ordered(copies), [values[v] for v in outputs], values, fixed)

    def name_values(self) -> None:
        """Give the copies the names that the model's values have by now."""
        for value, copy in self.values.items():
            copy.name = value.name

    def read(self) -> list[ir.Value]:
        """Return what the nodes read and do not compute, constants aside."""
        made = {out for node in self.nodes for out in node.outputs}
        inner = {
            value
            for node in self.nodes
            for attribute in node.attributes.values()
            for graph in _graphs(attribute)
            for value in _computed(graph)
        }
        return [
            copy
            for copy in self.values.values()
            if copy not in made and copy not in self.fixed and copy not in inner
        ]


@dataclass(frozen=True)
class Pieces:
    """One application.

    Attributes:
        application: Its record.
        old: The nodes matched, and the values that were replaced.
        new: The nodes put in their place, and what stands for those values.
    """

    application: Application
    old: Side
    new: Side


@dataclass
class Witnesses:
    """Keeps the pieces of every application in the main graph; see ``passes.context.Witness``.

    Attributes:
        pieces: One for each application seen, in order.
        elsewhere: Applications in subgraphs and functions, whose values nobody records.
    """

    pieces: list[Pieces] = field(default_factory=list)
    elsewhere: list[Application] = field(default_factory=list)
    _seen: tuple[Side, Side] | None = None

    def before(
        self,
        outermost: bool,
        matched: Sequence[ir.Node],
        old: Sequence[ir.Value],
        nodes: Sequence[ir.Node],
        new: Sequence[ir.Value],
    ) -> None:
        """Copy both sides."""
        self._seen = None
        if outermost:
            self._seen = Side.of(matched, old), Side.of(nodes, new)

    def after(self, application: Application) -> None:
        """Keep the two sides, with the names that new values have got."""
        if self._seen is None:
            self.elsewhere.append(application)
            return
        old, new = self._seen
        new.name_values()
        self.pieces.append(Pieces(application, old, new))


def _ordered(nodes: Sequence[ir.Node]) -> list[ir.Node]:
    """Return nodes in an order in which each comes after those that it reads."""
    makers = {out: node for node in nodes for out in node.outputs}
    done: dict[ir.Node, None] = {}

    def visit(node: ir.Node) -> None:
        if node in done:
            return
        for value in node.inputs:
            maker = makers.get(value) if value is not None else None
            if maker is not None and maker is not node:
                visit(maker)
        done[node] = None

    for node in nodes:
        visit(node)
    return list(done)


def _graphs(attribute: ir.Attr) -> list[ir.Graph]:
    if attribute.is_ref():
        return []
    if attribute.type is ir.AttributeType.GRAPH:
        return [attribute.as_graph()]
    if attribute.type is ir.AttributeType.GRAPHS:
        return list(attribute.as_graphs())
    return []


def _computed(graph: ir.Graph) -> list[ir.Value]:
    found = [*graph.inputs, *graph.initializers.values()]
    for node in graph:
        found += node.outputs
        for attribute in node.attributes.values():
            found += [v for inner in _graphs(attribute) for v in _computed(inner)]
    return found
