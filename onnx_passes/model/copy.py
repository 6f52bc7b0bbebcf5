"""Copies of models that share nothing a pass can change, and all that it cannot: weights."""

import dataclasses
from collections.abc import Mapping, Sequence
from copy import copy
from typing import Any

import onnx_ir as ir

from onnx_passes.model.walk import meta, metadata_props

HEADER = ("producer_name", "producer_version", "domain", "model_version", "doc_string")
"""Fields in which a model says who made it, and what it is."""


def copy_model(model: ir.Model) -> ir.Model:
    """Copy a model; only tensors are shared.

    ``ir.Model.clone`` also shares types, which setting ``value.dtype`` changes in place, and
    needs producers to come first and every value to be produced.

    Args:
        model: Any model, even one that a pass has left broken.

    Returns:
        A model that serialises to the same bytes.
    """
    functions = [_copy_function(function) for function in model.functions.values()]
    copy = ir.Model(
        _Copier().graph(model.graph),
        ir_version=model.ir_version,
        producer_name=model.producer_name,
        producer_version=model.producer_version,
        domain=model.domain,
        model_version=model.model_version,
        doc_string=model.doc_string,
        functions=functions,
        metadata_props=dict(model.metadata_props),
        device_configurations=model.device_configurations,
    )
    _copy_meta(model, copy)
    return copy


def copy_header(model: ir.Model, part: ir.Model) -> None:
    """Give a part of a model what the whole says of itself: who made it, texts, metadata."""
    for name in HEADER:
        setattr(part, name, getattr(model, name))
    part.graph.doc_string = model.graph.doc_string
    part.metadata_props.update(model.metadata_props)
    part.graph.metadata_props.update(model.graph.metadata_props)
    _copy_meta(model, part)


def header_difference(before: ir.Model, after: ir.Model) -> list[str]:
    """Return what a model no longer says of itself, as ``producer_name is lost``."""
    pairs = [(name, getattr(before, name), getattr(after, name)) for name in HEADER]
    pairs.append(("doc_string of the graph", before.graph.doc_string, after.graph.doc_string))
    holders = ("metadata", before, after), ("graph metadata", before.graph, after.graph)
    for what, old, new in holders:
        found = new.metadata_props
        pairs += [(f"{what} {k!r}", v, found.get(k)) for k, v in old.metadata_props.items()]
    return [
        f"{what} is {'changed' if new else 'lost'}"
        for what, old, new in pairs
        if (old or None) != (new or None)
    ]


def copy_nodes(nodes: Sequence[ir.Node]) -> tuple[list[ir.Node], dict[ir.Value, ir.Value]]:
    """Copy some nodes of a graph, with the values that they read and compute.

    The copies belong to no graph. The second result has the copy of each value, including
    those that subgraphs read from around them.
    """
    copier = _Copier()
    copies = [copier.node(node) for node in nodes]
    return copies, copier.values


def _copy_function(function: ir.Function) -> ir.Function:
    copier = _Copier()
    graph = copier.graph(function.graph)
    attributes = [copier.attribute(attribute) for attribute in function.attributes.values()]
    return ir.Function(
        function.domain, function.name, function.overload, graph=graph, attributes=attributes
    )


class _Copier:
    """Copies of the values of one graph, and of those nested in it."""

    def __init__(self) -> None:
        self.values: dict[ir.Value, ir.Value] = {}

    def graph(self, graph: ir.Graph) -> ir.Graph:
        inputs = [self.value(value) for value in graph.inputs]
        initializers = [self.value(value) for value in graph.initializers.values()]
        copy = ir.Graph(
            inputs,
            [self.value(value) for value in graph.outputs],
            nodes=[self.node(node) for node in graph],
            initializers=initializers,
            doc_string=graph.doc_string,
            opset_imports=dict(graph.opset_imports),
            name=graph.name,
            metadata_props=_properties(graph),
        )
        _copy_meta(graph, copy)
        return copy

    def value(self, value: ir.Value) -> ir.Value:
        known = self.values.get(value)
        if known is not None:
            return known
        shape = value.shape
        copy = ir.Value(
            name=value.name,
            type=_copy_type(value.type),
            shape=None if shape is None else shape.copy(frozen=shape.frozen),
            doc_string=value.doc_string,
            const_value=value.const_value,
            metadata_props=_properties(value),
        )
        _copy_meta(value, copy)
        self.values[value] = copy
        return copy

    def node(self, node: ir.Node) -> ir.Node:
        copy = ir.Node(
            node.domain,
            node.op_type,
            [None if value is None else self.value(value) for value in node.inputs],
            [self.attribute(attribute) for attribute in node.attributes.data.values()],
            overload=node.overload,
            outputs=[self.value(value) for value in node.outputs],
            version=node.version,
            name=node.name,
            doc_string=node.doc_string,
            metadata_props=_properties(node),
            device_configurations=tuple(map(self.devices, node.device_configurations)),
        )
        _copy_meta(node, copy)
        return copy

    def devices(self, devices: ir.NodeDeviceConfiguration) -> ir.NodeDeviceConfiguration:
        specs = tuple(
            dataclasses.replace(
                spec, value=None if spec.value is None else self.value(spec.value)
            )
            for spec in devices.sharding_specs
        )
        return dataclasses.replace(devices, sharding_specs=specs)

    def attribute(self, attribute: ir.Attr) -> ir.Attr:
        value = attribute.value
        match attribute.type if value is not None else None:
            case ir.AttributeType.GRAPH:
                value = self.graph(value)
            case ir.AttributeType.GRAPHS:
                value = tuple(map(self.graph, value))
            case ir.AttributeType.TYPE_PROTO:
                value = _copy_noted(value)
            case ir.AttributeType.TYPE_PROTOS:
                value = tuple(map(_copy_noted, value))
            case _:
                return copy(attribute)  # forests have millions of numbers, not checked again
        return ir.Attr(attribute.name, attribute.type, value, doc_string=attribute.doc_string)


def _copy_type(type_: ir.TypeProtocol | None) -> ir.TypeProtocol | None:
    if type(type_) is ir.TensorType:  # nearly all
        return ir.TensorType(type_.dtype, denotation=type_.denotation)
    if isinstance(type_, ir.SparseTensorType):
        return type(type_)(type_.dtype, denotation=type_.denotation)
    if isinstance(type_, ir.SequenceType | ir.OptionalType):
        element = _copy_type(type_.elem_type)
        assert element is not None
        return type(type_)(element, denotation=type_.denotation)
    return type_


def _copy_noted(noted: ir.TypeAndShape) -> ir.TypeAndShape:
    shape = noted.shape
    copy = None if shape is None else shape.copy(frozen=shape.frozen)
    return ir.TypeAndShape(_copy_type(noted.type), copy)


def _properties(holder: ir.Graph | ir.Node | ir.Value) -> dict[str, str] | None:
    # None saves a dictionary on each of thousands of values.
    properties = metadata_props(holder)
    return dict(properties) if properties else None


def _copy_meta(old: Any, new: Any) -> None:
    """Copy what passes have noted; dictionaries among it, as quantization parameters are."""
    store = meta(old)
    if store is None or not store.data:  # nothing is noted of thousands of values
        return
    for key, noted in store.data.items():
        new.meta[key] = dict(noted) if isinstance(noted, Mapping) else noted
        if not store.is_valid(key):
            new.meta.invalidate(key)
