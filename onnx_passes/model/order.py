"""The order of a graph's nodes, and cycles that leave it none."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import onnx_ir as ir

from onnx_passes.errors import ModelError
from onnx_passes.model.contents import graphs_within, subgraphs_of
from onnx_passes.model.fields import node_attributes, node_inputs, nodes_of


def captured_values(node: ir.Node) -> Iterator[ir.Value]:
    """Yield the values that a node's subgraphs take from outside of the node.

    A value comes as often as it is used.
    """
    roots = list(subgraphs_of(node))
    if not roots:
        return
    graphs = dict.fromkeys(graph for root in roots for graph in graphs_within(root))
    for graph in graphs:
        for used in (value for inner in graph for value in inner.inputs):
            if used is not None and used.graph not in graphs:
                yield used
        for output in graph.outputs:
            if output.graph not in graphs:
                yield output


def topological_order(graph: ir.Graph) -> list[ir.Node]:
    """List a graph's own nodes so that producers come first, in their order if possible.

    What subgraphs capture counts as used by the node that holds them.

    Raises:
        ModelError: Nodes depend on each other in a cycle; the message names them.
    """
    nodes = nodes_of(graph)
    if _is_sorted(nodes, graph):
        return nodes
    waiting = {
        node: [
            producer
            for value in (*node.inputs, *captured_values(node))
            if value is not None
            and (producer := value.producer()) is not None
            and producer.graph is graph
        ]
        for node in nodes
    }
    order: dict[ir.Node, None] = {}
    for root in waiting:
        stack = [(root, iter(waiting[root]))]
        on_path = {root: None}
        while stack:
            node, producers = stack[-1]
            if node in order:
                stack.pop()
                on_path.pop(node, None)
                continue
            for producer in producers:
                if producer in on_path:
                    cycle = list(on_path)
                    raise cycle_error([label(n) for n in cycle[cycle.index(producer) :]])
                if producer not in order:
                    on_path[producer] = None
                    stack.append((producer, iter(waiting[producer])))
                    break
            else:
                order[node] = None
    return list(order)


def _is_sorted(nodes: Sequence[ir.Node], graph: ir.Graph) -> bool:
    seen: set[ir.Node] = set()
    for node in nodes:
        read = node_inputs(node)
        if node_attributes(node):
            read = (*read, *captured_values(node))
        for value in read:
            producer = None if value is None else value.producer()
            if producer is not None and producer not in seen and producer.graph is graph:
                return False
        seen.add(node)
    return True


def cycle_error(names: list[str]) -> ModelError:
    """Build the error for nodes that depend on each other in a cycle."""
    path = ", ".join(f"'{name}'" for name in names)
    return ModelError(
        f"the graph has a cycle through {path}",
        help="each node needs the next one's output first; break the cycle, "
        "or use Loop or Scan for recurrence",
    )


def label(node: ir.Node) -> str:
    """Name a node for people: by its name, else by what it makes (``Relu -> y``)."""
    made = ", ".join(str(value.name) for value in node.outputs if value.name)
    return node.name or (f"{node.op_type} -> {made}" if made else node.op_type)
