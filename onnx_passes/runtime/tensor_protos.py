"""Tensors and types as protobuf: in place, or declared and left out."""

from __future__ import annotations

from collections.abc import Hashable

import onnx
import onnx_ir as ir

from onnx_passes.model.walk import shape_fields, value_fields

INLINE_BYTES = 1024
"""Tensors up to this size stay in the protobuf: engines read shapes and axes from there."""


INLINE_INTEGER_BYTES = 65536
"""As INLINE_BYTES, for int32 and int64, which carry shapes, indices and sizes."""


LOCATION = "weights-by-reference"
"""The location declared for tensors left out; no file of that name has content."""


def value_info_into(
    proto: onnx.GraphProto | onnx.FunctionProto,
    value: ir.Value,
    known: dict[Hashable, onnx.TypeProto],
    name: str | None = None,
) -> None:
    """Write the type and shape of a value, if it has any.

    Args:
        proto: The graph or function that is written to.
        value: The value.
        known: Types and shapes that were written, by what decides how they are; it grows.
        name: Its name there, if it is not its own.
    """
    if not value.name or (value.type is None and value.shape is None):
        return
    info = proto.value_info.add()
    key = _type_key(value)
    if key in known:  # hardly any value has a type and shape that no other one has
        info.name = name or value.name
        info.type.CopyFrom(known[key])
        return
    ir.serde.serialize_value_into(info, value, name=name or value.name)
    if key is not None:
        known[key] = onnx.TypeProto()
        known[key].CopyFrom(info.type)


def _type_key(value: ir.Value) -> Hashable:
    """Return what decides how a value is written, except its name; None for no tensor."""
    _, type_, shape, doc_string, properties, _ = value_fields(value)
    if type(type_) is not ir.TensorType or properties or doc_string:
        return None
    if shape is None:
        return type_.dtype, type_.denotation
    dims, denotations = shape_fields(shape)
    sizes = tuple([dim if isinstance(dim, int) else (dim.value,) for dim in dims])
    return type_.dtype, type_.denotation, sizes, tuple(denotations)


def is_large(tensor: ir.TensorProtocol) -> bool:
    """Whether a tensor is left out of the protobuf, and passed to engines by reference."""
    if tensor.dtype == ir.DataType.STRING:
        return False  # has no memory layout that could be shared
    is_index = tensor.dtype in (ir.DataType.INT32, ir.DataType.INT64)
    return tensor.nbytes > (INLINE_INTEGER_BYTES if is_index else INLINE_BYTES)


def declare_into(proto: onnx.TensorProto, name: str, tensor: ir.TensorProtocol) -> None:
    """Declare a tensor whose content lies elsewhere.

    Args:
        proto: What is written to.
        name: Its name.
        tensor: The tensor.
    """
    proto.name = name
    proto.data_type = tensor.dtype.value
    proto.dims.extend(tensor.shape.numpy())
    proto.data_location = onnx.TensorProto.EXTERNAL
    for key, text in (("location", LOCATION), ("offset", "0"), ("length", str(tensor.nbytes))):
        proto.external_data.add(key=key, value=text)


def inline_into(proto: onnx.TensorProto, name: str | None, tensor: ir.TensorProtocol) -> None:
    """Write a tensor with its content.

    Args:
        proto: What is written to, and cleared before.
        name: Its name, if it has one.
        tensor: The tensor.
    """
    proto.Clear()
    proto.name = name or ""
    proto.data_type = tensor.dtype.value
    proto.dims.extend(tensor.shape.numpy())
    if tensor.dtype == ir.DataType.STRING:
        for text in tensor.numpy().reshape(-1):
            proto.string_data.append(text if isinstance(text, bytes) else str(text).encode())
    else:
        proto.raw_data = tensor.tobytes()
