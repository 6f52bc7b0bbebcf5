"""Samples from Python: ``module:function`` gives a sequence of mappings, or an iterator."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from itertools import islice
from pathlib import Path

import numpy as np

from onnx_passes.arrays import Array
from onnx_passes.data.sources.archive import join
from onnx_passes.data.sources.part import FORMS, Columns, PartSpec, broken_file_error
from onnx_passes.errors import ReferenceDataError
from onnx_passes.plain import Foreign, PlainDict
from onnx_passes.verify.runs.user_functions import named_function

_SPOOL_SAMPLES = 256
_LOOKED_AT = 16


class SequencePart:
    """What a function returns that has a length and numbered samples.

    The function is called once in each process. It must return the same samples each time.
    """

    def __init__(self, spec: PartSpec) -> None:
        self._text = spec.path
        self._samples = call_once(self._text)
        if not is_sequence(self._samples):
            raise broken_file_error(
                self._text, "gave a sequence before, and gives an iterator now"
            )

    @property
    def count(self) -> int:
        """How many samples there are."""
        try:
            return len(self._samples)
        except Exception as error:  # whatever the sequence raises
            raise broken_file_error(
                f"len({self._text})", f"raised {type(error).__name__}: {error}"
            ) from error

    def take(self, rows: Array) -> Columns:
        """Read samples; see ``SourcePart.take``."""
        return join([self._sample(int(row)) for row in rows], self._text)

    def _sample(self, row: int) -> PlainDict:
        try:
            return as_sample(self._samples[row], self._text)
        except (ReferenceDataError, MemoryError, OSError):
            raise  # the last two may pass, so that the shard is tried again
        except Exception as error:  # whatever the sequence raises
            raise broken_file_error(
                f"{self._text}[{row}]", f"raised {type(error).__name__}: {error}"
            ) from error

    def name(self, row: int) -> str:
        """Return what a report calls a sample."""
        return f"{self._text}[{row}]"

    def digest(self) -> str:
        """Hash the length and some samples, evenly spaced: all of them may take hours."""
        content = hashlib.sha256(f"{self.count}".encode())
        some = np.linspace(0, self.count - 1, min(_LOOKED_AT, self.count))
        for row in np.unique(some.astype(int)):
            for name, value in self._sample(int(row)).items():
                content.update(f"{name} {value.dtype} {value.shape}".encode())
                content.update(np.ascontiguousarray(value).tobytes())
        return content.hexdigest()


@cache
def call_once(text: str) -> Foreign:
    """Call a function of the user's once in this process.

    Raises:
        UsageError: There is no such function.
        ReferenceDataError: It raises.
    """
    function: Callable[[], object] = named_function(text, "--data")
    try:
        return function()
    except (Exception, SystemExit) as error:  # whatever the function raises
        raise ReferenceDataError(
            f"--data {text} raised {type(error).__name__}: {error}",
            help="it is called without arguments, and gives mappings of columns to arrays",
        ) from error


def is_sequence(given: object) -> bool:
    """Whether samples can be read by number."""
    return hasattr(given, "__len__") and hasattr(given, "__getitem__")


def as_sample(given: object, text: str) -> dict[str, Array]:
    """Return a sample as arrays by column.

    Args:
        given: What the function gave: arrays or lists of any shape by column.
        text: The name of the function, for messages.

    Raises:
        ReferenceDataError: It is not a mapping.
    """
    if not isinstance(given, Mapping):
        raise broken_file_error(
            text,
            f"gives a sample of type {type(given).__name__}",
            "return or yield mappings of column names to arrays",
        )
    return {str(name): np.asarray(value) for name, value in given.items()}


def spool(samples: Iterable[object], text: str) -> Iterator[Path]:
    """Write what an iterator gives to .npz files in a temporary folder, in constant memory.

    Args:
        samples: Mappings, one for each sample.
        text: What gave them, for messages.

    Yields:
        The files. Samples of one file have equal shapes. The folder lasts as long as the
        process.

    Raises:
        ReferenceDataError: The iterator raised, or the disk is full.
    """
    folder = _spool_folder(text)
    number = 0
    stream = iter(samples)
    while group := _group(stream, text):
        for part in _by_shape(group):
            path = folder / f"{number:06d}.npz"
            try:
                np.savez(path, allow_pickle=False, **part)
            except (OSError, ValueError) as error:
                raise broken_file_error(
                    text, f"cannot be kept on disk: {error}", "set TMPDIR"
                ) from error
            number += 1
            yield path


_FOLDERS: list[tempfile.TemporaryDirectory[str]] = []


def _spool_folder(text: str) -> Path:
    try:
        folder = tempfile.TemporaryDirectory(prefix="onnx-passes-data-")
    except OSError as error:
        raise broken_file_error(
            text, f"cannot be kept on disk: {error}", "set TMPDIR"
        ) from error
    _FOLDERS.append(folder)
    return Path(folder.name)


def _group(stream: Iterator[object], text: str) -> list[dict[str, Array]]:
    try:
        return [as_sample(given, text) for given in islice(stream, _SPOOL_SAMPLES)]
    except ReferenceDataError:
        raise
    except Exception as error:  # whatever the iterator raises
        raise broken_file_error(text, f"raised {type(error).__name__}: {error}") from error


def _by_shape(group: list[dict[str, Array]]) -> Iterator[dict[str, Array]]:
    """Join neighbours of one shape."""
    start = 0
    forms = [{n: (v.dtype, v.shape) for n, v in sample.items()} for sample in group]
    for stop in range(1, len(group) + 1):
        if stop == len(group) or forms[stop] != forms[start]:
            run = group[start:stop]
            yield {name: np.stack([sample[name] for sample in run]) for name in run[0]}
            start = stop


FORMS["function"] = SequencePart
