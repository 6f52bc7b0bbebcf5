"""Element types of TensorRT as numpy has them."""

from __future__ import annotations

import onnx_ir as ir

from onnx_passes.arrays import DType
from onnx_passes.errors import UnsupportedModelError
from onnx_passes.runtime.tensorrt.binding_types import TrtMember

_TYPES: dict[str, ir.DataType] = {
    "FLOAT": ir.DataType.FLOAT,
    "HALF": ir.DataType.FLOAT16,
    "BF16": ir.DataType.BFLOAT16,
    "INT8": ir.DataType.INT8,
    "INT32": ir.DataType.INT32,
    "INT64": ir.DataType.INT64,
    "BOOL": ir.DataType.BOOL,
    "UINT8": ir.DataType.UINT8,
    "FP8": ir.DataType.FLOAT8E4M3FN,
    "E8M0": ir.DataType.FLOAT8E8M0,
}
"""Members of ``DataType`` with a byte or more to an element. INT4 and FP4 share bytes."""


def onnx_type(found: TrtMember, name: str) -> ir.DataType:
    """Return ONNX's type for one of the bindings.

    Args:
        found: A member of their ``DataType``.
        name: The tensor, for the message.

    Raises:
        UnsupportedModelError: Its elements share bytes, or ONNX has no such type.
    """
    known = _TYPES.get(found.name)
    if known is None:
        raise UnsupportedModelError(
            f"the tensor {name!r} is {found.name.lower()}, which is not fed or fetched",
            help="cast it at the border of the model, to int8 or float",
        )
    return known


def numpy_type(found: TrtMember, name: str) -> DType:
    """Return numpy's type, or that of ``ml_dtypes``, for one of the bindings.

    Args:
        found: A type of the bindings.
        name: Name of the value, for messages.

    Raises:
        UnsupportedModelError: As :func:`onnx_type`.
    """
    return onnx_type(found, name).numpy()
