"""Values of many samples, in memory up to a limit, beyond it in a temporary file."""

from __future__ import annotations

import tempfile
import weakref
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from io import BufferedRandom
from typing import Protocol

import numpy as np

from onnx_passes.arrays import Array, DType
from onnx_passes.contracts.scores import kind_of
from onnx_passes.errors import UsageError
from onnx_passes.runtime.engine_base import Data


@dataclass(frozen=True)
class _Place:
    """Where an array lies in the file.

    Attributes:
        offset: Its first byte.
        dtype: Its element type.
        shape: Its shape.
    """

    offset: int
    dtype: DType
    shape: tuple[int, ...]


class RecordedValues(Protocol):
    """Values by sample and name, in the order of a run."""

    def __len__(self) -> int: ...
    def names(self, sample: int) -> list[str]:
        """Return the names of a sample's values."""
        ...

    def get(self, sample: int, name: str) -> Data:
        """Return a value.

        Args:
            sample: Number of the sample.
            name: Name of the value.
        """
        ...

    def sample(self, sample: int) -> dict[str, Data]:
        """Return all values of a sample."""
        ...


class Spool:
    """Values by sample and name, in the order they were put in.

    Args:
        limit: Bytes kept in memory; more goes to a temporary file without a name, which is
            gone when the process ends. Strings, sequences and optionals stay in memory.
    """

    def __init__(self, limit: int) -> None:
        self._limit, self._held, self._end = limit, 0, 0
        self._samples: list[dict[str, Data | _Place]] = []
        self._file: BufferedRandom | None = None
        self._stack = ExitStack()
        weakref.finalize(self, self._stack.close)

    def __len__(self) -> int:
        return len(self._samples)

    @property
    def on_disk(self) -> int:
        """Bytes in the temporary file."""
        return self._end

    def names(self, sample: int) -> list[str]:
        """Return the names of a sample's values."""
        return list(self._samples[sample])

    def put(self, sample: int, values: Mapping[str, Data]) -> None:
        """Add values to a sample.

        Args:
            sample: Number of the sample.
            values: Values by name.

        Raises:
            UsageError: They do not fit in memory, nor in the temporary folder.
        """
        while len(self._samples) <= sample:
            self._samples.append({})
        for name, value in values.items():
            self._samples[sample][name] = self._stored(value)

    def get(self, sample: int, name: str) -> Data:
        """Return a value; one on disk is read anew each time.

        Args:
            sample: Number of the sample.
            name: Name of the value.

        Raises:
            KeyError: There is none.
        """
        found = self._samples[sample][name]
        if not isinstance(found, _Place):
            return found
        assert self._file is not None
        raw = np.empty(found.dtype.itemsize * int(np.prod(found.shape, dtype=int)), np.uint8)
        self._file.seek(found.offset)
        self._file.readinto(raw.data)
        array: Array = raw.view(found.dtype).reshape(found.shape)
        return array

    def sample(self, sample: int) -> dict[str, Data]:
        """Return all values of a sample."""
        return {name: self.get(sample, name) for name in self._samples[sample]}

    def __iter__(self) -> Iterator[dict[str, Data]]:
        return (self.sample(index) for index in range(len(self)))

    def _stored(self, value: Data) -> Data | _Place:
        if not isinstance(value, np.ndarray) or kind_of(value.dtype) == "string":
            return value
        if not value.nbytes or self._held + value.nbytes <= self._limit:
            self._held += value.nbytes
            # An engine's array may keep all the memory of its session alive.
            return value if value.flags.owndata else value.copy()
        flat = np.ascontiguousarray(value).reshape(-1)
        place = _Place(self._end, value.dtype, value.shape)
        try:
            if self._file is None:
                self._file = self._stack.enter_context(_scratch())
            self._file.seek(self._end)
            self._file.write(flat.view(np.uint8).data)
        except OSError as error:
            raise UsageError(
                "values are more than the memory limit, and cannot be kept in the temporary "
                f"folder: {error.strerror}",
                where=tempfile.gettempdir(),
                help="raise --memory-limit, ask for fewer --outputs, or set TMPDIR to a "
                "folder with room",
            ) from error
        self._end += value.nbytes
        return place


def _scratch() -> BufferedRandom:
    return tempfile.TemporaryFile(prefix="onnx-passes-")
