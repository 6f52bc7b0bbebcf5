"""The forms of files with samples: numpy, tables, tar shards and saved feeds.

Each is a part of a data set, whose samples are read by their number. Damaged files raise
``ReferenceDataError``.
"""

from __future__ import annotations

import glob
import hashlib
import io
import json
import math
import os
import re
import struct
import tarfile
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, BinaryIO, Literal, Protocol, TypeAlias

import numpy as np
import onnx_ir as ir

from onnx_passes.arrays import Array, DType
from onnx_passes.errors import ReferenceDataError
from onnx_passes.model.formats import closest_file_name
from onnx_passes.optional import import_optional
from onnx_passes.plain import Foreign, PlainDict, PlainMapping
from onnx_passes.verify.saved import read_samples, read_value

_BLOCK = 1 << 20


def expand(text: str, base: str) -> list[str]:
    """Return the files and folders that a path or a pattern names, sorted.

    Relative paths start from ``base``. Raises ``ReferenceDataError`` if there are none.
    """
    full = str(Path(base) / Path(text).expanduser())
    if os.path.exists(full):
        return [full]
    if glob.has_magic(text) and (found := sorted(glob.glob(full, recursive=True))):
        return found
    near = closest_file_name(Path(full))
    raise ReferenceDataError(
        f"there is no data {text!r}",
        where=full,
        help=f"did you mean {near!r}?" if near else "give a file, a folder or a pattern",
    )


def digest(path: str) -> str:
    """Return the SHA-256 of a file's content, or of all files below a folder."""
    content = hashlib.sha256()
    root = Path(path)
    for file in sorted(p for p in root.rglob("*") if p.is_file()) if root.is_dir() else [root]:
        if file != root:
            content.update(f"{file.relative_to(root).as_posix()}\0".encode())
        with file.open("rb", buffering=0) as stream:
            while block := stream.read(_BLOCK):
                content.update(block)
    return content.hexdigest()


Column: TypeAlias = "Array | list[Any]"
Columns: TypeAlias = dict[str, Column]
"""Values by column; the first axis, or the list, runs over samples."""


class SourcePart(Protocol):
    """Samples that are read by their number, 0 to ``count - 1``."""

    @property
    def count(self) -> int:
        """How many samples there are."""
        ...

    def take(self, rows: Array) -> Columns:
        """Read samples by number, in any order; ``ReferenceDataError`` for damaged data."""
        ...

    def name(self, row: int) -> str:
        """Return what a report calls a sample."""
        ...


@dataclass(frozen=True)
class PartSpec:
    """Where a part lies, as plain data.

    ``form`` is a key of ``FORMS``. ``files`` are by column, or one under the empty name.
    ``size`` is in bytes. ``name`` is used in reports.
    """

    form: str
    files: Mapping[str, str]
    name: str
    count: int = 0
    size: int = 0
    digest: str = ""
    options: PlainMapping = field(default_factory=dict)

    @property
    def path(self) -> str:
        """The path of a part of one file."""
        return next(iter(self.files.values()))


FORMS: dict[str, Callable[[PartSpec], SourcePart]] = {}
"""What opens a part, by its form. A family of forms adds itself when it is imported."""


AGAIN = "write it again, or leave it out"


def broken_file_error(name: str, what: str, help_: str = AGAIN) -> ReferenceDataError:
    """Return the error of a file that cannot be used; ``what`` ends a sentence."""
    return ReferenceDataError(f"data {name!r} {what}", help=help_)


IMAGES = ("png", "jpg", "jpeg", "webp", "ppm", "bmp")
NUMBERS = ("cls", "cls2", "index", "inx", "id")


