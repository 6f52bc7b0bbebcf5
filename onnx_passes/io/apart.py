"""A binary model read without its weights, which go from its file to another in pieces.

Protobuf holds a message in memory whole, and hands out copies of what is in it: reading takes
twice the weights. Here only the fields around them are read.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

import onnx
import onnx_ir as ir
from google.protobuf.message import DecodeError

from onnx_passes.io.data_rules import bytes_of

SMALL = 1 << 16
"""Bytes below which a weight stays in the model."""
_PAGE = 4096
_CHUNK = 1 << 22

# Numbers of fields. Source: onnx.proto of ONNX IR version 13.
_GRAPH, _INITIALIZER, _RAW_DATA = 7, 5, 9
_LENGTH = 2


class _Field(NamedTuple):
    number: int
    wire: int
    start: int
    content: int
    end: int


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
    if not path.stat().st_size:
        return None
    with open(path, "rb") as stream, open(target, "wb") as out:
        with mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data:
            try:
                lean = _model(data, stream, out, target.name)
            except (IndexError, ValueError, DecodeError):
                return None
        if lean is None or not out.tell():
            return None
    try:
        model: onnx.ModelProto = onnx.ModelProto.FromString(bytes(lean))
    except DecodeError:
        return None
    return model


def _model(
    data: mmap.mmap, stream: BinaryIO, out: BinaryIO, location: str
) -> bytearray | None:
    fields = list(_fields(data, 0, len(data)))
    if sum(field.number == _GRAPH for field in fields) != 1:
        return None
    lean = bytearray()
    for field in fields:
        if (field.number, field.wire) != (_GRAPH, _LENGTH):
            lean += data[field.start : field.end]
            continue
        graph = bytearray()
        for inner in _fields(data, field.content, field.end):
            tensor = None
            if (inner.number, inner.wire) == (_INITIALIZER, _LENGTH):
                tensor = _tensor(data, inner, stream, out, location)
            if tensor is None:
                graph += data[inner.start : inner.end]
            else:
                graph += _framed(_INITIALIZER, tensor)
        lean += _framed(_GRAPH, graph)
    return lean


def _tensor(
    data: mmap.mmap, field: _Field, stream: BinaryIO, out: BinaryIO, location: str
) -> bytes | None:
    """Return an initializer whose content has been copied; None for one that stays."""
    if field.end - field.content < SMALL:
        return None
    inner = list(_fields(data, field.content, field.end))
    raw = [f for f in inner if f.number == _RAW_DATA]
    if len(raw) != 1 or raw[0].wire != _LENGTH:
        return None
    rest = b"".join(data[f.start : f.end] for f in inner if f.number != _RAW_DATA)
    proto = onnx.TensorProto.FromString(rest)
    size = raw[0].end - raw[0].content
    plain = proto.data_type in set(ir.DataType) and proto.data_type not in _WITHOUT_BYTES
    # What does not fit its type and shape is left for the rules to complain about.
    if not plain or size < SMALL or proto.external_data or proto.HasField("segment"):
        return None
    if min(proto.dims, default=0) < 0 or bytes_of(proto) != size:
        return None
    out.write(b"\0" * (-out.tell() % _PAGE))
    place = {"location": location, "offset": out.tell(), "length": size}
    _copy(stream, raw[0].content, size, out)
    proto.data_location = onnx.TensorProto.EXTERNAL
    for key, value in place.items():
        proto.external_data.add(key=key, value=str(value))
    found: bytes = proto.SerializeToString()
    return found


_WITHOUT_BYTES = (ir.DataType.UNDEFINED, ir.DataType.STRING)


def _copy(stream: BinaryIO, start: int, size: int, out: BinaryIO) -> None:
    while size:
        chunk = os.pread(stream.fileno(), min(size, _CHUNK), start)
        if not chunk:
            raise ValueError("the file ends too early")
        out.write(chunk)
        start, size = start + len(chunk), size - len(chunk)


def _fields(data: mmap.mmap, start: int, end: int) -> Iterator[_Field]:
    """Yield the fields of a message. Source: Protocol Buffers' encoding.

    Raises:
        ValueError: It is none.
    """
    place = start
    while place < end:
        tag, content = _varint(data, place)
        match tag & 7:
            case 0:
                after = _varint(data, content)[1]
            case 1:
                after = content + 8
            case 2:
                size, content = _varint(data, content)
                after = content + size
            case 5:
                after = content + 4
            case other:
                raise ValueError(f"wire type {other}")
        if after > end:
            raise ValueError("a field ends behind its message")
        yield _Field(tag >> 3, tag & 7, place, content, after)
        place = after


def _varint(data: mmap.mmap, place: int) -> tuple[int, int]:
    found = shift = 0
    while shift < 70:
        byte = data[place]
        place += 1
        found |= (byte & 0x7F) << shift
        if byte < 0x80:
            return found, place
        shift += 7
    raise ValueError("a number of more than 10 bytes")


def _framed(number: int, content: bytes | bytearray) -> bytes:
    head = bytearray()
    for value in (number << 3 | _LENGTH, len(content)):
        left = value
        while left >= 0x80:
            head.append(left & 0x7F | 0x80)
            left >>= 7
        head.append(left)
    return bytes(head) + content
