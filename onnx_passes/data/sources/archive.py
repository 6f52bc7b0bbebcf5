"""Tar shards: the members of a sample share a name, and the ending says what each holds."""

from __future__ import annotations

import io
import json
import os
import tarfile

import numpy as np

from onnx_passes.arrays import Array
from onnx_passes.data.files import local
from onnx_passes.data.optional_libraries import import_optional
from onnx_passes.data.sources.part import FORMS, Columns, PartSpec, broken_file_error
from onnx_passes.plain import PlainDict

IMAGES = ("png", "jpg", "jpeg", "webp", "ppm", "bmp")
NUMBERS = ("cls", "cls2", "index", "inx", "id")


class TarPart:
    """A tar shard as WebDataset writes it: ``000.png``, ``000.cls``, ``001.png``, ...

    A column is the rest of a member's name after the first point. Its last ending says how it
    is read: .npy as an array, .npz as its only array, .cls and .id as an integer, .txt as
    text, .json as numbers. Images are uint8 [height, width, channels], all else is bytes.
    """

    def __init__(self, spec: PartSpec) -> None:
        self._path, self._name = local(spec.path), spec.name
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

    @property
    def count(self) -> int:
        """How many samples there are."""
        return len(self._keys)

    def take(self, rows: Array) -> Columns:
        """Read samples; see ``SourcePart.take``."""
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
        """Return what a report calls a sample."""
        return f"{self._name}:{self._keys[row]}"


def join(samples: list[PlainDict], name: str) -> Columns:
    """Put the values of samples into columns.

    Args:
        samples: The values of each sample by column.
        name: Name of the part, for messages.

    Raises:
        ReferenceDataError: Samples have different columns.
    """
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

    Raises:
        OSError: It is not an image.
        UsageError: Pillow is not installed.
    """
    image = import_optional("PIL.Image").open(io.BytesIO(data))
    pixels = np.asarray(image if image.mode in ("L", "RGB") else image.convert("RGB"))
    return pixels[..., None] if pixels.ndim == 2 else pixels


FORMS["tar"] = TarPart
