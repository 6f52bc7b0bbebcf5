"""A binary model read without its weights, which go elsewhere one by one.

Protobuf holds a message in memory whole, and hands out copies of what is in it: reading takes
three times the weights. Here only the fields around them are read by it.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import onnx
import onnx_ir as ir
from google.protobuf.message import DecodeError

from onnx_passes.model.data_rules import bytes_of
from onnx_passes.model.wire import LENGTH, Field, FileBytes, fields, head

SMALL = 1 << 16
"""Bytes below which a weight stays in the model."""
_PAGE = 4096
_CHUNK = 1 << 22

# Numbers of fields. Source: onnx.proto of ONNX IR version 13.
GRAPH, INITIALIZER, RAW_DATA = 7, 5, 9

_Store = Callable[[FileBytes, Field], int]
"""Puts the content of a field elsewhere, and returns the offset to note."""


class Pieces(NamedTuple):
    """A model and its large initializers.

    Attributes:
        proto: The model; each initializer that was removed is external data.
        location: What those name as their location, and no other tensor does.
        contents: What they hold; their offset says at which place.
    """

    proto: onnx.ModelProto
    location: str
    contents: list[bytes]


def parse_pieces(path: Path) -> Pieces | None:
    """Read a model, its large initializers in byte strings of their own.

    Args:
        path: The model.

    Returns:
        The model; None where it is not one that can be read so, which says nothing of whether
        it can be read otherwise.

    Raises:
        OSError: The file cannot be read.
    """
    contents: list[bytes] = []

    def store(data: FileBytes, field: Field) -> int:
        contents.append(data[field.content : field.end])
        return len(contents) - 1

    # A location that a model cannot have guessed.
    location = secrets.token_hex(16)
    proto = _parse(path, location, store)
    return None if proto is None or not contents else Pieces(proto, location, contents)


def parse_in_place(path: Path) -> onnx.ModelProto | None:
    """Read a model without its large initializers, which refer to the model's own file.

    Args:
        path: The model, whose name no tensor names as its location.

    Returns:
        The model; None where it is not one that can be read so, which says nothing of whether
        it can be read otherwise.

    Raises:
        OSError: The file cannot be read.
    """
    return _parse(path, path.name, lambda data, field: field.content)


def parse_apart(path: Path, target: Path) -> onnx.ModelProto | None:
    """Read a model, and copy its large initializers to a file that it then refers to.

    Args:
        path: The model.
        target: The file to write; initializers name it as their location.

    Returns:
        The model; None where it is not one that can be read so, which says nothing of whether
        it can be read otherwise.

    Raises:
        OSError: A file cannot be read or written.
    """
    with open(target, "wb") as out:

        def store(data: FileBytes, field: Field) -> int:
            out.write(b"\0" * (-out.tell() % _PAGE))
            offset = out.tell()
            for start in range(field.content, field.end, _CHUNK):
                out.write(data[start : min(start + _CHUNK, field.end)])
            return offset

        proto = _parse(path, target.name, store)
        return proto if out.tell() else None


def _parse(path: Path, location: str, store: _Store) -> onnx.ModelProto | None:
    with open(path, "rb") as stream:
        try:
            lean = _model(FileBytes(stream), location, store)
            if lean is None:
                return None
            model: onnx.ModelProto = onnx.ModelProto.FromString(bytes(lean))
        except (IndexError, ValueError, DecodeError):
            return None
    return model


def _model(data: FileBytes, location: str, store: _Store) -> bytearray | None:
    found = list(fields(data, 0, len(data)))
    if sum(field.number == GRAPH for field in found) != 1:
        return None
    lean = bytearray()
    for field in found:
        if (field.number, field.wire) != (GRAPH, LENGTH):
            lean += data[field.start : field.end]
            continue
        graph = _graph(data, field, location, store)
        lean += head(GRAPH, len(graph)) + graph
    return lean


def _graph(data: FileBytes, field: Field, location: str, store: _Store) -> bytearray:
    lean, start = bytearray(), field.content
    for inner in fields(data, field.content, field.end):
        if (inner.number, inner.wire) == (INITIALIZER, LENGTH):
            tensor = _tensor(data, inner, location, store)
            if tensor is not None:
                lean += data[start : inner.start] + head(INITIALIZER, len(tensor)) + tensor
                start = inner.end
    lean += data[start : field.end]
    return lean


def _tensor(data: FileBytes, field: Field, location: str, store: _Store) -> bytes | None:
    """Return an initializer whose content has been stored; None for one that stays."""
    if field.end - field.content < SMALL:
        return None
    inner = list(fields(data, field.content, field.end))
    raw = [f for f in inner if f.number == RAW_DATA]
    if len(raw) != 1 or raw[0].wire != LENGTH:
        return None
    rest = b"".join(data[f.start : f.end] for f in inner if f.number != RAW_DATA)
    proto = onnx.TensorProto.FromString(rest)
    size = raw[0].end - raw[0].content
    plain = proto.data_type in set(ir.DataType) and proto.data_type not in _WITHOUT_BYTES
    # What does not fit its type and shape is left for the rules to complain about.
    if not plain or size < SMALL or proto.external_data or proto.HasField("segment"):
        return None
    if proto.data_location == onnx.TensorProto.EXTERNAL:
        return None
    if min(proto.dims, default=0) < 0 or bytes_of(proto) != size:
        return None
    place = {"location": location, "offset": store(data, raw[0]), "length": size}
    proto.data_location = onnx.TensorProto.EXTERNAL
    for key, value in place.items():
        proto.external_data.add(key=key, value=str(value))
    found: bytes = proto.SerializeToString()
    return found


_WITHOUT_BYTES = (ir.DataType.UNDEFINED, ir.DataType.STRING)
