"""The bytes of a tensor, without copying them where memory allows."""

from __future__ import annotations

import sys
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
