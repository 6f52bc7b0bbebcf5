"""A model as a protobuf that declares nothing of what its nodes compute."""

from __future__ import annotations

import onnx
import onnx_ir as ir

from onnx_passes.model.tensor_bytes import ListedTensor, tensor_buffer
from onnx_passes.model.walk import (
    all_graphs,
    node_attributes,
    node_head,
    node_inputs,
    node_outputs,
    nodes_of,
    shape_fields,
    value_name,
    value_shape,
)
from onnx_passes.passes._support.proto import is_big, stub
from onnx_passes.passes._support.scopes import own_values
from onnx_passes.passes.annotation._memory import InferenceMemory, parts_of


def denoted(model: ir.Model) -> bool:
    """Whether a dimension of a model has a denotation, outside of functions' signatures."""
    for graph in all_graphs(model):
        for value in own_values(graph):
            shape = value_shape(value)
            if shape is not None and any(shape_fields(shape)[1]):
                return True
    return False


def new_memory() -> InferenceMemory:
    """Return what remembers nodes and initializers as they are written here."""
    return InferenceMemory(_node, _initializer)


def bare_proto(model: ir.Model, known: InferenceMemory) -> onnx.ModelProto:
    """Serialise a model that has no subgraphs and no functions, for inference.

    Args:
        model: The model; not changed.
        known: What was written of it before.

    Returns:
        Its nodes, interface and constants. Defaults of inputs are left out, so that nothing is
        concluded from them; big weights refer to a file that does not exist.
    """
    proto = onnx.ModelProto(ir_version=model.ir_version)
    for domain, version in sorted(model.opset_imports.items()):
        proto.opset_import.add(domain=domain, version=version)
    graph = proto.graph
    graph.name = model.graph.name or ""
    for value in model.graph.inputs:
        ir.serde.serialize_value_into(graph.input.add(), value)
    for value in model.graph.outputs:
        ir.serde.serialize_value_into(graph.output.add(), value)
    held: list[tuple[ir.Value, str | None, tuple[object]]] = []
    for value in model.graph.initializers.values():
        if value.is_graph_input() and model.ir_version >= 4:
            continue
        tensor = value.const_value
        if not value.is_graph_input() and not _says_as_much(tensor, value):
            ir.serde.serialize_value_into(graph.value_info.add(), value)
        if tensor is not None:
            held.append((value, value.name, (tensor,)))
    graph.initializer.extend(known.tensors.renew(held))
    graph.node.extend(known.nodes.renew(map(parts_of, nodes_of(model.graph))))
    return proto


def _initializer(value: ir.Value) -> onnx.TensorProto:
    assert value.const_value is not None, "the caller looks"
    proto = onnx.TensorProto()
    _tensor(proto, value.const_value)
    proto.name = value.name or ""
    return proto


def _says_as_much(tensor: ir.TensorProtocol | None, value: ir.Value) -> bool:
    """Whether a tensor has all that is declared of its value."""
    return tensor is not None and tensor.dtype is value.dtype and tensor.shape == value.shape


def _tensor(proto: onnx.TensorProto, tensor: ir.TensorProtocol) -> None:
    if is_big(tensor):
        ir.serde.serialize_tensor_into(proto, stub(tensor, None))
    elif type(tensor) in _PLAIN and tensor.dtype.bitwidth >= 8:
        # What onnx-ir would write, without its remarks, in a third of the time.
        proto.data_type = tensor.dtype.value
        proto.dims.extend(tensor.shape.numpy())
        proto.raw_data = bytes(tensor_buffer(tensor))
    else:
        ir.serde.serialize_tensor_into(proto, tensor)


_PLAIN = (ir.Tensor, ListedTensor)
"""Tensors that hold an array as it is."""


def _node(node: ir.Node) -> onnx.NodeProto:
    outputs = [value_name(value) or "" for value in node_outputs(node)]
    while outputs and not outputs[-1]:
        outputs.pop()
    domain, op_type, overload, name, _ = node_head(node)
    proto = onnx.NodeProto(
        op_type=op_type,
        domain=domain or None,
        overload=overload or None,
        name=name or None,
        input=[
            "" if value is None else value_name(value) or "" for value in node_inputs(node)
        ],
        output=outputs,
    )
    for attribute in node_attributes(node).values():
        into = proto.attribute.add()
        if attribute.is_ref():
            ir.serde.serialize_reference_attribute_into(into, attribute)
        elif attribute.type == ir.AttributeType.TENSOR and is_big(attribute.value):
            into.name, into.type = attribute.name, onnx.AttributeProto.TENSOR
            _tensor(into.t, attribute.value)
        else:
            ir.serde.serialize_attribute_into(into, attribute)
    return proto
