"""Operators as functions of other operators, as ONNX itself defines them."""

from __future__ import annotations

from typing import Any

import onnx
import onnx_ir as ir

from onnx_passes.passes.convert._affine_grid import settle_rank


def body_of(node: ir.Node, opset: int) -> tuple[ir.Function, int] | None:
    """Return the function by which ONNX defines a node's operator.

    Args:
        node: The node; the body may depend on its attributes, which get their defaults, and on
            the types of its inputs.
        opset: The opset that the node is of.

    Returns:
        The function, and the opset that its nodes are of; None where ONNX defines none, or
        where it depends on types that are not known.
    """
    try:
        # The type stubs of onnx leave out what a schema says of functions.
        schema: Any = onnx.defs.get_schema(node.op_type, opset, node.domain)
    except onnx.defs.SchemaError:
        return None
    for name, declared in schema.attributes.items():
        if name not in node.attributes and declared.default_value.type:
            # A body refers to attributes, and knows nothing of their defaults.
            node.attributes[name] = ir.serde.deserialize_attribute(declared.default_value)
    versions = [v for v in schema.all_function_opset_versions if v <= opset]
    if not versions:
        return None
    version = max(versions)
    if version in schema.function_opset_versions:
        text = schema.get_function_with_opset_version(version)
    else:
        types = [_type_of(value) for value in node.inputs]
        if any(type_ is None for type_ in types):
            return None
        text = schema.get_context_dependent_function_with_opset_version(
            version, ir.serde.serialize_node(node).SerializeToString(), types
        )
    if not text:
        return None
    proto = onnx.FunctionProto.FromString(text)
    _leave_out_outputs(proto, node)
    function = ir.serde.deserialize_function(proto)
    if node.op_type == "AffineGrid":
        settle_rank(function, node)
    return function, version


def _leave_out_outputs(proto: onnx.FunctionProto, node: ir.Node) -> None:
    """Drop the outputs that the node does not have: a body need not compute them."""
    del proto.output[len(node.outputs) :]
    produced = {name for inner in proto.node for name in inner.output}
    first = next(name for name in proto.output if name in produced)
    for index, name in enumerate(proto.output):
        if name not in produced:
            proto.output[index] = first


def _type_of(value: ir.Value | None) -> bytes | None:
    if value is None:
        return onnx.TypeProto().SerializeToString()
    if value.type is None:
        return None
    return ir.serde.serialize_value(value).type.SerializeToString()
