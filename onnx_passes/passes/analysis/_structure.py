"""Which nodes hang together, and which every way to an output goes through."""

from collections.abc import Mapping

import onnx_ir as ir

from onnx_passes.model.walk import topological_order, values_read
from onnx_passes.passes.constants import constant_of


def components(graph: ir.Graph) -> list[list[ir.Node]]:
    """Return the nodes that hang together, the largest part first.

    Nodes hang together that share a value, be it an input; a shared constant does not tie
    nodes, and nodes that make constants belong to those that read them.
    """
    parent: dict[object, object] = {}

    def root(item: object) -> object:
        while parent.setdefault(item, item) is not item:
            parent[item] = parent[parent[item]]
            item = parent[item]
        return item

    nodes = [n for n in graph if not (n.outputs and constant_of(n.outputs[0]) is not None)]
    for node in nodes:
        for value in (*values_read(node), *node.outputs):
            if constant_of(value) is None:
                parent[root(value)] = root(node)
        root(node)
    parts: dict[object, list[ir.Node]] = {}
    for node in nodes:
        parts.setdefault(root(node), []).append(node)
    return sorted(parts.values(), key=lambda part: -len(part))


def dominators(graph: ir.Graph) -> Mapping[ir.Node, ir.Node | None]:
    """Return for each node the nearest one that all its data comes through.

    The graph's inputs count as one source. None if there is no such node: data comes from the
    inputs by ways that share no node. Constants do not count as data. The algorithm is that of
    Cooper, Harvey and Kennedy ("A Simple, Fast Dominance Algorithm", 2001); one round of it is
    enough in a graph without cycles. Raises ModelError for a graph with a cycle.
    """
    order = topological_order(graph)
    number = {node: index for index, node in enumerate(order)}
    nearest: dict[ir.Node, ir.Node | None] = {}
    constant: set[ir.Node] = set()

    def meet(a: ir.Node | None, b: ir.Node | None) -> ir.Node | None:
        while a is not b:
            if a is None or b is None:
                return None
            if number[a] > number[b]:
                a = nearest[a]
            else:
                b = nearest[b]
        return a

    for node in order:
        sources: list[ir.Node | None] = []
        for value in values_read(node):
            producer = value.producer()
            if constant_of(value) is not None or producer in constant:
                continue
            sources.append(producer if producer in number else None)
        if not sources:
            constant.add(node)
            nearest[node] = None
            continue
        first, *others = sources
        for other in others:
            first = meet(first, other)
        nearest[node] = first
    return nearest


def bottlenecks(graph: ir.Graph) -> list[ir.Node]:
    """Return the nodes that all data passes on its way to every output, in order.

    Raises ModelError for a graph with a cycle.
    """
    nearest = dominators(graph)
    common: list[ir.Node] | None = None
    for value in graph.outputs:
        node, chain = value.producer(), []
        if node not in nearest:
            return []
        while node is not None:
            chain.append(node)
            node = nearest[node]
        common = chain if common is None else [n for n in common if n in set(chain)]
    return (common or [])[::-1]


def depth(graph: ir.Graph) -> int:
    """Return the number of nodes on the longest way; ModelError for a cycle."""
    far: dict[ir.Node, int] = {}
    for node in topological_order(graph):
        before = (far.get(p, 0) for v in values_read(node) if (p := v.producer()) is not None)
        far[node] = 1 + max(before, default=0)
    return max(far.values(), default=0)
