"""Weights as a child process finds them: in files, each written at most once."""

from __future__ import annotations

import itertools
import mmap
import os
import tempfile
import weakref
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from onnx_passes.arrays import Array
from onnx_passes.errors import EngineError
from onnx_passes.model.digest import tensor_digest
from onnx_passes.model.tensor_bytes import tensor_buffer
from onnx_passes.runtime.isolated_wire import Message, nameless_file, write_at

_numbers = itertools.count(1)


class WeightFile:
    """A file without a name, which is gone with the last process that has it open.

    Attributes:
        number: What parent and child call it.
        descriptor: The open file.
    """

    def __init__(self) -> None:
        self.number = next(_numbers)
        # On disk, so that memory under pressure can be written back.
        self.descriptor = nameless_file()
        self._end = 0
        weakref.finalize(self, os.close, self.descriptor)

    def append(self, tensor: ir.TensorProtocol) -> tuple[int, int]:
        """Write a tensor, and return its offset and length.

        Raises:
            EngineError: There is no room.
        """
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
class Manifest:
    """Weights of one model.

    Attributes:
        places: Where a child finds each, as ``load`` reads it.
        files: The files that they are in, by number; those that models were read from aside.
    """

    places: list[Message]
    files: dict[int, WeightFile]


class Store:
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

    def manifest(self, weights: Mapping[str, ir.TensorProtocol]) -> Manifest:
        """Write those weights that are in no file yet, and say where all of them are.

        Raises:
            EngineError: There is no room.
            ModelError: The data of a weight cannot be read.
        """
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
        return Manifest(places, files)

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

    Args:
        place: Where it is.
        maps: The files of the parent, mapped into memory, by number.
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
