"""Walks over a model as a protobuf, each part with its place in words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import onnx


def place_of(node: onnx.NodeProto) -> str:
    """Name a node for people: by its name, else by what it makes."""
    if node.name:
        return f"node '{node.name}' ({node.op_type})"
    # Names that are not UTF-8 are bytes here.
    made = ", ".join(str(name) for name in node.output if name)
    return f"node '{node.op_type} -> {made}'"


def graphs_of(attributes: Sequence[onnx.AttributeProto]) -> Iterator[onnx.GraphProto]:
    """Yield the graphs among attributes, not those nested in them."""
    for attribute in attributes:
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs


def all_bodies(
    model: onnx.ModelProto,
) -> Iterator[tuple[str, onnx.GraphProto | onnx.FunctionProto]]:
    """Yield the main graph, the functions, and all graphs nested in them, with places."""
    pending: list[tuple[str, onnx.GraphProto | onnx.FunctionProto]] = [
        (f"function '{function.domain}::{function.name}'", function)
        for function in reversed(model.functions)
    ]
    pending.append((f"graph '{model.graph.name}'", model.graph))
    while pending:
        place, body = pending.pop()
        yield place, body
        nested: list[tuple[str, onnx.GraphProto | onnx.FunctionProto]] = []
        for node in body.node:
            if node.attribute:
                nested += [
                    (f"graph '{g.name}' of {place_of(node)}", g)
                    for g in graphs_of(node.attribute)
                ]
        pending.extend(reversed(nested))


def all_attributes(
    model: onnx.ModelProto,
) -> Iterator[tuple[str, onnx.NodeProto | None, onnx.AttributeProto]]:
    """Yield every attribute with its place and node; defaults of functions have no node."""
    for place, body in all_bodies(model):
        if isinstance(body, onnx.FunctionProto):
            for attribute in body.attribute_proto:
                yield f"{place}, attribute '{attribute.name}'", None, attribute
        for node in body.node:
            for attribute in node.attribute:
                yield f"{place_of(node)}, attribute '{attribute.name}'", node, attribute


def all_tensors(model: onnx.ModelProto) -> Iterator[tuple[str, onnx.TensorProto]]:
    """Yield every dense tensor: initializers, and tensors in attributes."""
    for place, body in all_bodies(model):
        if isinstance(body, onnx.GraphProto):
            for tensor in body.initializer:
                yield f"{place}, initializer '{tensor.name}'", tensor
    yield from attribute_tensors(model)


def attribute_tensors(model: onnx.ModelProto) -> Iterator[tuple[str, onnx.TensorProto]]:
    """Yield every dense tensor in an attribute."""
    for place, _, attribute in all_attributes(model):
        if attribute.HasField("t"):
            yield place, attribute.t
        for tensor in attribute.tensors:
            yield place, tensor
