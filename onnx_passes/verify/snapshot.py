"""The model before a pass, and what the pass really changed.

A snapshot shares weights with the model. So that a pass cannot change them behind its back,
tensors that can be written to are replaced by ones that cannot: an edit in place raises inside
the pass, and arrays that the pass has kept for itself are no longer the model's.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

import onnx_ir as ir

from onnx_passes.io.slots import make_immutable
from onnx_passes.surgery.copy import copy_model
from onnx_passes.surgery.digest import Key, digest, leaf_key, shape_key, type_key
from onnx_passes.surgery.fingerprint import canonical_hash

# Where onnx-ir keeps a graph's quantization_annotation.
_QUANTIZATION = "quant_parameter_tensor_names"


class Change(StrEnum):
    """What differs between two states of a model.

    NONE: nothing. NAMES: only names, order, metadata or how weights are stored. ANNOTATIONS:
    also types and shapes of inner values. COMPUTATION: nodes, weights, or the interface.
    """

    NONE = "none"
    NAMES = "names"
    ANNOTATIONS = "annotations"
    COMPUTATION = "computation"


class Snapshot:
    """A copy of a model that nothing can change.

    Attributes:
        model: The copy. Do not hand it to a pass: hand it :meth:`restore`.
        hash: Its canonical hash.
    """

    def __init__(self, model: ir.Model) -> None:
        """Copy ``model``; its weights are shared, and cannot be written to from now on."""
        make_immutable(model, layout="same")
        self.model = copy_model(model)
        self._key = exact_key(model)
        self._hash: str | None = None

    @property
    def hash(self) -> str:
        """Canonical hash of the copy, annotations included."""
        if self._hash is None:
            self._hash = canonical_hash(self.model)
        return self._hash

    def restore(self) -> ir.Model:
        """Return a model equal to the one that was copied, bit for bit."""
        return copy_model(self.model)

    def change(self, model: ir.Model) -> Change:
        """Say in what ``model`` differs from the copy, by comparing."""
        if exact_key(model) == self._key:
            return Change.NONE
        if canonical_hash(model) == self.hash:
            return Change.NAMES
        plain = canonical_hash(model, annotations=False)
        if plain == canonical_hash(self.model, annotations=False):
            return Change.ANNOTATIONS
        return Change.COMPUTATION


def exact_key(model: ir.Model) -> bytes:
    """Hash everything that saving the model would write, weights by identity."""
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
    return digest(header, extra, imports, devices, functions, _graph(model.graph))


def _graph(graph: ir.Graph) -> Key:
    return (
        graph.name,
        graph.doc_string,
        _metadata(graph.metadata_props),
        tuple(map(_value, graph.inputs)),
        tuple((name, id(v.const_value), _value(v)) for name, v in graph.initializers.items()),
        tuple(map(_node, graph)),
        tuple(map(_value, graph.outputs)),
    )


def _node(node: ir.Node) -> Key:
    return (
        node.domain,
        node.op_type,
        node.overload,
        node.name,
        node.doc_string,
        tuple(map(_name, node.inputs)),
        tuple(map(_value, node.outputs)),
        tuple(map(_attribute, node.attributes.values())),
        _metadata(node.metadata_props),
        tuple(map(_devices, node.device_configurations)),
    )


def _attribute(attribute: ir.Attr) -> Key:
    return (attribute.name, attribute.doc_string, _content(attribute))


def _content(attribute: ir.Attr) -> Key:
    if attribute.is_ref() or attribute.value is None:
        return leaf_key(attribute)
    match attribute.type:
        case ir.AttributeType.GRAPH:
            return ("graph", _graph(attribute.as_graph()))
        case ir.AttributeType.GRAPHS:
            return ("graphs", *map(_graph, attribute.as_graphs()))
        case ir.AttributeType.TENSOR:
            return ("tensor", id(attribute.value))
        case ir.AttributeType.TENSORS:
            return ("tensors", *map(id, attribute.as_tensors()))
    return leaf_key(attribute)


def _devices(devices: ir.NodeDeviceConfiguration) -> Key:
    specs = [
        (_name(s.value), s.device, repr(s.index_to_device_group_map), repr(s.sharded_dims))
        for s in devices.sharding_specs
    ]
    return (repr(devices.configuration), devices.pipeline_stage, *specs)


def _value(value: ir.Value) -> Key:
    return (
        value.name,
        type_key(value.type),
        shape_key(value.shape),
        value.doc_string,
        _metadata(value.metadata_props),
        _metadata(value.meta.get(_QUANTIZATION) or {}),
    )


def _name(value: ir.Value | None) -> str | None:
    return None if value is None else value.name


def _metadata(properties: Mapping[str, str]) -> Key:
    return tuple(sorted(properties.items())) if properties else ()
