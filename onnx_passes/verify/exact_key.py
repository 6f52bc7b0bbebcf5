"""What a model holds, as a key that is equal for equal models."""

from __future__ import annotations

from collections.abc import Mapping

import onnx_ir as ir

from onnx_passes.model.digest import Key, leaf_key, type_key

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
    """Identifies an object, and keeps it alive: ids are given out again."""

    __slots__ = ("held",)

    def __init__(self, held: object) -> None:
        self.held = held

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.held is other.held

    __hash__ = None  # type: ignore[assignment]  # keys are compared, and never looked up


def exact_key(model: ir.Model) -> Key:
    """Note everything that saving the model would write, weights by identity.

    Nothing in the key changes with the model, and comparing two keys is cheap: what is the
    same object is not looked into.
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


def _graph(graph: ir.Graph) -> Key:
    return (
        graph.name,
        graph.doc_string,
        _metadata(graph.metadata_props),
        tuple(map(_value, graph.inputs)),
        tuple(
            (name, _Same(v.const_value), _value(v)) for name, v in graph.initializers.items()
        ),
        tuple(map(_node, graph)),
        tuple(map(_value, graph.outputs)),
    )


def _node(node: ir.Node) -> Key:
    attributes, devices = node.attributes.data, node.device_configurations
    return (
        node.domain,
        node.op_type,
        node.overload,
        node.name,
        node.doc_string,
        tuple([None if value is None else value.name for value in node.inputs]),
        tuple([_value(value) for value in node.outputs]),
        tuple(map(_attribute, attributes.values())) if attributes else (),
        _metadata(node.metadata_props),
        tuple(map(_devices, devices)) if devices else (),
    )


def _attribute(attribute: ir.Attr) -> Key:
    kind, value = attribute.type, attribute.value
    if kind in _PLAIN and value is not None and not attribute.is_ref():
        return (attribute.name, attribute.doc_string, kind, value)
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
            return ("tensor", _Same(value))
        case _:
            return ("tensors", *map(_Same, value))


def _devices(devices: ir.NodeDeviceConfiguration) -> Key:
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


def _value(value: ir.Value) -> Key:
    # Nearly all the time of a key goes into values, and nearly all of them are tensors.
    type_, shape, properties = value.type, value.shape, value.metadata_props
    noted = value.meta.data.get(_QUANTIZATION)
    return (
        value.name,
        (type_.dtype, type_.denotation) if type(type_) is ir.TensorType else type_key(type_),
        None if shape is None else _shape(shape),
        value.doc_string,
        _metadata(properties) if properties else (),
        _metadata(noted) if noted else (),
    )


def _shape(shape: ir.Shape) -> Key:
    dims = shape.dims  # a copy, and symbols in it cannot change
    return (dims, tuple(map(shape.get_denotation, range(len(dims)))))


def _metadata(properties: Mapping[str, str]) -> Key:
    return tuple(sorted(properties.items())) if properties else ()
