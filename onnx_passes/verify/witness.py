"""Each application of a rule as two pieces of graph: what it matched and what it put there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import onnx_ir as ir

from onnx_passes.model.copy import copy_nodes
from onnx_passes.model.walk import captured_values
from onnx_passes.passes.constants import is_constant
from onnx_passes.passes.context import Application

Scope = ir.Graph | ir.Function | None
"""The graph that a value belongs to."""


@dataclass(frozen=True)
class Side:
    """Some nodes, apart from their graph.

    Attributes:
        nodes: Copies of the nodes, in an order in which they can run. What they read that
            always holds the same tensor has it as its ``const_value``.
        outputs: The values that count, copies or values of no node.
        values: Copy by value of the model.
        scopes: The graph of each value, by copy.
    """

    nodes: list[ir.Node]
    outputs: list[ir.Value]
    values: dict[ir.Value, ir.Value]
    scopes: dict[ir.Value, Scope]

    @classmethod
    def of(cls, nodes: Sequence[ir.Node], outputs: Sequence[ir.Value], scope: Scope) -> Side:
        """Copy nodes of a graph, and say which values count.

        Args:
            nodes: The nodes.
            outputs: The values that count.
            scope: The graph that the nodes are in.
        """
        copies, values = copy_nodes(nodes)
        for value in outputs:
            if value not in values:
                values[value] = ir.Value(name=value.name)
        made = {out for node in copies for out in node.outputs}
        for value, copy in values.items():
            fixed = is_constant(value) and copy not in made
            copy.const_value = ir.convenience.get_const_tensor(value) if fixed else None
            if copy in made:
                # Declared types and shapes are claims of the model; the engine infers.
                copy.type = copy.shape = None
        scopes = {copy: value.graph or scope for value, copy in values.items()}
        return cls(_ordered(copies), [values[v] for v in outputs], values, scopes)

    def name_values(self) -> None:
        """Give the copies the names that the model's values have by now."""
        for value, copy in self.values.items():
            copy.name = value.name

    def read(self) -> list[ir.Value]:
        """Return what the nodes read and do not compute, constants aside."""
        made = {out for node in self.nodes for out in node.outputs}
        values = [v for node in self.nodes for v in (*node.inputs, *captured_values(node))]
        return [
            value
            for value in dict.fromkeys((*values, *self.outputs))
            if value is not None and value not in made and value.const_value is None
        ]

    def name_by_scope(self, prefixes: Mapping[Scope, str]) -> bool:
        """Put the place of its graph before each name; return whether all are known."""
        known = True
        for copy in (*self.read(), *(v for node in self.nodes for v in node.outputs)):
            prefix = prefixes.get(self.scopes[copy])
            known = known and prefix is not None
            copy.name = f"{prefix or ''}{copy.name}" if copy.name else copy.name
        return known


@dataclass(frozen=True)
class ApplicationPieces:
    """One application.

    Attributes:
        application: Its record.
        old: The nodes matched, and the values that were replaced.
        new: The nodes put in their place, and what replaces those values.
    """

    application: Application
    old: Side
    new: Side


@dataclass
class Witnesses:
    """Keeps the pieces of every application, in order; see ``passes.context.Witness``."""

    pieces: list[ApplicationPieces] = field(default_factory=list)
    _seen: list[Side] = field(default_factory=list)

    def before(
        self,
        outermost: bool,
        matched: Sequence[ir.Node],
        old: Sequence[ir.Value],
        nodes: Sequence[ir.Node],
        new: Sequence[ir.Value],
    ) -> None:
        """Copy both sides.

        Args:
            outermost: Whether the graph is the main one.
            matched: The nodes that were matched.
            old: The values that are replaced.
            nodes: The nodes put in their place.
            new: The values that replace ``old``.
        """
        scope = matched[0].graph
        self._seen = [Side.of(matched, old, scope), Side.of(nodes, new, scope)]

    def after(self, application: Application) -> None:
        """Keep the two sides, with the names that new values have got."""
        self._seen[1].name_values()
        self.pieces.append(ApplicationPieces(application, *self._seen))


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
