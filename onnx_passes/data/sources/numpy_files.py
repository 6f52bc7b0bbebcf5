"""numpy's files: arrays whose first axis runs over samples, or one sample in each .npz."""

from __future__ import annotations

import math
import os
import struct
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, BinaryIO, Literal

import numpy as np

from onnx_passes.arrays import Array, DType
from onnx_passes.data.files import local
from onnx_passes.data.sources.part import FORMS, Columns, PartSpec, broken_file_error
from onnx_passes.errors import ReferenceDataError

_LOCAL_HEADER = 30
"""Bytes of a member's header in a zip archive, before its name and extra field."""

_WINDOW = 16 << 20
"""Bytes of a file that are mapped at once, if samples are read in another order."""


@dataclass(frozen=True)
class Mapped:
    """An array in a file, which is mapped while it is read and no longer.

    Pages of a file that stays mapped count as memory of the process.

    Attributes:
        path: The file.
        start: Where the elements begin, in bytes.
        shape: Shape of the array.
        dtype: Type of the elements.
        order: "C" or "F".
    """

    path: str
    start: int
    shape: tuple[int, ...]
    dtype: DType
    order: Literal["C", "F"]

    def open(self) -> Array:
        """Map the file."""
        if 0 in self.shape:
            return np.zeros(self.shape, self.dtype, self.order)
        return np.memmap(self.path, self.dtype, "r", self.start, self.shape, self.order)

    def rows(self, wanted: Array) -> Array:
        """Read rows, of no more than a window of the file at a time.

        Args:
            wanted: Their numbers, int64, in ascending order.
        """
        found = np.empty((len(wanted), *self.shape[1:]), self.dtype)
        size = self.dtype.itemsize * math.prod(self.shape[1:])
        window = max(1, _WINDOW // max(1, size))
        start = 0
        while start < len(wanted):
            last = (int(wanted[start]) // window + 1) * window
            stop = int(np.searchsorted(wanted, last))
            found[start:stop] = self.open()[wanted[start:stop]]
            start = stop
        return found


class ArrayPart:
    """Arrays of one length, by column.

    Args:
        spec: The part: .npy files by column, or one .npz file. The option ``whole`` says
            that the file is one sample.
    """

    def __init__(self, spec: PartSpec) -> None:
        self._name, self._whole = spec.name, bool(spec.options.get("whole"))
        if spec.form == "npz":
            self._arrays = read_npz(local(spec.path), spec.name)
        else:
            self._arrays = {c: _map_npy(local(path), path) for c, path in spec.files.items()}
        shapes = {name: array.shape for name, array in self._arrays.items()}
        lengths = {name: shape[0] if shape else 1 for name, shape in shapes.items()}
        if not lengths:
            raise broken_file_error(spec.name, "holds no arrays")
        if not self._whole and len(set(lengths.values())) > 1:
            each = ", ".join(f"{name}: {length}" for name, length in lengths.items())
            raise broken_file_error(spec.name, f"holds arrays of different lengths ({each})")
        self._count = 1 if self._whole else next(iter(lengths.values()))

    @property
    def count(self) -> int:
        """How many samples there are."""
        return self._count

    def take(self, rows: Array) -> Columns:
        """Read samples; see ``SourcePart.take``."""
        arrays = {n: a.open() if isinstance(a, Mapped) else a for n, a in self._arrays.items()}
        if self._whole:
            return {name: np.array(array)[None] for name, array in arrays.items()}
        start, stop = int(rows[0]), int(rows[-1]) + 1
        if stop - start == len(rows) and bool((np.diff(rows) == 1).all()):
            return {n: np.array(a[start:stop]) for n, a in arrays.items()}
        # In ascending order a mapped file is read forwards.
        order = np.argsort(rows, kind="stable")
        back = np.empty_like(order)
        back[order] = np.arange(len(order))
        chosen = rows[order]
        return {
            n: (a.rows(chosen) if isinstance(a, Mapped) else np.asarray(a[chosen]))[back]
            for n, a in self._arrays.items()
        }

    def name(self, row: int) -> str:
        """Return what a report calls a sample."""
        return self._name if self._whole else f"{self._name}[{row}]"


def read_npz(path: str, name: str) -> dict[str, Array | Mapped]:
    """Return the arrays of a .npz file; those that are not compressed are left there.

    Args:
        path: The file.
        name: Its name, for messages.

    Raises:
        ReferenceDataError: The file is damaged.
    """
    with _faults(name), zipfile.ZipFile(path) as archive:
        return {
            info.filename.removesuffix(".npy"): _member(archive, info, path)
            for info in archive.infolist()
        }


def npz_shapes(path: str, name: str) -> dict[str, tuple[int, ...]]:
    """Return the shapes of the arrays of a .npz file; nothing else is read.

    Args:
        path: The file.
        name: Its name, for messages.

    Raises:
        ReferenceDataError: The file is damaged.
    """
    found: dict[str, tuple[int, ...]] = {}
    with _faults(name), zipfile.ZipFile(path) as archive:
        for info in archive.infolist():
            with archive.open(info) as stream:
                found[info.filename.removesuffix(".npy")] = _header(stream)[0]
    return found


def _member(archive: zipfile.ZipFile, info: zipfile.ZipInfo, path: str) -> Array | Mapped:
    if info.compress_type == zipfile.ZIP_STORED:
        with open(path, "rb") as file:
            file.seek(info.header_offset)
            head = file.read(_LOCAL_HEADER)
            name, extra = struct.unpack("<HH", head[26:30])
            file.seek(info.header_offset + _LOCAL_HEADER + name + extra)
            return _map(file, path)
    with archive.open(info) as stream:
        array: Array = np.lib.format.read_array(stream, allow_pickle=False)
        return array


def _map_npy(path: str, name: str) -> Mapped:
    with _faults(Path(name).name), open(path, "rb") as file:
        return _map(file, path)


def _map(file: BinaryIO, path: str) -> Mapped:
    """Read the header of an array at which the file is."""
    shape, fortran, dtype = _header(file)
    if dtype.hasobject:
        raise ValueError("holds Python objects; pickled data is never loaded")
    size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    here = file.tell()
    if here + size > os.path.getsize(path):
        raise ValueError(f"is truncated: {size:,} bytes of elements are expected")
    return Mapped(path, here, shape, dtype, "F" if fortran else "C")


def _header(stream: IO[bytes]) -> tuple[tuple[int, ...], bool, DType]:
    version = np.lib.format.read_magic(stream)
    if version == (1, 0):
        return np.lib.format.read_array_header_1_0(stream)
    if version == (2, 0):
        return np.lib.format.read_array_header_2_0(stream)
    raise ValueError(f"has version {version} of numpy's format, and 1.0 and 2.0 are read")


@contextmanager
def _faults(name: str) -> Iterator[None]:
    try:
        yield
    except (ReferenceDataError, MemoryError):
        raise
    except FileNotFoundError as error:
        raise broken_file_error(name, "is not there any more") from error
    except Exception as error:  # of a broken file: those of zip, zlib, tokenize and more
        text = " ".join(str(error).split()) or type(error).__name__
        what = (
            text if text.startswith(("is ", "has ", "holds ")) else f"cannot be read: {text}"
        )
        raise broken_file_error(name, what) from error


FORMS["npy"] = FORMS["npz"] = ArrayPart
