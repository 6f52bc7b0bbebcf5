"""Values in the form ONNX Runtime takes and gives them, without a copy where it allows.

ONNX Runtime has no numpy form of bfloat16, the 8-bit floats and everything below 8 bits.
On our side they are ``ml_dtypes`` arrays; on its side they are typed memory.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING

import ml_dtypes
import numpy as np
import onnx_ir as ir

from onnx_passes.arrays import DType
from onnx_passes.errors import EngineError, UnsupportedModelError
from onnx_passes.runtime.engine_base import Array, Data

if TYPE_CHECKING:
    import onnxruntime

_BITS = {
    ir.DataType.INT4: 4,
    ir.DataType.UINT4: 4,
    ir.DataType.FLOAT4E2M1: 4,
    ir.DataType.INT2: 2,
    ir.DataType.UINT2: 2,
}
EXOTIC = frozenset(
    {
        *_BITS,
        ir.DataType.BFLOAT16,
        ir.DataType.FLOAT8E4M3FN,
        ir.DataType.FLOAT8E4M3FNUZ,
        ir.DataType.FLOAT8E5M2,
        ir.DataType.FLOAT8E5M2FNUZ,
        ir.DataType.FLOAT8E8M0,
    }
)
"""Element types that ONNX Runtime knows and numpy does not."""

EXOTIC_NAMES = frozenset(f"tensor({dtype.name.lower()})" for dtype in EXOTIC)
"""The tensors of these types, as ONNX Runtime spells them."""


def pack(array: Array, bits: int) -> Array:
    """Pack the elements of a 4-bit or 2-bit array into bytes, the first lowest.

    Args:
        array: Elements of an ``ml_dtypes`` type, one a byte, any shape.
        bits: Bits of an element.

    Returns:
        uint8 of shape [ceil(size * bits / 8)].
    """
    per_byte = 8 // bits
    codes = np.ascontiguousarray(array).reshape(-1).view(np.uint8) & ((1 << bits) - 1)
    codes = np.pad(codes, (0, -codes.size % per_byte)).reshape(-1, per_byte)
    shifts = np.arange(per_byte, dtype=np.uint8) * np.uint8(bits)
    packed: Array = np.bitwise_or.reduce(codes << shifts, axis=1)
    return packed


def unpack(packed: Array, bits: int, dtype: DType, shape: tuple[int, ...]) -> Array:
    """Undo ``pack``.

    Args:
        packed: uint8 of shape [ceil(size * bits / 8)].
        bits: Bits of an element.
        dtype: The ``ml_dtypes`` type of the elements.
        shape: Shape of the result.
    """
    per_byte = 8 // bits
    shifts = np.arange(per_byte, dtype=np.uint8) * np.uint8(bits)
    codes = (packed[:, None] >> shifts) & np.uint8((1 << bits) - 1)
    flat = codes.reshape(-1)[: int(np.prod(shape, dtype=np.int64))]
    if dtype in (ml_dtypes.int4, ml_dtypes.int2):
        sign = np.uint8(8 - bits)
        flat = ((flat << sign).view(np.int8) >> sign.view(np.int8)).view(np.uint8)
    return np.ascontiguousarray(flat).view(dtype).reshape(shape)


def of_tensor(tensor: ir.TensorProtocol) -> onnxruntime.OrtValue:
    """Wrap a weight; the value keeps alive the memory that it points to.

    Args:
        tensor: Any tensor but a string one. Memory is shared where its layout is contiguous
            and native, as for files mapped into memory.

    Raises:
        UnsupportedModelError: ONNX Runtime has no such element type.
    """
    if tensor.dtype not in _BITS:
        return of_array(tensor.numpy())
    return _typed(_spread(_packed_bytes(tensor), tuple(tensor.shape.numpy())), tensor.dtype)


def _packed_bytes(tensor: ir.TensorProtocol) -> Array:
    if isinstance(tensor, ir.ExternalTensor) and tensor.size:
        tensor.numpy()  # maps the file
        if tensor.raw is not None:
            return np.frombuffer(tensor.raw, np.uint8, tensor.nbytes, tensor.offset or 0)
    if isinstance(tensor, ir.PackedTensor):
        return np.ascontiguousarray(tensor.numpy_packed()).reshape(-1).view(np.uint8)
    return np.frombuffer(tensor.tobytes(), np.uint8)


def _spread(packed: Array, shape: tuple[int, ...]) -> Array:
    # ONNX Runtime takes the shape from the array and the size from the element type, so the
    # array must claim one byte an element; it reads only the packed ones.
    strides = tuple(np.cumprod((1, *shape[:0:-1]))[::-1].tolist()) if shape else ()
    return np.lib.stride_tricks.as_strided(packed, shape, strides, writeable=False)


def of_array(array: Array) -> onnxruntime.OrtValue:
    """Wrap an array of any element type but strings, sharing its memory.

    Raises:
        UnsupportedModelError: ONNX Runtime has no such element type.
    """
    dtype = element_type(array)
    if (bits := _BITS.get(dtype)) is not None:
        return _typed(_spread(pack(array, bits), array.shape), dtype)
    array = np.require(array, array.dtype.newbyteorder("="), ["C", "A"])
    return _typed(array, dtype)


def element_type(array: Array) -> ir.DataType:
    """Return the ONNX element type of an array.

    Raises:
        EngineError: The array holds what ONNX has no element type for.
    """
    try:
        return ir.DataType.from_numpy(array.dtype.newbyteorder("="))
    except TypeError as error:
        raise EngineError(f"a feed has dtype {array.dtype}, which ONNX lacks") from error


def _typed(array: Array, dtype: ir.DataType) -> onnxruntime.OrtValue:
    import onnxruntime as ort

    try:
        return ort.OrtValue.ortvalue_from_numpy_with_onnx_type(array, dtype.value)
    except RuntimeError as error:
        raise UnsupportedModelError(
            f"ONNX Runtime has no element type {dtype.name.lower()}",
            help="run this model on the reference engine",
        ) from error


def to_array(value: onnxruntime.OrtValue) -> Array:
    """Return the tensor in an OrtValue as an array that owns its memory.

    Args:
        value: A tensor in host memory.
    """
    dtype = ir.DataType(value.element_type())
    if dtype not in EXOTIC:
        array: Array = value.numpy()
        return array
    shape = tuple(value.shape())
    data = np.frombuffer(
        ctypes.string_at(value.data_ptr(), value.tensor_size_in_bytes()), np.uint8
    )
    if (bits := _BITS.get(dtype)) is not None:
        return unpack(data, bits, dtype.numpy(), shape)
    return data.view(dtype.numpy()).reshape(shape).copy()


def to_data(value: object) -> Data:
    """Return a result of ``InferenceSession.run`` in the form of this package.

    A sequence of maps (the output of ZipMap) becomes a list with one pair of arrays a map:
    its keys in ascending order, and their values.
    """
    if value is None or isinstance(value, np.ndarray):
        return value
    if isinstance(value, dict):
        keys = sorted(value)
        return [np.asarray(keys), np.asarray([value[key] for key in keys])]
    if isinstance(value, list):
        return [to_data(item) for item in value]
    return np.asarray(value)
