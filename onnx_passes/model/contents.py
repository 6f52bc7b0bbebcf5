"""What a model holds: its graphs, nodes and tensors, subgraphs and functions included."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import onnx_ir as ir

from onnx_passes.model.fields import attribute_type, node_attributes, nodes_of

_GRAPHS = (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS)
_TENSORS = (ir.AttributeType.TENSOR, ir.AttributeType.TENSORS)


def subgraphs_of(node: ir.Node) -> Iterator[ir.Graph]:
    """Yield the graphs that are attributes of a node, not those nested inside them."""
    for attribute in node_attributes(node).values():
        if attribute_type(attribute) in _GRAPHS:
            yield from _graphs_of(attribute)


def _graphs_of(attribute: ir.Attr) -> Sequence[ir.Graph]:
    if attribute.is_ref():
        return ()
    single = attribute.type == ir.AttributeType.GRAPH
    return (attribute.as_graph(),) if single else attribute.as_graphs()


def graphs_within(graph: ir.Graph) -> Iterator[ir.Graph]:
    """Yield a graph, then every graph nested in it, outer ones first."""
    pending = [graph]
    while pending:
        current = pending.pop()
        yield current
        # Every pass walks through all nodes, and hardly any of them holds a graph.
        nested = [
            inner
            for attributes in filter(None, map(node_attributes, nodes_of(current)))
            for attribute in attributes.values()
            if attribute_type(attribute) in _GRAPHS
            for inner in _graphs_of(attribute)
        ]
        pending.extend(reversed(nested))


def all_graphs(model: ir.Model) -> Iterator[ir.Graph]:
    """Yield the main graph, its subgraphs, then the bodies of all functions and theirs."""
    yield from graphs_within(model.graph)
    for function in model.functions.values():
        yield from graphs_within(function.graph)


def all_nodes(model: ir.Model) -> Iterator[ir.Node]:
    """Yield every node of a model, those in subgraphs and functions included."""
    pending = [*reversed([f.graph for f in model.functions.values()]), model.graph]
    while pending:
        nested: list[ir.Graph] = []
        for node in pending.pop():
            yield node
            if node.graph is None:
                continue  # the caller has taken it out
            for attribute in node_attributes(node).values():
                if attribute.type in _GRAPHS:
                    nested.extend(_graphs_of(attribute))
        pending.extend(reversed(nested))


def all_tensors(model: ir.Model) -> Iterator[ir.TensorProtocol]:
    """Yield every tensor once: initializers, and tensors in attributes."""
    seen: set[int] = set()
    for graph in all_graphs(model):
        found = [value.const_value for value in graph.initializers.values()]
        for attributes in filter(None, map(node_attributes, nodes_of(graph))):
            found.extend(attribute_tensors(attributes))
        for tensor in found:
            if tensor is not None and id(tensor) not in seen:
                seen.add(id(tensor))
                yield tensor
    for function in model.functions.values():
        yield from attribute_tensors(function.attributes)


def attribute_tensors(attributes: Mapping[str, ir.Attr]) -> Iterator[ir.TensorProtocol]:
    """Yield the tensors among attributes, not those inside subgraphs."""
    # as_tensor() asks of each tensor whether it keeps onnx-ir's protocol: 30 us, every time.
    for attribute in attributes.values():
        if attribute.type not in _TENSORS or attribute.is_ref() or attribute.value is None:
            continue
        if attribute.type == ir.AttributeType.TENSOR:
            yield attribute.value
        else:
            yield from attribute.value
