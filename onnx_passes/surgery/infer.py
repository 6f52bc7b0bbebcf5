"""Types and shapes of what one node computes, by its schema."""

from __future__ import annotations

import onnx
import onnx_ir as ir

from onnx_passes.errors import ModelError

_GRAPH = ir.AttributeType.GRAPH
_LARGEST = 1024
"""Elements of a constant that shapes may depend on."""


def infer_outputs(node: ir.Node, schema: onnx.defs.OpSchema, model: ir.Model) -> None:
    """Note types and shapes at the outputs of a node, as far as the schema knows them.

    Of a node with bodies, those are noted in which the bodies of an If agree.

    Args:
        node: The node.
        schema: Of its operator.
        model: The model that it is for; its opsets and IR version count.

    Raises:
        ModelError: Types or shapes of the inputs do not fit the operator.
    """
    bodies = [a.as_graph() for a in node.attributes.values() if a.type == _GRAPH]
    if bodies:
        _copy_types(node, bodies)
        return
    types, data = {}, {}
    for value in node.inputs:
        if value is None or value.name is None:
            continue
        if value.type is None:
            return
        types[value.name] = ir.serde.serialize_value(value).type
        tensor = None if value.is_graph_input() else ir.convenience.get_const_tensor(value)
        if tensor is not None and tensor.size <= _LARGEST:
            data[value.name] = ir.serde.serialize_tensor(tensor)
    try:
        found = onnx.shape_inference.infer_node_outputs(
            schema,
            ir.serde.serialize_node(node),
            types,
            data,
            opset_imports=[
                onnx.helper.make_opsetid(domain, version)
                for domain, version in model.graph.opset_imports.items()
            ],
            ir_version=model.ir_version or onnx.IR_VERSION,
        )
    except (onnx.shape_inference.InferenceError, RuntimeError) as error:
        reason = str(error).strip().splitlines()[-1]
        raise ModelError(
            f"{node.op_type} cannot take these inputs: {reason}",
            where=node.name,
            help="; ".join(_describe(v) for v in node.inputs if v is not None) or None,
        ) from error
    for output in node.outputs:
        proto = found.get(str(output.name))
        if proto is not None:
            noted = ir.serde.deserialize_type_proto_for_type(proto)
            if noted is not None:
                output.type = noted
            shape = ir.serde.deserialize_type_proto_for_shape(proto)
            if shape is not None:
                output.shape = shape


def _copy_types(node: ir.Node, bodies: list[ir.Graph]) -> None:
    if node.op_type != "If" or node.domain != "":
        return  # what repeats stacks and carries: only the whole model shows that
    for output, *given in zip(node.outputs, *(body.outputs for body in bodies), strict=False):
        if len({v.type for v in given}) == 1:
            output.type = given[0].type
        if len({str(v.shape) for v in given}) == 1:
            output.shape = given[0].shape


def _describe(value: ir.Value) -> str:
    return f"{value.name} is {value.type}{'' if value.shape is None else value.shape}"
