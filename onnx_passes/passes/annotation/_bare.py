"""A model as a protobuf that declares nothing of what its nodes compute."""

from __future__ import annotations

import onnx
import onnx_ir as ir

from onnx_passes.model.fields import (
    node_attributes,
    node_head,
    node_inputs,
    node_outputs,
    nodes_of,
    value_name,
)
from onnx_passes.model.tensor_bytes import ListedTensor, tensor_buffer
from onnx_passes.model.walk import all_graphs
from onnx_passes.passes._support.proto import is_big, stub
from onnx_passes.passes._support.scopes import own_values


def denoted(model: ir.Model) -> bool:
    """Whether a dimension of a model has a denotation, outside of functions' signatures."""
    shapes = (v.shape for graph in all_graphs(model) for v in own_values(graph))
    return any(
        shape.get_denotation(axis)
        for shape in shapes
        if shape is not None
        for axis in range(len(shape))
    )


def bare_proto(model: ir.Model) -> onnx.ModelProto:
    """Serialise a model that has no subgraphs and no functions, for inference.

    Args:
        model: The model; not changed.

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
    for value in model.graph.initializers.values():
        if value.is_graph_input() and model.ir_version >= 4:
            continue
        if not value.is_graph_input() and not _says_as_much(value.const_value, value):
            ir.serde.serialize_value_into(graph.value_info.add(), value)
        if value.const_value is not None:
            _tensor(graph.initializer.add(), value.const_value)
            graph.initializer[-1].name = value.name or ""
    for node in nodes_of(model.graph):
        _node(graph, node)
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


def _node(graph: onnx.GraphProto, node: ir.Node) -> None:
    outputs = [value_name(value) or "" for value in node_outputs(node)]
    while outputs and not outputs[-1]:
        outputs.pop()
    domain, op_type, overload, name, _ = node_head(node)
    proto = graph.node.add(
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