class TarPart:
    """A tar shard as WebDataset writes it: ``000.png``, ``000.cls``, ``001.png``, ...

    A column is the rest of a member's name after the first point. Its last ending says how it
    is read: .npy as an array, .npz as its only array, .cls and .id as an integer, .txt as
    text, .json as numbers. Images are uint8 [height, width, channels], all else is bytes.
    """

    def __init__(self, spec: PartSpec) -> None:
        self._path, self._name = spec.path, spec.name
        self._samples: dict[str, dict[str, tuple[int, int]]] = {}
        try:
            size = os.path.getsize(self._path)
            # Headers only: the data between them is skipped.
            with tarfile.open(self._path, "r:") as archive:
                for member in archive:
                    if member.isfile():
                        if member.offset_data + member.size > size:
                            raise broken_file_error(
                                self._name, f"is truncated in {member.name!r}"
                            )
                        self._add(member)
                self._check_end(archive.offset)
        except (tarfile.TarError, EOFError) as error:
            help_ = "shards are not compressed; write them with a tool for WebDataset"
            raise broken_file_error(
                self._name, f"is not a complete tar file: {error}", help_
            ) from error
        self._keys = list(self._samples)
        self.count = len(self._keys)

    def _check_end(self, offset: int) -> None:
        # An archive that was cut between two members looks whole but for the mark at its end.
        with open(self._path, "rb") as file:
            file.seek(offset)
            if file.read(tarfile.BLOCKSIZE) != bytes(tarfile.BLOCKSIZE):
                raise broken_file_error(
                    self._name, "is truncated: the mark at the end is missing"
                )

    def _add(self, member: tarfile.TarInfo) -> None:
        folder, _, file = member.name.rpartition("/")
        stem, _, column = file.partition(".")
        key = f"{folder}/{stem}" if folder else stem
        self._samples.setdefault(key, {})[column] = (member.offset_data, member.size)

    def take(self, rows: Array) -> Columns:
        found: list[PlainDict] = [{} for _ in rows]
        with open(self._path, "rb") as file:
            for place in np.argsort(rows, kind="stable"):
                key = self._keys[int(rows[place])]
                for column, (start, size) in self._samples[key].items():
                    file.seek(start)
                    value = _decode(file.read(size), column, f"{self._name}:{key}.{column}")
                    found[place][column.partition(".")[0] or column] = value
        return join(found, self._name)

    def name(self, row: int) -> str:
        return f"{self._name}:{self._keys[row]}"


def join(samples: list[PlainDict], name: str) -> Columns:
    """Put the values of samples into columns; ``ReferenceDataError`` if columns differ."""
    columns = list(samples[0])
    for sample in samples:
        if list(sample) != columns:
            if sorted(sample) == sorted(columns):
                continue
            both = f"{', '.join(columns)} and {', '.join(sample)}"
            raise broken_file_error(name, f"holds samples with different columns: {both}")
    return {column: [sample[column] for sample in samples] for column in columns}


def _decode(data: bytes, column: str, where: str) -> object:
    ending = column.rpartition(".")[2].lower()
    try:
        if ending == "npy":
            return np.lib.format.read_array(io.BytesIO(data), allow_pickle=False)
        if ending == "npz":
            with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
                (only,) = arrays.files
                return arrays[only]
        if ending in NUMBERS:
            return np.int64(int(data))
        if ending == "json":
            return np.asarray(json.loads(data))
        if ending == "txt":
            return data.decode()
        if ending in IMAGES:
            return decode_image(data)
    except (ValueError, OSError, SyntaxError) as error:
        raise broken_file_error(where, f"cannot be read: {error}") from error
    return data


def decode_image(data: bytes) -> Array:
    """Return an image as uint8 [height, width, channels]; grey ones have one channel.

    Raises ``OSError`` if it is not an image, and ``UsageError`` if Pillow is not installed.
    """
    image = import_optional("PIL.Image").open(io.BytesIO(data))
    pixels = np.asarray(image if image.mode in ("L", "RGB") else image.convert("RGB"))
    return pixels[..., None] if pixels.ndim == 2 else pixels


FORMS["tar"] = TarPart


_LOCAL_HEADER = 30
"""Bytes of a member's header in a zip archive, before its name and extra field."""

