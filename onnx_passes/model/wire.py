"""Binary models read without their weights, and written weight by weight.

Protobuf's encoding is read a field at a time, so that large data are never in memory twice.
"""

import os
import secrets
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import BinaryIO, NamedTuple, Protocol, overload

import numpy as np
import onnx
import onnx_ir as ir
from google.protobuf.message import DecodeError

from onnx_passes.errors import ModelError
from onnx_passes.model import walk
from onnx_passes.model.formats import LIMIT, render
from onnx_passes.model.protos import bytes_of
from onnx_passes.model.tensor_bytes import ListedTensor, chunks

LENGTH = 2
"""The wire type of strings, bytes and messages."""
_WINDOW = 1 << 16


class Bytes(Protocol):
    """What is read by place, as ``bytes`` are."""

    @overload
    def __getitem__(self, place: int, /) -> int: ...

    @overload
    def __getitem__(self, place: slice, /) -> bytes: ...


class Field(NamedTuple):
    """A field of a message, from ``start`` to ``end``; its content begins at ``content``."""

    number: int
    wire: int
    start: int
    content: int
    end: int


def fields(data: Bytes, start: int, end: int) -> Iterator[Field]:
    """Yield the fields of a message that lies from one byte to another.

    Raises ``ValueError`` if it is not a message, and ``IndexError`` if the data end too early.
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
        yield Field(tag >> 3, tag & 7, place, content, after)
        place = after


def field_header(number: int, size: int) -> bytes:
    """Return what stands before the content of a string, bytes or message field."""
    return _number(number << 3 | LENGTH) + _number(size)


def _varint(data: Bytes, place: int) -> tuple[int, int]:
    found = shift = 0
    while shift < 70:
        byte = data[place]
        place += 1
        found |= (byte & 0x7F) << shift
        if byte < 0x80:
            return found, place
        shift += 7
    raise ValueError("a number of more than 10 bytes")


def _number(left: int) -> bytes:
    found = bytearray()
    while left >= 0x80:
        found.append(left & 0x7F | 0x80)
        left >>= 7
    found.append(left)
    return bytes(found)


class FileBytes:
    """The bytes of a file, read where they are asked for.

    It is not mapped: a process that looks at a mapped file is killed when another one cuts
    it short.
    """

    def __init__(self, stream: BinaryIO) -> None:
        self._handle = stream.fileno()
        self._size = os.fstat(self._handle).st_size
        self._first, self._window = 0, b""

    def __len__(self) -> int:
        return self._size

    @overload
    def __getitem__(self, place: int, /) -> int: ...

    @overload
    def __getitem__(self, place: slice, /) -> bytes: ...

    def __getitem__(self, place: int | slice, /) -> int | bytes:
        """Return a byte, or a range; ``ValueError`` if the file has become shorter."""
        if isinstance(place, slice):
            return self._slice(place.start, place.stop)
        offset = place - self._first
        if not 0 <= offset < len(self._window):
            self._first, offset = place, 0
            self._window = os.pread(self._handle, _WINDOW, place)
        return self._window[offset]

    def _slice(self, start: int, stop: int) -> bytes:
        found = os.pread(self._handle, stop - start, start)
        while len(found) < stop - start:
            more = os.pread(self._handle, stop - start - len(found), start + len(found))
            if not more:
                raise ValueError("the file ends too early")
            found += more
        return found


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

    Each initializer that was removed is external data at ``location``, which no other tensor
    names. Its offset is its place in ``contents``.
    """

    proto: onnx.ModelProto
    location: str
    contents: list[bytes]


def parse_pieces(path: Path) -> Pieces | None:
    """Read a model, its large initializers in byte strings of their own.

    None if the model cannot be read so; it may be readable otherwise. Raises ``OSError``.
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

    None if the model cannot be read so; it may be readable otherwise. No tensor may name the
    file as its location. Raises ``OSError``.
    """
    return _parse(path, path.name, lambda data, field: field.content)


def parse_apart(path: Path, target: Path) -> onnx.ModelProto | None:
    """Read a model, and copy its large initializers to a file that it then refers to.

    None if the model cannot be read so; it may be readable otherwise. Raises ``OSError``.
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
        lean += field_header(GRAPH, len(graph)) + graph
    return lean


def _graph(data: FileBytes, field: Field, location: str, store: _Store) -> bytearray:
    lean, start = bytearray(), field.content
    for inner in fields(data, field.content, field.end):
        if (inner.number, inner.wire) == (INITIALIZER, LENGTH):
            tensor = _tensor(data, inner, location, store)
            if tensor is not None:
                lean += (
                    data[start : inner.start] + field_header(INITIALIZER, len(tensor)) + tensor
                )
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


Left = Mapping[str, ir.TensorProtocol]
"""Tensors that were left empty, by the names of their initializers and Constant nodes."""

Parts = list[bytes | ir.TensorProtocol]

_NODE = 1
_PATHS = {INITIALIZER: (RAW_DATA,), _NODE: (5, 5, RAW_DATA)}
"""Fields of a graph, with those that lead to a tensor's content: attribute, and its tensor."""

_KINDS = (ir.Tensor, ir.PackedTensor, ir.ExternalTensor)


