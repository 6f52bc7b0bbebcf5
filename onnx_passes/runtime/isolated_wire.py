"""What an engine's child process and its parent send each other: messages and tensors.

Messages go through a socket. Tensors lie in memory that both have open, and weights in files
that are written once. Nothing is pickled.
"""

from __future__ import annotations

import itertools
import json
import mmap
import os
import socket
import struct
import tempfile
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import ml_dtypes
import numpy as np
import onnx_ir as ir

from onnx_passes.arrays import Array, DType
from onnx_passes.errors import EngineError
from onnx_passes.model.digest import tensor_digest
from onnx_passes.model.tensor_bytes import array_buffer, tensor_buffer
from onnx_passes.plain import Plain, PlainDict
from onnx_passes.runtime.engine_base import Data

Message = PlainDict

_SIZES = struct.Struct("<QQ")
_MOST_FILES = 4
_ALIGNMENT = 64
_KEPT = 256 << 20
_STRINGS = "OSUT"


class Channel:
    """One end of the socket."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection

    def close(self) -> None:
        """Close this end."""
        self._socket.close()

    def send(
        self,
        message: Message,
        payload: bytes = b"",
        files: Sequence[int] = (),
        deadline: float | None = None,
    ) -> None:
        """Send a message.

        The other end gets duplicates of ``files``. ``deadline`` is by ``time.monotonic``;
        after it, TimeoutError. OSError if the other end is gone.
        """
        head = json.dumps(message).encode()
        self._wait_until(deadline)
        socket.send_fds(self._socket, [_SIZES.pack(len(head), len(payload))], list(files))
        for part in (head, payload):
            self._wait_until(deadline)
            self._socket.sendall(part)

    def receive(self, deadline: float | None = None) -> tuple[Message, bytes, list[int]]:
        """Return the next message, its payload and its files.

        Raises TimeoutError after the deadline, and EOFError if the other end is gone.
        """
        self._wait_until(deadline)
        start, files, _, _ = socket.recv_fds(self._socket, _SIZES.size, _MOST_FILES)
        if not start:
            raise EOFError
        start += self._bytes(_SIZES.size - len(start), deadline)
        head, payload = _SIZES.unpack(start)
        message = json.loads(self._bytes(head, deadline))
        return message, self._bytes(payload, deadline), list(files)

    def _bytes(self, count: int, deadline: float | None) -> bytes:
        data = bytearray(count)
        view, done = memoryview(data), 0
        while done < count:
            self._wait_until(deadline)
            got = self._socket.recv_into(view[done:])
            if not got:
                raise EOFError
            done += got
        return bytes(data)

    def _wait_until(self, deadline: float | None) -> None:
        rest = None if deadline is None else max(deadline - time.monotonic(), 1e-3)
        self._socket.settimeout(rest)


class SharedBuffer:
    """A file in memory through which tensors go one way."""

    def __init__(self, descriptor: int | None = None) -> None:
        self.descriptor = anonymous_file() if descriptor is None else descriptor
        self._end = 0
        weakref.finalize(self, os.close, self.descriptor)

    def put(self, values: Mapping[str, Data]) -> Message:
        """Write values over those of the last call, and return where they lie."""
        self._end = 0
        try:
            return {name: spell_data(data, self._write) for name, data in values.items()}
        except OSError as error:
            raise EngineError(
                f"there is no room for tensors in shared memory: {error.strerror}"
            ) from error

    def get(self, places: Message) -> dict[str, Data]:
        """Return copies of the values that the other process wrote."""
        return {name: read_data(place, self._read) for name, place in places.items()}

    def shrink(self) -> None:
        """Give memory back, if it is much."""
        if os.fstat(self.descriptor).st_size > _KEPT:
            os.ftruncate(self.descriptor, 0)

    def _write(self, data: memoryview) -> list[int]:
        start = write_at(self.descriptor, data, self._end)
        self._end = start + data.nbytes
        return [start, data.nbytes]

    def _read(self, place: list[int]) -> bytearray:
        start, length = place
        found = bytearray(length)
        read_into(self.descriptor, memoryview(found), start)
        return found


def spell_data(data: Data, write: Callable[[memoryview], Plain]) -> Plain:
    """Return a value as plain data; ``write`` keeps bytes, and returns where they are.

    EngineError for what is not a tensor, a sequence of tensors or nothing.
    """
    if data is None:
        return None
    if isinstance(data, list):
        return [spell_data(item, write) for item in data]
    if not isinstance(data, np.ndarray | np.generic):
        raise EngineError(f"a value is a {type(data).__name__}, which is not a tensor")
    array = np.asarray(data)
    shape = list(array.shape)
    if array.dtype.kind not in _STRINGS:
        return {"dtype": array.dtype.name, "shape": shape, "place": write(array_buffer(array))}
    if array.dtype.kind in "US":
        text = array.dtype.newbyteorder("<").str
        return {"text": text, "shape": shape, "place": write(array_buffer(array))}
    texts = json.dumps([_spell(item) for item in array.reshape(-1).tolist()]).encode()
    return {"shape": shape, "place": write(memoryview(texts))}


def read_data(told: Plain, read: Callable[[Plain], bytes | bytearray]) -> Data:
    """Return the value that :func:`spell_data` spelled."""
    if told is None:
        return None
    if isinstance(told, list):
        return [read_data(item, read) for item in told]
    shape, content = tuple(told["shape"]), read(told["place"])
    if "dtype" in told or "text" in told:
        dtype = np.dtype(told["text"]) if "text" in told else _dtype(told["dtype"])
        return np.frombuffer(content, dtype).reshape(shape)
    array = np.empty(shape, object)
    for index, item in enumerate(json.loads(content)):
        array.flat[index] = item[0].encode("latin-1") if isinstance(item, list) else item
    return array


def anonymous_file() -> int:
    """Open a file in memory that has no name and ends with the last process that has it."""
    return os.memfd_create("onnx-passes") if hasattr(os, "memfd_create") else nameless_file()


def nameless_file() -> int:
    """Open a file on disk that has no name and ends with the last process that has it."""
    with tempfile.TemporaryFile(prefix="onnx-passes-") as file:
        return os.dup(file.fileno())


def write_at(descriptor: int, data: memoryview, at: int) -> int:
    """Write bytes at the next aligned place from ``at``, and return it.

    An OSError says that there is no room; writing into mapped memory would be a SIGBUS.
    """
    start = -(-at // _ALIGNMENT) * _ALIGNMENT
    done = 0
    while done < data.nbytes:
        done += os.pwrite(descriptor, data[done:], start + done)
    return start


def read_into(descriptor: int, goal: memoryview, at: int) -> None:
    """Fill memory from a file, beginning at offset ``at``; EOFError if it is too short."""
    done = 0
    while done < goal.nbytes:
        got = os.preadv(descriptor, [goal[done:]], at + done)
        if not got:
            raise EOFError
        done += got


def _dtype(name: str) -> DType:
    return np.dtype(getattr(ml_dtypes, name, name))


def _spell(item: object) -> str | list[str]:
    if isinstance(item, str):
        return item
    if isinstance(item, bytes):
        return [item.decode("latin-1")]
    raise EngineError(f"a tensor of strings holds a {type(item).__name__}")


_numbers = itertools.count(1)


class WeightFile:
    """A file without a name, which is gone with the last process that has it open.

    Parent and child call it by ``number``.
    """

    def __init__(self) -> None:
        self.number = next(_numbers)
        # On disk, so that memory under pressure can be written back.
        self.descriptor = nameless_file()
        self._end = 0
        weakref.finalize(self, os.close, self.descriptor)

    def append(self, tensor: ir.TensorProtocol) -> tuple[int, int]:
        """Write a tensor, and return its offset and length."""
        data = tensor_buffer(tensor)
        try:
            offset = write_at(self.descriptor, data, self._end)
        except OSError as error:
            raise EngineError(
                f"there is no room for the weights in {tempfile.gettempdir()}: "
                f"{error.strerror}",
                help="let TMPDIR name a folder with more room, or keep the weights of the "
                "model in a file beside it: they are then read from there",
            ) from error
        self._end = offset + data.nbytes
        return offset, data.nbytes


@dataclass(eq=False)
class _Slot:
    """Where a tensor was written; the file lives as long as one of its tensors."""

    file: WeightFile
    offset: int
    length: int


@dataclass(frozen=True)
class WeightManifest:
    """Weights of one model.

    ``places`` is what ``load`` reads. ``files`` has those by number that models were not read
    from.
    """

    places: list[Message]
    files: dict[int, WeightFile]


class WeightStore:
    """All weights that are written for children, by content.

    A tensor is looked at once while it cannot change; its digest is kept beside it.
    """

    def __init__(self) -> None:
        self._by_content: weakref.WeakValueDictionary[bytes, _Slot] = (
            weakref.WeakValueDictionary()
        )
        self._held: weakref.WeakKeyDictionary[ir.TensorProtocol, _Slot] = (
            weakref.WeakKeyDictionary()
        )

    def manifest(self, weights: Mapping[str, ir.TensorProtocol]) -> WeightManifest:
        """Write those weights that are in no file yet, and say where all of them are."""
        places: list[Message] = []
        files: dict[int, WeightFile] = {}
        fresh: WeightFile | None = None
        for name, tensor in weights.items():
            shape = [int(size) for size in tensor.shape.numpy()]
            place = {"name": name, "dtype": tensor.dtype.name, "shape": shape}
            if isinstance(tensor, ir.ExternalTensor):
                places.append({**place, **_file_of(tensor)})
                continue
            content = tensor_digest(tensor)
            slot = self._by_content.get(content)
            if slot is None:
                fresh = fresh or WeightFile()
                slot = self._by_content[content] = _Slot(fresh, *fresh.append(tensor))
            self._held[tensor] = slot
            files[slot.file.number] = slot.file
            at = {"file": slot.file.number, "offset": slot.offset, "length": slot.length}
            places.append({**place, **at})
        return WeightManifest(places, files)

    def forget(self, known: set[int]) -> list[int]:
        """Take the files that no tensor needs any more from those that a child has mapped."""
        needed = {slot.file.number for slot in self._by_content.values()}
        gone = sorted(known - needed)
        known.difference_update(gone)
        return gone


def _file_of(tensor: ir.ExternalTensor) -> Message:
    # Without a folder, a location is not held to stay in one.
    base = os.path.abspath(tensor.base_dir) if tensor.base_dir else ""
    location = os.fspath(tensor.location)
    return {
        "base": base,
        "location": location if base else os.path.abspath(location),
        "offset": tensor.offset,
        "length": tensor.length,
    }


def load(place: Message, maps: Mapping[int, mmap.mmap]) -> ir.TensorProtocol:
    """Return a weight in the child, without reading it.

    ``maps`` are the files of the parent, mapped into memory, by number.
    """
    dtype, shape = ir.DataType[place["dtype"]], ir.Shape(place["shape"])
    if "file" not in place:
        return ir.ExternalTensor(
            place["location"],
            place["offset"],
            place["length"],
            dtype,
            shape=shape,
            name=place["name"],
            base_dir=place["base"],
        )
    view = memoryview(maps[place["file"]])
    data = np.frombuffer(view[place["offset"] : place["offset"] + place["length"]], np.uint8)
    if dtype.bitwidth < 8:
        return ir.PackedTensor(data, dtype, shape=shape, name=place["name"])
    array: Array = data.view(dtype.numpy()).reshape(place["shape"])
    return ir.Tensor(array, dtype=dtype, shape=shape, name=place["name"])