_WINDOW = 16 << 20
"""Bytes of a file that are mapped at once, if samples are read in another order."""


@dataclass(frozen=True)
class Mapped:
    """An array in a file, which is mapped while it is read and no longer.

    Pages of a file that stays mapped count as memory of the process. ``start`` is in bytes.
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
        """Read rows, in ascending order, of no more than a window of the file at a time."""
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

    The files are .npy files by column, or one .npz file. With the option ``whole``, the file
    is one sample.
    """

    def __init__(self, spec: PartSpec) -> None:
        self._name, self._whole = spec.name, bool(spec.options.get("whole"))
        if spec.form == "npz":
            self._arrays = read_npz(spec.path, spec.name)
        else:
            self._arrays = {c: _map_npy(path) for c, path in spec.files.items()}
        shapes = {name: array.shape for name, array in self._arrays.items()}
        lengths = {name: shape[0] if shape else 1 for name, shape in shapes.items()}
        if not lengths:
            raise broken_file_error(spec.name, "holds no arrays")
        if not self._whole and len(set(lengths.values())) > 1:
            each = ", ".join(f"{name}: {length}" for name, length in lengths.items())
            raise broken_file_error(spec.name, f"holds arrays of different lengths ({each})")
        self.count = 1 if self._whole else next(iter(lengths.values()))

    def take(self, rows: Array) -> Columns:
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
        return self._name if self._whole else f"{self._name}[{row}]"


def read_npz(path: str, name: str) -> dict[str, Array | Mapped]:
    """Return the arrays of a .npz file; those that are not compressed are left there."""
    with _faults(name), zipfile.ZipFile(path) as archive:
        return {
            info.filename.removesuffix(".npy"): _member(archive, info, path)
            for info in archive.infolist()
        }


def npz_shapes(path: str, name: str) -> dict[str, tuple[int, ...]]:
    """Return the shapes of the arrays of a .npz file; nothing else is read."""
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


def _map_npy(path: str) -> Mapped:
    with _faults(Path(path).name), open(path, "rb") as file:
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


class ParquetPart:
    """A Parquet file, read by row groups; the last one read is kept."""

    def __init__(self, spec: PartSpec) -> None:
        parquet = import_optional("pyarrow.parquet")
        self._name = spec.name
        try:
            self._file = parquet.ParquetFile(spec.path)
            meta = self._file.metadata
            lengths = [meta.row_group(i).num_rows for i in range(meta.num_row_groups)]
        except (OSError, ValueError) as error:  # pyarrow's own are subclasses of these
            raise broken_file_error(
                spec.name, f"is not a complete Parquet file: {error}"
            ) from error
        self._starts = np.cumsum([0, *lengths])
        self.count = int(self._starts[-1])
        self._kept: tuple[int, Foreign] | None = None

    def take(self, rows: Array) -> Columns:
        places = np.searchsorted(self._starts, rows, side="right") - 1
        parts, order = [], []
        for number in np.unique(places):
            chosen = np.flatnonzero(places == number)
            order.append(chosen)
            local_rows = rows[chosen] - self._starts[number]
            parts.append(self._group(int(number)).take(local_rows))
        table = import_optional("pyarrow").concat_tables(parts)
        back = np.argsort(np.concatenate(order), kind="stable")
        table = table.take(back)
        names = table.column_names
        return {n: _values(table.column(n), f"{self._name}: column {n!r}") for n in names}

    def _group(self, number: int) -> Foreign:
        if self._kept is None or self._kept[0] != number:
            self._kept = None  # so that two groups are never in memory
            try:
                self._kept = (number, self._file.read_row_group(number, use_threads=False))
            except (OSError, ValueError) as error:
                raise broken_file_error(self._name, f"is damaged: {error}") from error
        return self._kept[1]

    def name(self, row: int) -> str:
        return f"{self._name}[{row}]"