def empty_large_tensors(model: ir.Model, choose: walk.Choice) -> tuple[walk.Choice, Left]:
    """Leave the large initializers of a model empty, and those of Constant nodes.

    What ``choose`` makes external is not large. Returns what to write at first, and what
    belongs into the empty ones.
    """
    inner = {
        id(value.const_value)
        for graph in walk.all_graphs(model)
        if graph is not model.graph
        for value in graph.initializers.values()
    }
    left: dict[str, ir.TensorProtocol] = {}
    for value in model.graph.initializers.values():
        tensor = value.const_value
        if not isinstance(tensor, _KINDS) or isinstance(tensor, ListedTensor):
            continue
        if tensor.dtype == ir.DataType.STRING:
            continue
        # A tensor is chosen for wherever it is used, and only those of the graph are filled.
        if tensor.nbytes < SMALL or id(tensor) in inner or value.name is None:
            continue
        if not isinstance(choose(tensor, True), ir.ExternalTensor):
            left[value.name] = tensor
    known = {id(tensor) for tensor in left.values()}
    held = _in_constants(model, choose)
    alone = {id(tensor) for tensor in held.values()}

    def choice(tensor: ir.TensorProtocol, initializer: bool) -> ir.TensorProtocol:
        if id(tensor) in (known if initializer else alone):
            return _empty(tensor)
        return choose(tensor, initializer)

    return choice, {**left, **held}


def _in_constants(model: ir.Model, choose: walk.Choice) -> dict[str, ir.TensorProtocol]:
    """Return the large tensors that one Constant node of the main graph has, by its output."""
    found: dict[str, ir.TensorProtocol] = {}
    places: Counter[int] = Counter()
    for graph in walk.all_graphs(model):
        for node in filter(walk.node_attributes, walk.nodes_of(graph)):
            for tensor in walk.attribute_tensors(node.attributes):
                places[id(tensor)] += 1
                if graph is model.graph and node.op_type == "Constant" and node.outputs:
                    found[str(node.outputs[0].name)] = tensor
    return {
        name: tensor
        for name, tensor in found.items()
        if isinstance(tensor, _KINDS)
        and not isinstance(tensor, ListedTensor)
        and tensor.dtype != ir.DataType.STRING
        and tensor.nbytes >= SMALL
        and places[id(tensor)] == 1
        and not isinstance(choose(tensor, False), ir.ExternalTensor)
    }


def _empty(tensor: ir.TensorProtocol) -> ir.TensorProtocol:
    return ir.LazyTensor(
        lambda: ir.Tensor(np.empty(0, np.uint8)),
        dtype=tensor.dtype,
        shape=ir.Shape(tensor.shape.numpy()),
        cache=False,
        name=tensor.name,
        doc_string=tensor.doc_string,
        metadata_props=dict(tensor.metadata_props),
    )


def stream(model: onnx.ModelProto, left: Left, where: str) -> Iterator[bytes | memoryview]:
    """Yield a binary model piece by piece, always the same bytes.

    In the model, initializers that are ``left`` have empty ``raw_data``. Raises ``ModelError``
    if the model is too large for protobuf, or a tensor cannot be read.
    """
    parts = _parts(model, left, where)
    size = _size(parts)
    if size > LIMIT:
        raise ModelError(
            f"the model has {size} bytes, more than the {LIMIT} that protobuf can read",
            where=where,
            help="save it as .onnx with external data",
        )
    for part in parts:
        if isinstance(part, bytes):
            yield part
        else:
            yield from _content(part)


def count_bytes(model: onnx.ModelProto, left: Left) -> int:
    """Return the bytes that :func:`stream` yields, with no weight read and no limit."""
    return _size(_parts(model, left, "model"))


def _parts(model: onnx.ModelProto, left: Left, where: str) -> Parts:
    lean = render(model, "binary", where)
    names = {
        INITIALIZER: [tensor.name for tensor in model.graph.initializer],
        _NODE: [node.output[0] if node.output else "" for node in model.graph.node],
    }
    parts: Parts = []
    for field in fields(lean, 0, len(lean)):
        if field.number == GRAPH:
            parts += _graph_stream(lean, field.content, field.end, names, left)
        else:
            parts.append(lean[field.start : field.end])
    return parts


def _graph_stream(
    lean: bytes, start: int, end: int, names: Mapping[int, list[str]], left: Left
) -> Parts:
    parts: Parts = []
    places = {number: iter(known) for number, known in names.items()}
    for field in fields(lean, start, end):
        if field.number not in places:
            continue
        tensor = left.get(next(places[field.number]))
        if tensor is not None:
            parts.append(lean[start : field.start])
            parts += _filled(lean, field, _PATHS[field.number], tensor)
            start = field.end
    parts.append(lean[start:end])
    return [field_header(GRAPH, _size(parts)), *parts]


def _filled(
    lean: bytes, field: Field, path: tuple[int, ...], tensor: ir.TensorProtocol
) -> Parts:
    """Return a field with the content of a tensor at the end of a path of inner fields."""
    if not path:
        return [field_header(field.number, tensor.nbytes), tensor]
    inside = fields(lean, field.content, field.end)
    inner = next(each for each in inside if each.number == path[0])
    parts: Parts = [
        lean[field.content : inner.start],
        *_filled(lean, inner, path[1:], tensor),
        lean[inner.end : field.end],
    ]
    return [field_header(field.number, _size(parts)), *parts]


def _size(parts: Parts) -> int:
    return sum(len(part) if isinstance(part, bytes) else part.nbytes for part in parts)


def _content(tensor: ir.TensorProtocol) -> Iterator[bytes | memoryview]:
    size = 0
    for chunk in chunks(tensor):
        size += len(chunk)
        yield chunk
    if size != tensor.nbytes:
        raise ModelError(
            f"tensor {tensor.name!r} has {size} bytes, but its type and shape take "
            f"{tensor.nbytes}",
            help="check what the last pass put into the model",
        )
