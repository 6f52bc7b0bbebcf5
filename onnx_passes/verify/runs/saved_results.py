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
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

import numpy as np

from onnx_passes.arrays import Array
from onnx_passes.contracts.elements import kind_of
from onnx_passes.errors import ReferenceDataError, UsageError
from onnx_passes.model.atomic import pending
from onnx_passes.plain import Plain
from onnx_passes.runtime.engine_base import Data
from onnx_passes.verify.runs.found import SAVED, Found, Run
from onnx_passes.verify.runs.metadata import KEY, described, fault, metadata
from onnx_passes.verify.runs.spool import Spool
from onnx_passes.verify.runs.user_functions import existing
from onnx_passes.verify.runs.zipped import open_zip, write_zip
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
