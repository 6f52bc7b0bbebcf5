"""Results in a .zip: any type of value, written and read one at a time."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from onnx_passes.arrays import Array
from onnx_passes.contracts.elements import kind_of
from onnx_passes.model.atomic import Pending
from onnx_passes.plain import Plain, PlainDict
from onnx_passes.runtime.engine_base import Data
from onnx_passes.verify.runs.found import Found, Run
from onnx_passes.verify.runs.metadata import KEY, described, fault, metadata
from onnx_passes.verify.runs.spool import RecordedValues

_INDEX = "index.json"


def write_zip(runs: list[Run], found: Found, file: Pending) -> None:
    """Write runs with their values.

    Args:
        runs: The runs.
        found: The comparison, for digests of the inputs.
        file: The file, which appears when it is complete.

    Raises:
        OSError: There is no room.
    """
    members: list[list[PlainDict]] = []
    with zipfile.ZipFile(file.stream, "w") as archive:
        for place, run in enumerate(runs):
            values = run.values
            assert values is not None
            samples: list[PlainDict] = []
            for sample in range(len(values)):
                names = values.names(sample)
                samples.append(
                    {
                        name: _add(archive, f"{place}/{sample}/{i}", values.get(sample, name))
                        for i, name in enumerate(names)
                    }
                )
            members.append(samples)
        index = {KEY: metadata(runs, found), "values": members}
        archive.writestr(_INDEX, json.dumps(index))


def _add(archive: zipfile.ZipFile, member: str, value: Data) -> Any:
    if isinstance(value, list):
        return [_add(archive, f"{member}-{i}", item) for i, item in enumerate(value)]
    if value is None:
        return None
    if kind_of(value.dtype) == "string":
        archive.writestr(
            member, json.dumps([_text(item) for item in value.reshape(-1).tolist()])
        )
        return {"dtype": "string", "shape": value.shape, "member": member}
    flat = np.ascontiguousarray(value, value.dtype.newbyteorder("<")).reshape(-1)
    with archive.open(member, "w", force_zip64=True) as stream:
        stream.write(flat.view(np.uint8).data)
    return {"dtype": value.dtype.name, "shape": value.shape, "member": member}


def _text(item: object) -> str:
    return item.decode("utf-8", "surrogateescape") if isinstance(item, bytes) else str(item)


class ZipValues:
    """Values in a .zip, read when they are looked at.

    Args:
        path: The file.
        samples: Where each value lies, by sample and name.
    """

    def __init__(self, path: Path, samples: list[PlainDict]) -> None:
        self._path, self._samples = path, samples

    def __len__(self) -> int:
        return len(self._samples)

    def names(self, sample: int) -> list[str]:
        """Return the names of a sample's values."""
        return list(self._samples[sample])

    def get(self, sample: int, name: str) -> Data:
        """Read a value.

        Args:
            sample: Number of the sample.
            name: Name of the value.

        Raises:
            ReferenceDataError: The file is damaged.
        """
        try:
            with zipfile.ZipFile(self._path) as archive:
                return _value(archive, self._samples[sample][name])
        except (OSError, ValueError, TypeError, KeyError, zipfile.BadZipFile) as error:
            raise fault(self._path, f"cannot be read at {name!r}: {error}") from error

    def sample(self, sample: int) -> dict[str, Data]:
        """Read all values of a sample."""
        return {name: self.get(sample, name) for name in self._samples[sample]}


def _value(archive: zipfile.ZipFile, told: Plain) -> Data:
    if told is None:
        return None
    if isinstance(told, list):
        return [_value(archive, item) for item in told]
    raw, shape = archive.read(told["member"]), tuple(told["shape"])
    if told["dtype"] == "string":
        text = np.empty(len(items := json.loads(raw)), object)
        text[:] = items
        return text.reshape(shape)
    name = str(told["dtype"])
    dtype = np.dtype(getattr(ml_dtypes, name, name))
    array: Array = np.frombuffer(raw, dtype).reshape(shape)
    return array


def open_zip(path: Path) -> list[Run]:
    """Open runs; their values are read when they are looked at.

    Raises:
        ReferenceDataError: It holds no results, or is damaged.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            index = json.loads(archive.read(_INDEX))
        pairs = list(zip(described(index[KEY], path), index["values"], strict=True))
    except (OSError, ValueError, TypeError, KeyError, zipfile.BadZipFile) as error:
        raise fault(path, f"holds no results: {error}") from error
    for run, samples in pairs:
        values: RecordedValues = ZipValues(path, samples)
        run.values = values
    return [run for run, _ in pairs]
