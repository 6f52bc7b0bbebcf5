"""Read values from numpy's files and ONNX's serialised tensors. Nothing is unpickled."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import onnx
import onnx_ir as ir
from onnx import numpy_helper

from onnx_passes.arrays import Array
from onnx_passes.contracts.scores import dtype_name, kind_of
from onnx_passes.errors import ReferenceDataError
from onnx_passes.model.formats import near_by
from onnx_passes.runtime.engine_base import Data, did_you_mean

Proto: TypeAlias = onnx.TensorProto | onnx.SequenceProto | onnx.OptionalProto

SUFFIXES = (".npy", ".npz", ".pb")


def find(path: str | os.PathLike[str], base_dir: Path) -> Path:
    """Return the path of a file or folder that exists.

    Args:
        path: The path, absolute or from ``base_dir``.
        base_dir: The folder of the pipeline file.

    Raises:
        ReferenceDataError: There is none; the message suggests one beside it.
    """
    full = base_dir / Path(path).expanduser()
    if full.exists():
        return full
    near = near_by(full)
    from_file = base_dir != Path() and not Path(path).is_absolute()
    rule = "paths are relative to the folder of the pipeline file" if from_file else ""
    raise ReferenceDataError(
        f"reference data {str(path)!r} does not exist",
        where=str(full),
        help=f"{f'did you mean {near!r}? ' if near else ''}{rule}".strip() or "check the path",
    )


def read_value(path: Path, value: ir.Value) -> Data:
    """Read what one file holds for one input or output.

    Args:
        path: A .npy file, or a .npz file with one array or one of the value's name. Or a .pb
            file with a TensorProto, SequenceProto or OptionalProto, as the value's type says.
        value: The input or output. Bytes that numpy saved without their type, as it does with
            those of ``ml_dtypes``, are taken to be of the value's.

    Raises:
        ReferenceDataError: The file cannot be read as that.
    """
    if path.suffix == ".pb":
        return _normal(_read_pb(path, value.type), path, value)
    if path.suffix == ".npz":
        arrays = read_npz(path)
        name = value.name if value.name in arrays else next(iter(arrays), None)
        if name is None or (name != value.name and len(arrays) > 1):
            raise _broken(
                path,
                f"holds {len(arrays)} arrays, none of them named {value.name!r}",
                did_you_mean(value.name or "", arrays),
            )
        array = arrays[name]
    else:
        array = _read_npy(path)
    return _normal(array, path, value)


def adopt(array: Array, path: Path, value: ir.Value) -> Data:
    """Bring an array of a .npz file into the form that engines take.

    Args:
        array: The array, of any shape and type.
        path: Its file, for messages.
        value: The input that it is for.
    """
    return _normal(array, path, value)


def read_npz(path: Path) -> dict[str, Array]:
    """Read all arrays of a .npz file, in their order."""
    loaded = _load(path)
    if not isinstance(loaded, dict):
        raise _broken(path, "is no .npz file, but a single array", "name it .npy")
    return loaded


def _read_npy(path: Path) -> Array:
    if path.suffix != ".npy":
        known = f"known are {', '.join(SUFFIXES)} and folders of ONNX test data"
        raise _broken(path, "is of no known format", known)
    loaded = _load(path)
    if isinstance(loaded, dict):
        raise _broken(path, "is no .npy file, but an archive of arrays", "name it .npz")
    return loaded


def _load(path: Path) -> Array | dict[str, Array]:
    try:
        # Opened here, because np.load leaves a broken archive open.
        with path.open("rb") as file:
            loaded = np.load(file, allow_pickle=False)
            if isinstance(loaded, np.lib.npyio.NpzFile):
                return {name: loaded[name] for name in loaded.files}
            array: Array = loaded
            return array
    except Exception as error:  # of a broken file: those of zip, zlib, tokenize and more
        raise _unreadable(path, error) from error


def _read_pb(path: Path, type_: ir.TypeProtocol | None) -> Any:
    proto: Proto = onnx.TensorProto()
    read: Any = numpy_helper.to_array
    if isinstance(type_, ir.OptionalType):
        proto, read = onnx.OptionalProto(), numpy_helper.to_optional
    elif isinstance(type_, ir.SequenceType):
        proto, read = onnx.SequenceProto(), numpy_helper.to_list
    kind = type(proto).__name__
    external = False
    try:
        proto.ParseFromString(path.read_bytes())
        external = isinstance(proto, onnx.TensorProto) and bool(proto.external_data)
        if not external:
            return read(proto)
    except Exception as error:  # protobuf's own error class comes without types
        raise _broken(
            path,
            f"cannot be read as a {kind}: {_one_line(error)}",
            f"write it with onnx.numpy_helper and {kind}.SerializeToString()",
        ) from error
    raise _broken(
        path, "keeps its data in another file", "save the tensor with its data inside"
    )


def _normal(data: Any, path: Path, value: ir.Value) -> Data:
    """Use native byte order, text as str, and the types of ``ml_dtypes`` under their names."""
    if data is None:
        return None
    if isinstance(data, list):
        return [_normal(item, path, value) for item in data]
    array = np.asarray(data)
    dtype = array.dtype
    if dtype.kind == "V" and dtype.fields is None and kind_of(dtype) == "other":
        declared = value.dtype
        if declared is None or declared.numpy().itemsize != dtype.itemsize:
            raise _broken(
                path,
                f"holds elements of {dtype.itemsize} bytes without a type",
                "numpy drops types such as bfloat16 and int4; store a TensorProto (.pb)",
            )
        return array.view(declared.numpy())
    if kind_of(dtype) == "string":
        return _text(array, path)
    if kind_of(dtype) == "other":
        raise _broken(path, f"holds {dtype_name(dtype)} elements", "ONNX has no such type")
    return array if dtype.isnative else array.astype(dtype.newbyteorder("="))


def _text(array: Array, path: Path) -> Array:
    items = [x.decode() if isinstance(x, bytes) else x for x in array.reshape(-1).tolist()]
    if not all(isinstance(item, str) for item in items):
        raise _broken(path, "holds Python objects", "save an array of numbers or of text")
    text = np.empty(len(items), object)
    text[:] = items
    return text.reshape(array.shape)


def _unreadable(path: Path, error: Exception) -> ReferenceDataError:
    text = _one_line(error)
    if "pickle" in text:
        return _broken(
            path,
            "holds Python objects, or is no numpy file; pickled data is never loaded",
            "save an array of numbers or of text: np.save(path, array, allow_pickle=False)",
        )
    if "not a valid dtype" in text:
        return _broken(
            path,
            "is of a type that numpy writes and cannot read back",
            "store it as a TensorProto (.pb): onnx.numpy_helper.from_array(array)",
        )
    return _broken(path, f"cannot be read: {text}", "save it again with np.save or np.savez")


def _broken(path: Path, what: str, help_: str) -> ReferenceDataError:
    return ReferenceDataError(
        f"reference data {path.name!r} {what}", where=str(path), help=help_
    )


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__
