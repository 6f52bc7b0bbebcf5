"""Whether every tensor's data are there, as many as its type and shape say."""

from __future__ import annotations

import math
import os
import stat
from pathlib import Path

import onnx
import onnx_ir as ir

from onnx_passes.errors import ModelError
from onnx_passes.model.protos import all_tensors

_COPY = "copy the data file beside the model, complete and under the name given here"


def check_data(
    model: onnx.ModelProto, path: Path, *, apart: str | None = None
) -> tuple[Path, ...]:
    """Check the data of all tensors, in the file and outside, without reading those outside.

    Args:
        model: The model, sparse tensors made dense.
        path: Its file; data files are looked for from its folder.
        apart: The location of what was copied out of the file, and checked then.

    Returns:
        The data files, in order of first use.

    Raises:
        ModelError: Data are missing, too few or too many, or outside of the model's folder.
    """
    files: dict[Path, int] = {}
    types = {int(dtype) for dtype in ir.DataType} - {0}
    for place, tensor in all_tensors(model):
        where = f"{path}: {place}"
        if tensor.HasField("segment"):
            raise ModelError(
                "a tensor in segments cannot be read",
                where=where,
                help="store the tensor whole",
            )
        if tensor.data_type not in types:
            raise ModelError(
                f"the tensor has the unknown element type {tensor.data_type}",
                where=where,
                help="check the model where it is made, or upgrade onnx-ir",
            )
        if min(tensor.dims, default=0) < 0:
            raise ModelError(
                f"the tensor has the shape {list(tensor.dims)}",
                where=where,
                help="correct the model where it is made",
            )
        if apart is not None and _location(tensor) == apart:
            continue
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            _check_external(tensor, path.absolute().parent, where, files)
        else:
            _check_internal(tensor, where)
    return tuple(files)


def bytes_of(tensor: onnx.TensorProto) -> int:
    """Return the bytes that a tensor's type and shape take; types below 8 bits are packed."""
    bits = math.prod(tensor.dims) * ir.DataType(tensor.data_type).bitwidth
    return -(-int(bits) // 8)


def _location(tensor: onnx.TensorProto) -> str | None:
    found = [entry.value for entry in tensor.external_data if entry.key == "location"]
    return found[0] if found else None


def _check_internal(tensor: onnx.TensorProto, where: str) -> None:
    dtype, size = ir.DataType(tensor.data_type), math.prod(tensor.dims)
    if tensor.HasField("raw_data") and dtype != ir.DataType.STRING:
        found, needed, unit = len(tensor.raw_data), bytes_of(tensor), "bytes"
    else:
        field, needed = _field_of(dtype, size)
        found, unit = len(getattr(tensor, field)), f"elements of {field}"
    if found != needed:
        raise ModelError(
            f"the tensor of type {dtype.name} and shape {list(tensor.dims)} needs {needed} "
            f"{unit}, but has {found}",
            where=where,
            help="export the model again, with its weights",
        )


def _field_of(dtype: ir.DataType, size: int) -> tuple[str, int]:
    """Return where a tensor's elements are and how many entries they take.

    Source: ONNX IR, TensorProto.
    """
    match dtype:
        case ir.DataType.STRING:
            return "string_data", size
        case ir.DataType.FLOAT:
            return "float_data", size
        case ir.DataType.COMPLEX64:
            return "float_data", 2 * size
        case ir.DataType.DOUBLE:
            return "double_data", size
        case ir.DataType.COMPLEX128:
            return "double_data", 2 * size
        case ir.DataType.INT64:
            return "int64_data", size
        case ir.DataType.UINT32 | ir.DataType.UINT64:
            return "uint64_data", size
    # Types of 4 and 2 bits are packed into bytes, one byte an entry; those of 6 are not.
    packed = {4: 2, 2: 4}.get(dtype.bitwidth, 1)
    return "int32_data", -(-size // packed)


def _check_external(
    tensor: onnx.TensorProto, folder: Path, where: str, files: dict[Path, int]
) -> None:
    entries = {entry.key: entry.value for entry in tensor.external_data}
    location = str(entries.get("location", ""))  # bytes, if it is not UTF-8
    where = f"{where}, external data '{location}'"
    if not location or "\0" in location:
        raise ModelError("external data have no file name", where=where, help=_COPY)
    if ir.DataType(tensor.data_type) == ir.DataType.STRING:
        raise ModelError(
            "strings cannot be external data", where=where, help="keep them in the model"
        )
    try:
        offset, length = int(entries.get("offset", 0)), int(entries.get("length", -1))
    except ValueError as error:
        raise ModelError(
            f"offset or length is not a number: {error}", where=where, help=_COPY
        ) from error
    needed = bytes_of(tensor)
    if offset < 0 or ("length" in entries and length != needed):
        raise ModelError(
            f"the tensor of shape {list(tensor.dims)} needs {needed} bytes, but the model "
            f"says {length} from byte {offset}",
            where=where,
            help="export the model again, with its weights",
        )
    file = folder / location
    if file not in files:
        files[file] = _size_of_file(file, folder, where)
    if offset + needed > files[file]:
        raise ModelError(
            f"the data file has {files[file]} bytes, but the tensor's data end at "
            f"{offset + needed}",
            where=where,
            help=_COPY,
        )


def _size_of_file(file: Path, folder: Path, where: str) -> int:
    """Measure a data file that is really inside the model's folder.

    A model must not be able to read other files of the machine into itself.
    """
    if not Path(os.path.normpath(file)).is_relative_to(os.path.normpath(folder)):
        raise ModelError(
            "the data file is outside of the model's folder", where=where, help=_COPY
        )
    try:
        status = file.stat()
        inside = Path(os.path.realpath(file)).is_relative_to(os.path.realpath(folder))
    except OSError as error:
        raise ModelError(
            f"the data file cannot be read: {error.strerror}", where=where, help=_COPY
        ) from error
    if not inside:
        raise ModelError(
            "the data file is a link to outside of the model's folder", where=where, help=_COPY
        )
    if not stat.S_ISREG(status.st_mode):
        raise ModelError("the data file is not a regular file", where=where, help=_COPY)
    if status.st_nlink > 1:
        # onnx-ir would refuse it later, when the data are first used.
        raise ModelError(
            "the data file has another name elsewhere (a hard link)",
            where=where,
            help="replace it by a copy of its own",
        )
    return status.st_size
