"""What an engine's child process and its parent send each other: messages and tensors.

Messages go through a socket, with the tensors behind them. Weights lie in files that are
written once. Nothing is pickled.
"""

from __future__ import annotations

import json
import os
import socket
import struct
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from weakref import WeakKeyDictionary, WeakValueDictionary

import ml_dtypes
import numpy as np
import onnx_ir as ir

from onnx_passes.arrays import Array, DType
from onnx_passes.errors import EngineError
from onnx_passes.model.digest import tensor_digest
from onnx_passes.model.save import TensorFile, is_temporary
from onnx_passes.model.tensor_bytes import array_buffer
from onnx_passes.plain import Plain, PlainDict
from onnx_passes.runtime.engine_base import Data

Message = PlainDict
Payload = Sequence[bytes | memoryview]
"""Pieces of bytes behind a message."""

_SIZES = struct.Struct("<QQ")
_ALIGNMENT = 64
_STRINGS = "OSUT"


class Channel:
    """One end of the socket.

    A message is JSON, with bytes behind it. Whatever is raised in the middle of a message
    leaves the channel unusable: TimeoutError at the deadline, EOFError at the end of the other
    process, and OSError.
    """

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection

    def close(self) -> None:
        """Close this end."""
        self._socket.close()

    def send(
        self,
        message: Message,
        payload: Payload = (),
        deadline: float | None = None,
    ) -> None:
        """Send a message, and the pieces of its payload."""
        head = json.dumps(message).encode()
        sizes = _SIZES.pack(len(head), sum(map(len, payload)))
        for part in (sizes, head, *payload):
            self._wait_until(deadline)
            self._socket.sendall(part)

    def receive(self, deadline: float | None = None) -> tuple[Message, memoryview]:
        """Return the next message and its payload."""
        head, payload = _SIZES.unpack(self._bytes(_SIZES.size, deadline))
        message = json.loads(bytes(self._bytes(head, deadline)))
        return message, self._bytes(payload, deadline)

    def _bytes(self, count: int, deadline: float | None) -> memoryview:
        view, done = memoryview(bytearray(count)), 0
        while done < count:
            self._wait_until(deadline)
            got = self._socket.recv_into(view[done:])
            if not got:
                raise EOFError
            done += got
        return view

    def _wait_until(self, deadline: float | None) -> None:
        # A limit of 0 would mean not to wait at all.
        rest = None if deadline is None else max(deadline - time.monotonic(), 1e-3)
        self._socket.settimeout(rest)


def pack(values: Mapping[str, Data]) -> tuple[Message, list[bytes | memoryview]]:
    """Return values as plain data, and the pieces of the payload that holds them."""
    pieces: list[bytes | memoryview] = []
    end = 0

    def write(data: memoryview) -> list[int]:
        nonlocal end
        padding = -end % _ALIGNMENT
        pieces.extend((bytes(padding), data))
        start, end = end + padding, end + padding + len(data)
        return [start, end]

    return {name: spell_data(data, write) for name, data in values.items()}, pieces


def unpack(places: Message, payload: memoryview) -> dict[str, Data]:
    """Return the values that lie in a payload, which they share."""
    return {
        name: read_data(place, lambda ends: payload[slice(*ends)])
        for name, place in places.items()
    }


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


def read_data(told: Plain, read: Callable[[Plain], bytes | memoryview]) -> Data:
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
    for index, item in enumerate(json.loads(bytes(content))):
        array.flat[index] = item[0].encode("latin-1") if isinstance(item, list) else item
    return array


def _dtype(name: str) -> DType:
    return np.dtype(getattr(ml_dtypes, name, name))


def _spell(item: object) -> str | list[str]:
    if isinstance(item, str):
        return item
    if isinstance(item, bytes):
        return [item.decode("latin-1")]
    raise EngineError(f"a tensor of strings holds a {type(item).__name__}")


class WeightStore:
    """All weights that are written for children to temporary files, each content once.

    A tensor is looked at once while it cannot change; its digest is kept beside it.
    """

    def __init__(self) -> None:
        self._by_content: WeakValueDictionary[bytes, ir.ExternalTensor] = WeakValueDictionary()
        self._held: WeakKeyDictionary[ir.TensorProtocol, ir.ExternalTensor] = (
            WeakKeyDictionary()
        )

    def in_files(
        self, weights: Mapping[str, ir.TensorProtocol]
    ) -> dict[str, ir.ExternalTensor]:
        """Write those weights that are in no file yet, and return all as they are in files."""
        found: dict[str, ir.ExternalTensor] = {}
        file: TensorFile | None = None
        for name, tensor in weights.items():
            if isinstance(tensor, ir.ExternalTensor):
                found[name] = tensor
                continue
            content = tensor_digest(tensor)
            written = self._by_content.get(content)
            if written is None:
                file = file or TensorFile()
                written = self._by_content[content] = _append(file, tensor)
            found[name] = self._held[tensor] = written
        return found


def _append(file: TensorFile, tensor: ir.TensorProtocol) -> ir.ExternalTensor:
    try:
        return file.append(tensor)
    except OSError as error:
        raise EngineError(
            f"there is no room for the weights in {tempfile.gettempdir()}: {error.strerror}",
            help="let TMPDIR name a folder with more room, or keep the weights of the "
            "model in a file beside it: they are then read from there",
        ) from error


def place_of(name: str, tensor: ir.ExternalTensor) -> Message:
    """Return what :func:`load` reads of a weight in a file."""
    # Without a folder, a location is not held to stay in one.
    base = os.path.abspath(tensor.base_dir) if tensor.base_dir else ""
    location = os.fspath(tensor.location)
    return {
        "name": name,
        "dtype": tensor.dtype.name,
        "shape": [int(size) for size in tensor.shape.numpy()],
        "base": base,
        "location": location if base else os.path.abspath(location),
        "offset": tensor.offset,
        "length": tensor.length,
        "temporary": is_temporary(tensor),
    }


def load(place: Message) -> ir.TensorProtocol:
    """Return a weight in the child, without reading it.

    What the parent has in memory is an array here as well, mapped from the file.
    """
    dtype, shape, name = ir.DataType[place["dtype"]], ir.Shape(place["shape"]), place["name"]
    offset, length = place["offset"], place["length"]
    if not place["temporary"]:
        return ir.ExternalTensor(
            place["location"],
            offset,
            length,
            dtype,
            shape=shape,
            name=name,
            base_dir=place["base"],
        )
    path = os.path.join(place["base"], place["location"])
    data: Array = np.asarray(np.memmap(path, np.uint8, "r", offset, length))
    if dtype.bitwidth < 8:
        return ir.PackedTensor(data, dtype, shape=shape, name=name)
    array: Array = data.view(dtype.numpy()).reshape(place["shape"])
    return ir.Tensor(array, dtype=dtype, shape=shape, name=name)
