"""The part of a model that a pass changed, as a model of its own.

Values are matched by name. A node is *kept* if the model before had one of the same operator,
attributes, input names and output names; the others are *new*. Constants are matched by
content, so that it does not matter where they are stored. A value on the *frontier* is
computed by a new node, and read by a kept one or an output. If every such value is equal, bit
for bit, to the value of that name before, every kept node computes what it did, by induction
over the graph. So do the outputs. Reading the result of an Identity is reading its input, in
both models: removing one makes no reader new.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import onnx_ir as ir

from onnx_passes.model.walk import captured_values, node_operator, node_outputs, nodes_of
from onnx_passes.verify.node_equality import (
    Folded,
    NodeEquality,
    constant_tensor,
    is_identity,
    same_tensor,
)

Side = tuple[ir.Model, Sequence[ir.Node]]
"""A model, and the nodes of it that only one side of a change has."""


@dataclass(frozen=True)
class Region:
    """What changed in a model.

    Attributes:
        nodes: The new nodes of the main graph, in order.
        boundary: Names of the values that they read and do not compute, constants aside.
        frontier: Names of the values that they compute and others read.
        folded: Constants that nodes read in place of computed values, by the names of these.
            The rest of the region holds only where they are equal, bit for bit.
        removed: The nodes of the model before that have no counterpart, in order.
    """

    nodes: tuple[ir.Node, ...]
    boundary: tuple[str, ...]
    frontier: tuple[str, ...]
    folded: Mapping[str, ir.TensorProtocol] = field(default_factory=dict)
    removed: tuple[ir.Node, ...] = ()

    @property
    def needed(self) -> frozenset[str]:
        """Names of the values that have to be known to check it."""
        return frozenset((*self.boundary, *self.frontier, *self.folded))


def changed_region(
    before: ir.Model, after: ir.Model, folded: Folded | None = None
) -> Region | None:
    """Find what changed between two models.

    Args:
        before: The model before.
        after: The model after.
        folded: Where given, a constant in place of a computed value makes no reader new, and
            is among the ``folded`` of the region, unless it was refused.

    Returns:
        The region; None where values cannot be matched by name, so that only the whole model
        shows: other defaults of inputs, an output of no node.
    """
    if not _defaults_agree(before, after):
        return None
    if any(
        v.producer() is None and not v.is_graph_input() and constant_tensor(v) is None
        for v in after.graph.outputs
    ):
        return None
    if not _constant_outputs_agree(before, after, folded):
        return None  # no node computes them that could be run
    new, removed = diff_nodes(before, after, folded)
    producers = {str(v.name) for node in before.graph for v in node.outputs if v.name}
    boundary = boundary_of(new)
    frontier = _frontier(new, after)
    names = {v.name for v in before.graph.inputs}
    if any(n not in names and n not in producers for n in (*boundary, *frontier)):
        return None
    taken = folded.tensors if folded is not None else {}
    return Region(tuple(new), boundary, frontier, taken, tuple(removed))


def diff_nodes(
    before: ir.Model, after: ir.Model, folded: Folded | None = None
) -> tuple[list[ir.Node], list[ir.Node]]:
    """Return the nodes of the main graphs that are new, and those that have no counterpart.

    Args:
        before: The model before.
        after: The model after.
        folded: See :func:`changed_region`.
    """
    old_nodes = nodes_of(before.graph)
    producers = {v.name: node for node in old_nodes for v in node_outputs(node) if v.name}
    equality = NodeEquality(before, after, folded)
    new: list[ir.Node] = []
    kept: set[ir.Node] = set()
    for node in nodes_of(after.graph):
        if not is_constant_node(node):
            name = node.outputs[0].name or next((v.name for v in node.outputs if v.name), None)
            old = producers.get(name)
            if old is None or not equality.same(old, node):
                new.append(node)
            else:
                kept.add(old)
    return new, [n for n in old_nodes if n not in kept and not is_constant_node(n)]


def boundary_of(nodes: Sequence[ir.Node]) -> tuple[str, ...]:
    """Return the names of what nodes read, constants and their own results apart."""
    inside = {value for node in nodes for value in node.outputs}
    read = [value for node in nodes for value in (*node.inputs, *captured_values(node))]
    return tuple(
        dict.fromkeys(
            str(v.name)
            for v in read
            if v is not None and v not in inside and constant_tensor(v) is None
        )
    )


def leading_to(
    ends: Collection[str], nodes: Iterable[ir.Node], known: Callable[[str], bool]
) -> list[ir.Node]:
    """Return the nodes among some that compute values from known ones, in order.

    Args:
        ends: Names of the values.
        nodes: The nodes, in order.
        known: Whether the value of a name is given, so that what computes it is not needed.
    """
    needed, found = set(ends), []
    for node in reversed(list(nodes)):
        if any(v.name in needed for v in node.outputs):
            found.append(node)
            needed |= {
                str(v.name)
                for v in (*node.inputs, *captured_values(node))
                if v is not None and constant_tensor(v) is None and not known(str(v.name))
            }
    return found[::-1]


def _defaults_agree(before: ir.Model, after: ir.Model) -> bool:
    """Whether the initializers that callers may override are what they were."""
    old = {v.name: v.const_value for v in before.graph.inputs if v.const_value is not None}
    new = {v.name: v.const_value for v in after.graph.inputs if v.const_value is not None}
    return old.keys() == new.keys() and all(same_tensor(old[n], new[n]) for n in new)


def _constant_outputs_agree(before: ir.Model, after: ir.Model, folded: Folded | None) -> bool:
    """Whether each output that is a constant was that constant, or may be compared with it."""
    old = {v.name: v for v in before.graph.outputs}
    for value in after.graph.outputs:
        tensor = constant_tensor(value)
        known = old.get(value.name)
        if known is None:
            continue
        other = constant_tensor(known)
        if tensor is None and other is None:
            continue
        if tensor is not None and other is not None:
            if not same_tensor(other, tensor):
                return False
        elif tensor is None or folded is None or not folded.take(str(value.name), tensor):
            return False
    return True


def _frontier(new: list[ir.Node], model: ir.Model) -> tuple[str, ...]:
    """Return the names of what new nodes compute, and others or the outputs read."""
    fresh = set(new)
    holders: dict[ir.Value, list[ir.Node]] | None = None
    found: dict[str, None] = {}
    for node in new:
        for value in node.outputs:
            # Who reads an Identity reads this value.
            pending, kept = [value], value.is_graph_output()
            while pending and not kept:
                read = pending.pop()
                users = [u for u in read.consumers() if u.graph is model.graph]
                if len(users) < len(read.consumers()):
                    holders = _captures(model) if holders is None else holders
                    users += holders.get(read, [])
                kept = any(user not in fresh for user in users)
                pending += [user.outputs[0] for user in users if is_identity(user)]
            if kept:
                found[str(value.name)] = None
    return tuple(found)


def _captures(model: ir.Model) -> dict[ir.Value, list[ir.Node]]:
    """Return the nodes of the main graph that hold a subgraph which reads a value."""
    found: dict[ir.Value, list[ir.Node]] = defaultdict(list)
    for node in model.graph:
        for value in captured_values(node):
            found[value].append(node)
    return found


def is_constant_node(node: ir.Node) -> bool:
    """Whether a node is a Constant whose tensor is known."""
    if node_operator(node) != ("", "Constant"):
        return False
    return constant_tensor(node.outputs[0]) is not None
