"""The bytes of a tensor, not copied where memory allows, and never to be changed."""

from __future__ import annotations

import sys
from mmap import mmap
from typing import Any

import numpy as np
import onnx_ir as ir

from onnx_passes.errors import ModelError


def array_buffer(array: np.ndarray[Any, np.dtype[Any]]) -> memoryview:
    """View an array's elements as little-endian bytes in row-major order."""
    if array.dtype.byteorder == ">" or (
        array.dtype.byteorder == "=" and sys.byteorder == "big" and array.dtype.itemsize > 1
    ):
        array = array.astype(array.dtype.newbyteorder("<"))
    # memoryview() knows no bfloat16 or float8; uint8 is always allowed.
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data


def tensor_buffer(tensor: ir.TensorProtocol) -> memoryview:
    """View a tensor's content as ONNX ``raw_data`` holds it.

    Memory-mapped weights stay mapped. Types below 8 bits come packed.

    Args:
        tensor: Any tensor but a string tensor, whose content has no fixed layout.

    Returns:
        ``tensor.nbytes`` bytes.

    Raises:
        ModelError: The data cannot be read; the file is gone, or holds too little.
    """
    try:
        if isinstance(tensor, ir.PackedTensor):
            return array_buffer(tensor.numpy_packed())
        if isinstance(tensor, ir.ExternalTensor) and tensor.size:
            tensor.numpy()
            if tensor.raw is not None:
                start = tensor.offset or 0
                return memoryview(tensor.raw)[start : start + tensor.nbytes]
        if tensor.dtype.bitwidth >= 8 and isinstance(tensor, ir.Tensor | ir.LazyTensor):
            return array_buffer(tensor.numpy())
        return memoryview(tensor.tobytes())
    except (OSError, ValueError, TypeError, AssertionError) as error:
        raise ModelError(
            f"the data of tensor {tensor.name!r} cannot be read: {error}",
            help="check that the model's data files are complete and beside the model",
        ) from error


def immutable(tensor: ir.TensorProtocol) -> ir.TensorProtocol:
    """Return an equal tensor to whose content nobody can write, by any name it has.

    Making an array read-only is not enough: its owner may turn the flag back, and other
    views of its memory stay writable. Memory-mapped and lazy tensors are left as they are.

    Args:
        tensor: Any tensor; returned itself if it is immutable already.

    Raises:
        ModelError: The data cannot be read.
    """
    if is_immutable(tensor) or isinstance(tensor, ir.LazyTensor):
        return tensor
    copy: ir.TensorProtocol
    shape = ir.Shape(tensor.shape.numpy())
    if tensor.dtype == ir.DataType.STRING:
        copy = ir.StringTensor(tuple(string_data(tensor)), shape=shape)
    elif tensor.dtype.bitwidth >= 8:
        array = _read_only(tensor_buffer(tensor)).view(tensor.dtype.numpy())
        copy = ir.Tensor(array.reshape(shape.numpy()), dtype=tensor.dtype)
    elif isinstance(tensor, ir.Tensor):
        # Unpacked, and so it stays: types below 8 bits take a byte each.
        whole = tensor.numpy()
        array = _read_only(array_buffer(whole)).view(whole.dtype)
        copy = ir.Tensor(array.reshape(shape.numpy()), dtype=tensor.dtype)
    else:
        copy = ir.PackedTensor(_read_only(tensor_buffer(tensor)), tensor.dtype, shape=shape)
    copy.name, copy.doc_string = tensor.name, tensor.doc_string
    copy.metadata_props.update(tensor.metadata_props)
    return copy


def string_data(tensor: ir.TensorProtocol) -> list[bytes]:
    """List a string tensor's elements in row-major order."""
    elements = (
        tensor.string_data()
        if isinstance(tensor, ir.StringTensor)
        else tensor.numpy().reshape(-1).tolist()
    )
    return [e.encode() if isinstance(e, str) else bytes(e) for e in elements]


def _read_only(data: memoryview) -> np.ndarray[Any, np.dtype[np.uint8]]:
    # What protobuf hands out is a copy of its own already.
    whole = data.obj
    if not (isinstance(whole, bytes) and len(whole) == data.nbytes):
        whole = bytes(data)
    return np.frombuffer(whole, np.uint8)


def is_immutable(tensor: ir.TensorProtocol) -> bool:
    """Whether nobody can write to a tensor's content, by any name it has."""
    raw = tensor.raw
    if isinstance(tensor, ir.ExternalTensor) or isinstance(raw, tuple):
        return True
    if not isinstance(raw, np.ndarray):
        return False
    while isinstance(raw, np.ndarray):
        if raw.flags.writeable:
            return False
        raw = raw.base
    return isinstance(raw, bytes) or (isinstance(raw, mmap) and memoryview(raw).readonly)
