"""The bytes of a tensor, not copied where memory allows, and never to be changed."""

import sys
from collections.abc import Iterator
from mmap import mmap
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir

from onnx_passes import arrays
from onnx_passes.arrays import Array
from onnx_passes.errors import ModelError

_CHUNK = 1 << 24


def array_buffer(array: Array) -> memoryview:
    """View an array's elements as little-endian bytes in row-major order."""
    if array.dtype.byteorder == ">" or (
        array.dtype.byteorder == "=" and sys.byteorder == "big" and array.dtype.itemsize > 1
    ):
        array = array.astype(array.dtype.newbyteorder("<"))
    # memoryview() knows no bfloat16 or float8; uint8 is always allowed.
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data


def tensor_buffer(tensor: ir.TensorProtocol) -> memoryview:
    """View a tensor's content as ONNX ``raw_data`` holds it.

    Memory-mapped weights stay mapped. Types below 8 bits come packed. Strings have no fixed
    layout, and are not allowed. Raises ``ModelError`` if the file is gone, or holds too
    little.
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


def release_pages(tensor: ir.TensorProtocol) -> None:
    """Free the memory of a tensor that is mapped from a file, which may be read again."""
    if is_a(tensor, ir.ExternalTensor):
        arrays.release_pages(tensor.raw)


def chunks(tensor: ir.TensorProtocol) -> Iterator[bytes | memoryview]:
    """Yield a tensor's content as ``raw_data`` holds it, piece by piece.

    A tensor in a file that is not mapped yet stays so. Raises ``ModelError`` if the data
    cannot be read.
    """
    if isinstance(tensor, ir.ExternalTensor) and tensor.raw is None:
        # Mapped pages count as memory used, and nobody has asked for these.
        yield from _chunks_of_file(tensor)
        return
    data = tensor_buffer(tensor)
    for start in range(0, len(data), _CHUNK):
        yield data[start : start + _CHUNK]
    release_pages(tensor)


def _chunks_of_file(tensor: ir.ExternalTensor) -> Iterator[bytes]:
    left = tensor.nbytes
    try:
        with open(tensor.path, "rb") as stream:
            stream.seek(tensor.offset or 0)
            while left and (chunk := stream.read(min(left, _CHUNK))):
                left -= len(chunk)
                yield chunk
    except OSError as error:
        raise ModelError(
            f"the data of tensor {tensor.name!r} cannot be read: {error.strerror}",
            where=tensor.path,
            help="check that the model's data files are complete and beside the model",
        ) from error
    if left:
        raise ModelError(
            f"the data of tensor {tensor.name!r} end {left} bytes too early",
            where=tensor.path,
            help="check that the model's data files are complete and beside the model",
        )


class ListedTensor(ir.Tensor[Any]):
    """A tensor whose file lists its integers, in fewer bytes than they take raw.

    Protobuf spends a byte on a small integer where raw data has eight: written as raw data, a
    file of many shapes would grow.
    """

    def listed(self) -> ir.TensorProtoTensor:
        """Return the tensor as it was read."""
        proto = onnx.TensorProto(
            name=self.name,
            data_type=int(self.dtype),
            dims=self.shape.numpy(),
            doc_string=self.doc_string or None,
        )
        getattr(proto, _LISTS[self.dtype]).extend(self.numpy().reshape(-1).tolist())
        onnx.helper.set_metadata_props(proto, self.metadata_props)
        return ir.TensorProtoTensor(proto)


_LISTS = {
    ir.DataType.INT32: "int32_data",
    ir.DataType.INT64: "int64_data",
    ir.DataType.UINT32: "uint64_data",
    ir.DataType.UINT64: "uint64_data",
}
"""The fields that list integers which are wider than most of them need."""


def lists_elements(tensor: ir.TensorProtocol) -> bool:
    """Whether a tensor is a protobuf that lists its elements, in place of raw data."""
    return is_a(tensor, ir.TensorProtoTensor) and not tensor.raw.HasField("raw_data")


def _is_listed(tensor: ir.TensorProtocol) -> bool:
    wide = tensor.dtype in _LISTS and lists_elements(tensor)
    return wide and tensor.raw.ByteSize() < tensor.nbytes


def immutable(tensor: ir.TensorProtocol) -> ir.TensorProtocol:
    """Return an equal tensor to whose content nobody can write, by any name it has.

    Making an array read-only is not enough: its owner may turn the flag back, and other views
    of its memory stay writable. Memory-mapped and lazy tensors are left as they are. A tensor
    that is immutable already is returned itself. Raises ``ModelError`` if the data cannot be
    read.
    """
    if is_immutable(tensor) or is_a(tensor, ir.LazyTensor):
        return tensor
    if tensor.dtype == ir.DataType.STRING:
        shape = ir.Shape(tensor.shape.numpy())
        return _named(ir.StringTensor(tuple(string_data(tensor)), shape=shape), tensor)
    if tensor.dtype.bitwidth < 8 and isinstance(tensor, ir.Tensor):
        # Unpacked, and so it stays: types below 8 bits take a byte each.
        whole = tensor.numpy()
        array = _read_only(array_buffer(whole)).view(whole.dtype).reshape(whole.shape)
        return _named(ir.Tensor(array, dtype=tensor.dtype), tensor)
    return tensor_from_bytes(
        tensor_buffer(tensor), tensor, ListedTensor if _is_listed(tensor) else ir.Tensor
    )


def tensor_from_bytes(
    data: memoryview, like: ir.TensorProtocol, kind: type[ir.Tensor[Any]] = ir.Tensor
) -> ir.TensorProtocol:
    """Return a tensor like another one, with a content that nobody can write to.

    ``data`` are copied, unless they are a view of bytes. ``kind`` is the class for types of
    whole bytes.
    """
    shape, array = ir.Shape(like.shape.numpy()), _read_only(data)
    if like.dtype.bitwidth < 8:
        return _named(ir.PackedTensor(array, like.dtype, shape=shape), like)
    array = array.view(like.dtype.numpy()).reshape(shape.numpy())
    return _named(kind(array, dtype=like.dtype), like)


def _named(tensor: ir.TensorProtocol, like: ir.TensorProtocol) -> ir.TensorProtocol:
    tensor.name, tensor.doc_string = like.name, like.doc_string
    tensor.metadata_props.update(like.metadata_props)
    return tensor


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


def is_a(tensor: ir.TensorProtocol, kind: type) -> bool:
    """Whether a tensor is of a class of onnx-ir: isinstance takes three times as long."""
    return kind in type(tensor).__mro__


def byte_count(tensor: ir.TensorProtocol) -> int:
    """Return the bytes of a tensor's content: for an array, in a sixth of onnx-ir's time."""
    raw = tensor.raw if type(tensor) in (ir.Tensor, ListedTensor) else None
    if isinstance(raw, np.ndarray) and raw.itemsize * 8 == tensor.dtype.bitwidth:
        return raw.nbytes
    return tensor.nbytes


def is_immutable(tensor: ir.TensorProtocol) -> bool:
    """Whether nobody can write to a tensor's content, by any name it has."""
    raw = tensor.raw
    if isinstance(raw, tuple) or is_a(tensor, ir.ExternalTensor):
        return True
    if not isinstance(raw, np.ndarray):
        return False
    while isinstance(raw, np.ndarray):
        if raw.flags.writeable:
            return False
        raw = raw.base
    return isinstance(raw, bytes) or (isinstance(raw, mmap) and memoryview(raw).readonly)
