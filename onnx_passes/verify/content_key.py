"""A key of everything that saving a model would write, cheap to take and to compare.

One is taken of every state of a model that a pass may have changed. So a key holds columns, a
list of one field for all nodes, which are filled and compared without a call for each node.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from operator import attrgetter, is_
from typing import Any

import onnx_ir as ir

from onnx_passes.model.digest import Key, leaf_key, type_key, value_key
from onnx_passes.model.walk import (
    node_head,
    node_inputs,
    node_outputs,
    node_rest,
    nodes_of,
    reader,
    shape_fields,
    tensor_type,
    value_fields,
    value_name,
)

_attribute_fields = reader(
    ir.AttrInt64("axis", 0), "name", "doc_string", "type", "value", "ref_attr_name"
)
initializers_of: Callable[[ir.Graph], dict[str, ir.Value]] = attrgetter(
    "_initializers.data"
    if hasattr(ir.Graph([], [], nodes=[]), "_initializers")
    else "initializers.data"
)
"""The initializers of a graph as a plain dictionary: a walk takes a fifth of the time."""

# Where onnx-ir keeps a graph's quantization_annotation.
_QUANTIZATION = "quant_parameter_tensor_names"

# Compared by ==, which enumerations of integers do faster than they hash.
_HOLDERS = (
    ir.AttributeType.GRAPH,
    ir.AttributeType.GRAPHS,
    ir.AttributeType.TENSOR,
    ir.AttributeType.TENSORS,
)
_PLAIN = (ir.AttributeType.INT, ir.AttributeType.INTS, ir.AttributeType.STRING)


class _Same:
    """Identifies objects, and keeps them alive: ids are given out again."""

    __slots__ = ("held",)

    def __init__(self, held: Iterable[object]) -> None:
        self.held = list(held)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, _Same)
            and len(self.held) == len(other.held)
            and all(map(is_, self.held, other.held))
        )

    __hash__ = None  # type: ignore[assignment]  # keys are compared, and never looked up


@dataclass
class _ValueColumns:
    """Columns of values.

    Attributes:
        names: The names.
        types: The types.
        shapes: The shapes.
        rest: Doc strings and metadata of those that have any, with their places.
    """

    __slots__ = ("names", "rest", "shapes", "types")
    names: list[str | None]
    types: list[Key]
    shapes: list[Any]
    rest: list[Key]


@dataclass
class _NodeColumns:
    """Columns of nodes.

    Attributes:
        heads: Operators, names and doc strings.
        counts: The numbers of operands, and of results.
        reads: Names of all operands, one after the other.
        attributes: Attributes, metadata and devices of nodes that have any, with their places.
        results: All results, one after the other.
    """

    __slots__ = ("attributes", "counts", "heads", "reads", "results")
    heads: list[Key]
    counts: list[int]
    reads: list[str | None]
    attributes: list[Key]
    results: _ValueColumns


def exact_key(model: ir.Model) -> Key:
    """Note everything that saving the model would write, weights by identity.

    Nothing in the key changes with the model, and comparing two keys is cheap: what is the
    same object is not looked into.

    Args:
        model: The model.
    """
    functions = tuple(
        (
            identifier,
            (function.domain, function.name, function.overload),
            tuple(map(_attribute, function.attributes.values())),
            tuple(sorted(function.opset_imports.items())),
            _graph(function.graph),
        )
        for identifier, function in model.functions.items()
    )
    header = (model.ir_version, model.producer_name, model.producer_version, model.domain)
    extra = (model.model_version, model.doc_string, _metadata(model.metadata_props))
    imports = tuple(sorted(model.opset_imports.items()))
    devices = tuple(map(repr, model.device_configurations))
    return (header, extra, imports, devices, functions, _graph(model.graph))


def differ_in_notes(old: Any, new: Any) -> bool:
    """Whether exact keys differ in types and shapes of results of the main graph alone.

    Args:
        old: The key of a model.
        new: The key of another one, which is not equal.
    """
    (*rest, graph), (*others, other) = old, new
    *parts, nodes = graph
    *others_parts, other_nodes = other
    results, other_results = nodes.results, other_nodes.results
    return bool(
        (rest, parts) == (others, others_parts)
        and nodes.heads == other_nodes.heads
        and nodes.counts == other_nodes.counts
        and nodes.reads == other_nodes.reads
        and nodes.attributes == other_nodes.attributes
        and results.names == other_results.names
        and results.rest == other_results.rest
    )


def read_notes(model: ir.Model, old: Any, new: Any) -> Counter[Key]:
    """Count types and shapes where nodes read what two exact keys note in different ways.

    Hashes of nodes hold them, except for the outputs of the graph.

    Args:
        model: The model whose types and shapes are counted.
        old: A key that differs from the other one in types and shapes alone.
        new: The other one.
    """
    a, b = (_results(key) for key in (old, new))
    rows = zip(a.names, a.types, b.types, a.shapes, b.shapes, strict=True)
    changed = {row[0] for row in rows if row[1] != row[2] or row[3] != row[4]}
    return Counter(
        value_key(value)
        for node in model.graph
        for value in node.inputs
        if value is not None and value.name in changed and not value.is_graph_output()
    )


def _results(key: Any) -> _ValueColumns:
    """Return the results of the main graph: the last part of its key are the nodes."""
    *_, (*_, nodes) = key
    found: _ValueColumns = nodes.results
    return found


def _graph(graph: ir.Graph) -> Key:
    held = initializers_of(graph)
    return (
        graph.name,
        graph.doc_string,
        _metadata(graph.metadata_props),
        _values(graph.inputs),
        tuple(held),
        _Same(value.const_value for value in held.values()),
        _values(held.values()),
        _values(graph.outputs),
        _nodes(nodes_of(graph)),
    )


def _nodes(nodes: Sequence[ir.Node]) -> _NodeColumns:
    reads, results = list(map(node_inputs, nodes)), list(map(node_outputs, nodes))
    more: list[Key] = []
    for place, (attributes, properties, devices) in enumerate(map(node_rest, nodes)):
        data = attributes.data  # whether it is empty, a dict says faster
        if data or properties or devices:
            held = tuple(map(_attribute, data.values())) if data else ()
            noted = _metadata(properties) if properties else ()
            more.append((place, held, noted, tuple(map(_device, devices)) if devices else ()))
    return _NodeColumns(
        list(map(node_head, nodes)),
        [*map(len, reads), *map(len, results)],
        [None if value is None else value_name(value) for value in chain.from_iterable(reads)],
        more,
        _values(chain.from_iterable(results)),
    )


def _values(values: Iterable[ir.Value]) -> _ValueColumns:
    # Nearly all the time of a key goes into values, and nearly all of them are tensors.
    names: list[str | None] = []
    types: list[Key] = []
    shapes: list[Any] = []
    rest: list[Key] = []
    for name, type_, shape, doc_string, properties, meta in map(value_fields, values):
        names.append(name)
        types.append(tensor_type(type_) if type(type_) is ir.TensorType else type_key(type_))
        if shape is None:
            shapes.append(None)
        else:  # copies, and symbols in them cannot change
            dims, denotations = shape_fields(shape)
            shapes.append((*dims, *denotations))
        noted = meta.data.get(_QUANTIZATION) if meta is not None and meta.data else None
        if doc_string is not None or properties or noted:
            known = tuple(_metadata(one) if one else () for one in (properties, noted))
            rest.append((len(names), doc_string, *known))
    return _ValueColumns(names, types, shapes, rest)


def _attribute(attribute: ir.Attr) -> Key:
    name, doc_string, kind, value, reference = _attribute_fields(attribute)
    if kind in _PLAIN and value is not None and reference is None:
        return (name, doc_string, kind, value)
    return (attribute.name, attribute.doc_string, _content(attribute))


def _content(attribute: ir.Attr) -> Key:
    kind, value = attribute.type, attribute.value
    if value is None or attribute.is_ref() or kind not in _HOLDERS:
        return leaf_key(attribute)
    match kind:
        case ir.AttributeType.GRAPH:
            return ("graph", _graph(value))
        case ir.AttributeType.GRAPHS:
            return ("graphs", *map(_graph, value))
        case ir.AttributeType.TENSOR:
            return ("tensor", _Same((value,)))
        case _:
            return ("tensors", _Same(value))


def _device(devices: ir.NodeDeviceConfiguration) -> Key:
    specs = [
        (
            None if s.value is None else s.value.name,
            s.device,
            repr(s.index_to_device_group_map),
            repr(s.sharded_dims),
        )
        for s in devices.sharding_specs
    ]
    return (repr(devices.configuration), devices.pipeline_stage, *specs)


def _metadata(properties: Mapping[str, str]) -> object:
    return dict(properties) if properties else ()
