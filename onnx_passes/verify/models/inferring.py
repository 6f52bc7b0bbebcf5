"""What onnx infers of the outputs of one node."""

from __future__ import annotations

from collections.abc import Mapping

import onnx

IR_VERSION = 10

_REFUSALS = (
    onnx.shape_inference.InferenceError,
    onnx.checker.ValidationError,
    onnx.defs.SchemaError,
    ValueError,
)


class UnfitError(Exception):
    """No node of this kind can be made here."""


def infer_outputs(
    node: onnx.NodeProto,
    opset: int,
    types: Mapping[str, onnx.TypeProto],
    data: Mapping[str, onnx.TensorProto],
) -> dict[str, onnx.TypeProto]:
    """Return the types and shapes of the outputs of a node, by name.

    Args:
        node: The node.
        opset: Version of the main domain.
        types: Types and shapes of its inputs, by name.
        data: Those inputs that are constants, by name.

    Raises:
        UnfitError: onnx does not take the node, or infers nothing of an output.
    """
    try:
        schema = onnx.defs.get_schema(node.op_type, opset, "")
        found = onnx.shape_inference.infer_node_outputs(
            schema,
            node,
            dict(types),
            dict(data),
            opset_imports=[onnx.helper.make_opsetid("", opset)],
            ir_version=IR_VERSION,
        )
    except _REFUSALS:
        raise UnfitError from None
    if any(not t.tensor_type.elem_type for t in found.values()) or len(found) < len(
        [name for name in node.output if name]
    ):
        raise UnfitError
    return dict(found)
