"""Infer the types of outputs that declare none."""

from __future__ import annotations

import logging

import onnx

from onnx_passes.model.inference import infer

_SMALL = 1024  # bytes; shapes, axes and indices take no more
_LOGGER = logging.getLogger(__name__)


def infer_output_types(model: onnx.ModelProto) -> list[str]:
    """Give outputs without a type the one that shape inference finds, in place.

    An output whose type is not found keeps none: engines infer it by themselves.

    Returns:
        What was inferred, one sentence each.
    """
    missing = {value.name: value for value in model.graph.output if not _is_typed(value.type)}
    if not missing:
        return []
    try:
        inferred = infer(_without_weights(model))
    except Exception as error:  # whatever C++ throws, and protobufs over 2 GiB
        _LOGGER.debug("no types are inferred: %s", error)
        return []
    found = {value.name: value.type for value in inferred.graph.output}
    notes = []
    for name, value in missing.items():
        if name in found and _is_typed(found[name]):
            value.type.CopyFrom(found[name])
            text = _text(value.type)
            notes.append(f"the output {name!r} declares no type; {text} is inferred")
    return notes


def _is_typed(type_: onnx.TypeProto) -> bool:
    match type_.WhichOneof("value"):
        case None:
            return False
        case "tensor_type" | "sparse_tensor_type" as kind:
            return bool(getattr(type_, kind).elem_type != onnx.TensorProto.UNDEFINED)
        case "sequence_type":
            return _is_typed(type_.sequence_type.elem_type)
        case "optional_type":
            return _is_typed(type_.optional_type.elem_type)
    return True


def _text(type_: onnx.TypeProto) -> str:
    kind = type_.WhichOneof("value")
    if kind not in ("tensor_type", "sparse_tensor_type"):
        return f"a {str(kind).removesuffix('_type')}"
    tensor = getattr(type_, kind)
    element = onnx.TensorProto.DataType.Name(tensor.elem_type).lower()
    dims = ",".join(dim.dim_param or str(dim.dim_value) for dim in tensor.shape.dim)
    return f"{element}[{dims}]" if tensor.HasField("shape") else element


def _without_weights(model: onnx.ModelProto) -> onnx.ModelProto:
    """Copy a model, with inputs instead of large initializers."""
    graph = onnx.GraphProto(name=model.graph.name)
    light = onnx.ModelProto(ir_version=max(model.ir_version, 4), graph=graph)
    light.opset_import.extend(model.opset_import)
    light.functions.extend(model.functions)
    graph = light.graph
    graph.node.extend(model.graph.node)
    graph.input.extend(model.graph.input)
    graph.output.extend(model.graph.output)
    graph.value_info.extend(v for v in model.graph.value_info if _is_typed(v.type))
    inputs = {value.name for value in model.graph.input}
    for tensor in model.graph.initializer:
        if tensor.data_location != onnx.TensorProto.EXTERNAL and tensor.ByteSize() <= _SMALL:
            graph.initializer.append(tensor)
        elif tensor.name not in inputs:
            graph.input.append(
                onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims)
            )
    return light