def _values(column: Foreign, where: str) -> Foreign:
    """Return a column of pyarrow as numpy has it; lists become axes."""
    types = import_optional("pyarrow").types
    kind = column.type
    if types.is_struct(kind) and {"bytes", "path"} <= {f.name for f in kind}:
        # The form of images in Hugging Face data sets.
        cells = column.to_pylist()
        try:
            return [decode_image(cell["bytes"]) for cell in cells]
        except (OSError, TypeError) as error:
            raise broken_file_error(
                where, f"holds an image that cannot be read: {error}"
            ) from error
    if types.is_boolean(kind) or types.is_integer(kind) or types.is_floating(kind):
        if column.null_count:
            raise broken_file_error(where, f"holds {column.null_count} missing values")
        return column.to_numpy()
    if _is_list(kind):
        return _read_nested(column, where)
    if getattr(kind, "extension_name", "") == "arrow.fixed_shape_tensor":
        return column.combine_chunks().to_numpy_ndarray()
    return column.to_pylist()


def _read_nested(column: Foreign, where: str) -> Array | list[Array]:
    """Return lists as arrays; those of one shape become one array."""
    pyarrow = import_optional("pyarrow")
    values, shape, width = column.combine_chunks(), [len(column)], len(column)
    if isinstance(values, pyarrow.ChunkedArray):
        values = values.chunk(0)
    while _is_list(values.type):
        lengths = set(
            import_optional("pyarrow.compute").list_value_length(values).unique().to_pylist()
        )
        if len(lengths) != 1 or None in lengths:
            return _read_ragged(column, where)
        shape.append(lengths.pop())
        width *= shape[-1]
        values = values.flatten()
    if values.null_count or len(values) != width:
        raise broken_file_error(where, "holds missing values")
    array: Array = values.to_numpy(zero_copy_only=False).reshape(shape)
    return array


def _read_ragged(column: Foreign, where: str) -> list[Array]:
    leaf = column.type
    while _is_list(leaf):
        leaf = leaf.value_type
    try:
        dtype = leaf.to_pandas_dtype()
        return [np.asarray(cell, dtype) for cell in column.to_pylist()]
    except (TypeError, ValueError, NotImplementedError) as error:
        raise broken_file_error(where, f"holds lists that are not arrays: {error}") from error


def _is_list(kind: object) -> bool:
    types = import_optional("pyarrow").types
    return bool(
        types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)
    )


FORMS["parquet"] = ParquetPart


class TestDataPart:
    """One ``test_data_set_N`` folder: a sample of ``input_0.pb``, ``output_0.pb``, ..."""

    count = 1

    def __init__(self, spec: PartSpec) -> None:
        self._folder, self._name = Path(spec.path), spec.name
        inputs, outputs = spec.options["inputs"], spec.options["outputs"]
        self._files: dict[str, Path] = {}
        for word, names in (("input", inputs), ("output", outputs)):
            for path in sorted(self._folder.glob(f"{word}_*.pb")):
                number = re.fullmatch(rf"{word}_(\d+)", path.stem)
                if number is None or int(number[1]) >= len(names):
                    raise broken_file_error(
                        f"{self._name}/{path.name}", f"is not an {word} of the model"
                    )
                key = names[int(number[1])] if word == "input" else path.stem
                self._files[key] = path

    def take(self, rows: Array) -> Columns:
        del rows
        sample: PlainDict = {
            name: read_value(path, ir.Value(name=name)) for name, path in self._files.items()
        }
        return join([sample], self._name)

    def name(self, row: int) -> str:
        del row
        return self._name


class JsonPart:
    """Polygraphy's JSON: a list of feeds. The file is held in memory while it is open."""

    def __init__(self, spec: PartSpec) -> None:
        self._name = spec.name
        self._samples = read_samples(spec.path)
        self.count = len(self._samples)

    def take(self, rows: Array) -> Columns:
        return join([dict(self._samples[int(row)]) for row in rows], self._name)

    def name(self, row: int) -> str:
        return f"{self._name}[{row}]"


FORMS["test-data"] = TestDataPart
FORMS["json"] = JsonPart
