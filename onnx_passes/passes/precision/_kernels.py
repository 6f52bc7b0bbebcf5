"""Does ONNX Runtime run an operator in a type?"""

from __future__ import annotations

from collections.abc import Mapping

import onnx_ir as ir

from onnx_passes.model.copy import copy_nodes
from onnx_passes.model.ort_sessions import open_session
from onnx_passes.passes._support.proto import SMALL
from onnx_passes.passes._support.tensors import constant_of
from onnx_passes.passes.precision._signature import Signature

_FOUND: dict[tuple[object, ...], bool] = {}


def has_kernel(
    node: ir.Node, signature: Signature, half: ir.DataType, opsets: Mapping[str, int]
) -> bool:
    """Whether ONNX Runtime loads a node whose places of a signature have a lower type.

    Answers are kept by operator, opset, attributes and types.

    Args:
        node: The node.
        signature: The places that get the lower type.
        half: The lower type.
        opsets: Versions by domain.
    """
    attributes = ",".join(sorted(str(a) for a in node.attributes.values()))
    kinds = tuple(None if v is None else v.dtype for v in node.inputs)
    key = (node.domain, node.op_type, opsets.get(node.domain), attributes, kinds, half)
    if key not in _FOUND:
        _FOUND[key] = _loads(node, signature, half, opsets)
    return _FOUND[key]


def _loads(
    node: ir.Node, signature: Signature, half: ir.DataType, opsets: Mapping[str, int]
) -> bool:
    (copy,), values = copy_nodes([node])
    inputs, constants = [], []
    lowered = {node.inputs[i] for i in signature.inputs}
    for value in dict.fromkeys(v for v in node.inputs if v is not None):
        entry, tensor = values[value], constant_of(value)
        entry.const_value = None
        kind = half if value in lowered else value.dtype
        if kind is None:
            return False
        entry.type = ir.TensorType(kind)
        if tensor is not None and value not in lowered and tensor.nbytes <= SMALL:
            # Axes and shapes decide what the node is.
            entry.const_value = tensor
            constants.append(entry)
        else:
            inputs.append(entry)
    for index, output in enumerate(copy.outputs):
        output.shape = None
        if index in signature.outputs:
            output.type = ir.TensorType(half)
    graph = ir.Graph(
        inputs,
        [value for value in copy.outputs if value.name],
        nodes=[copy],
        initializers=constants,
        opset_imports=dict(opsets),
        name="kernel",
    )
    try:
        open_session(ir.to_proto(ir.Model(graph, ir_version=10)))
    except Exception:  # those of ONNX Runtime have no common class
        return False
    return True
