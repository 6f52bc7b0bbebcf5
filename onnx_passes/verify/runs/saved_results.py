"""Results that are saved, open again, and may be compared by other limits.

``.zip`` holds anything, is written and read value by value, and so knows no limit of size.
``.json`` is Polygraphy's ``RunResults`` (0.53), with what it has no place for beside it.
``.npz`` and a folder of ONNX test data hold the values of one run, and nothing of where they
came from.
"""

from __future__ import annotations

import base64
import json
import os
import zipfile
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from onnx_passes.arrays import Array
from onnx_passes.contracts.scores import kind_of
from onnx_passes.errors import ReferenceDataError, UsageError
from onnx_passes.model.save import Pending, pending
from onnx_passes.plain import Plain, PlainDict
from onnx_passes.runtime.engine_base import Data
from onnx_passes.verify.runs.found import SAVED, Found, Run
from onnx_passes.verify.runs.metadata import KEY, described, fault, metadata
from onnx_passes.verify.runs.spool import RecordedValues, Spool
from onnx_passes.verify.runs.user_functions import existing
from onnx_passes.verify.saved import read_samples, write_samples


def check_form(path: Path, runs: int) -> None:
    """Refuse a form that cannot hold results of so many runs, before there are any.

    Args:
        path: The file; its extension is the form.
        runs: How many runs are to be saved.

    Raises:
        UsageError: The extension is unknown, or the form holds one run.
    """
    if path.suffix not in (".json", ".zip", ".npz", ""):
        raise UsageError(
            f"--save-outputs {path}: results are not saved as {path.suffix}",
            help="use .zip (any size), .json (Polygraphy reads it too), .npz or a folder",
        )
    if path.suffix in (".npz", "") and runs != 1:
        raise UsageError(
            f"--save-outputs {path}: {path.suffix or 'a folder'} holds one run, not {runs}",
            help="use .zip or .json",
        )


def save_results(found: Found, path: Path) -> None:
    """Save the values of every run that has any; the file appears whole or not at all.

    Args:
        found: The comparison.
        path: The file; its extension is the form.

    Raises:
        UsageError: The form cannot hold them, or the file cannot be written.
        ReferenceDataError: The form has no such type of value.
    """
    runs = [run for run in found.runs if run.values is not None and run.compared]
    if not runs:
        raise UsageError("there are no results to save: no run was executed")
    check_form(path, len(runs))
    try:
        match path.suffix:
            case ".zip":
                with pending(path) as file:
                    write_zip(runs, found, file)
                    file.publish(path)
            case ".json":
                with pending(path) as file:
                    for text in _json(runs, found, path):
                        file.write(text.encode())
                    file.publish(path)
            case _:
                values = runs[0].values
                assert values is not None
                samples = [
                    {n: _tensor(v, n, path) for n, v in values.sample(index).items()}
                    for index in range(len(values))
                ]
                write_samples(path, samples, kind="results", runner=runs[0].name)
    except OSError as error:
        raise UsageError(
            f"the results cannot be written: {error.strerror or error}",
            where=str(path),
            help="nothing was left there; free some room, or name another folder",
        ) from error


def open_results(path: str | os.PathLike[str]) -> list[Run]:
    """Open saved results; values in .zip are read when they are looked at.

    Args:
        path: What ``save_results`` wrote, Polygraphy's ``RunResults``, or saved values.

    Returns:
        The runs, with their values.

    Raises:
        ReferenceDataError: There is nothing, or it cannot be read as that.
    """
    full = existing(path, "saved results")
    if full.suffix == ".zip":
        return open_zip(full)
    samples = [dict(sample) for sample in read_samples(full)]
    meta: Plain = {}
    counts = [(full.stem, len(samples))]
    if full.suffix == ".json":
        root = json.loads(full.read_bytes())
        meta = root.get(KEY, {}) if isinstance(root, dict) else {}
        if isinstance(root, dict):
            counts = [(str(name), len(steps)) for name, steps in root.get("lst", [])]
    runs = described(meta, full) if meta else [_unknown(name) for name, _ in counts]
    start = 0
    if len(runs) != len(counts):
        raise fault(full, f"describes {len(runs)} runs, and holds {len(counts)}")
    for run, (_, count) in zip(runs, counts, strict=True):
        values = Spool(1 << 62)
        for index, sample in enumerate(samples[start : start + count]):
            values.put(index, dict(sample))
        start += count
        run.values = values
        run.names = run.names or (values.names(0) if len(values) else [])
    return runs


def _unknown(name: str) -> Run:
    return Run(name, "unknown", "unknown", state=SAVED)


def _json(runs: list[Run], found: Found, path: Path) -> Iterator[str]:
    yield f'{{"{KEY}": {json.dumps(metadata(runs, found))},\n"lst": ['
    for place, run in enumerate(runs):
        values = run.values
        assert values is not None
        yield f"{', ' if place else ''}[{json.dumps(run.name)}, ["
        for sample in range(len(values)):
            yield f'{"," if sample else ""}\n{{"outputs": {{'
            for index, name in enumerate(values.names(sample)):
                yield f"{',' if index else ''}\n{json.dumps(name)}: "
                array = _tensor(values.get(sample, name), name, path)
                text = base64.b64encode(_npy(array, name, path)).decode()
                inner = {"array": text, "polygraphy_class": "ndarray"}
                yield json.dumps({"values": inner, "polygraphy_class": "LazyArray"})
            runtime = json.dumps(None if run.latency is None else run.latency.median)
            yield f'}}, "runtime": {runtime}, "runner_name": {json.dumps(run.name)}, '
            yield '"polygraphy_class": "IterationResult"}'
        yield "]]"
    yield '], "polygraphy_class": "RunResults"}\n'


def _tensor(value: Data, name: str, path: Path) -> Array:
    if isinstance(value, np.ndarray):
        return value
    raise ReferenceDataError(
        f"{path.suffix or 'a folder'} cannot hold {name!r}, which is no tensor",
        where=str(path),
        help="save as .zip, which holds anything",
    )


def _npy(array: Array, name: str, path: Path) -> bytes:
    plain = array.astype(np.str_) if kind_of(array.dtype) == "string" else array
    if plain.dtype.type.__module__ != "numpy":
        raise ReferenceDataError(
            f"{path.suffix} cannot hold {name!r}: numpy's files have no {array.dtype.name}",
            where=str(path),
            help="save as .zip, which holds anything",
        )
    out = BytesIO()
    np.save(out, plain, allow_pickle=False)
    return out.getvalue()


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
