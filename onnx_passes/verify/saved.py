"""Saved inputs and outputs: numpy's files, ONNX test data, and Polygraphy's JSON.

The JSON is that of Polygraphy 0.53.6, as its ``polygraphy.json.save_json`` writes it: a list
of feeds, or a ``RunResults`` of runners and their iterations. Nothing is unpickled.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir

from onnx_passes.arrays import Array
from onnx_passes.contracts.scores import kind_of, shape_text
from onnx_passes.errors import ReferenceDataError
from onnx_passes.model.save import pending
from onnx_passes.runtime.engine_base import did_you_mean
from onnx_passes.verify import datafiles
from onnx_passes.verify.saved_json import (
    MARK,
    Kind,
    Sample,
    data_error,
    json_of,
    numpy_bytes,
    read_json,
    tensor_of,
)


def read_samples(path: str | os.PathLike[str]) -> list[Sample]:
    """Read values by name, sample by sample; runners of ``RunResults`` follow one another.

    Args:
        path: A .npz, .npy, .pb or .json file, a ``test_data_set_N`` folder, or one of those.

    Raises:
        ReferenceDataError: It does not exist, or cannot be read as that.
    """
    full = datafiles.find(path, Path())
    if full.is_dir():
        sets = sorted(full.glob("test_data_set_*"), key=_number)
        return [_folder(one) for one in sets or [full]]
    if full.suffix == ".npz":
        return [
            {
                name: tensor_of(datafiles.adopt(array, full, ir.Value(name=name)), full)
                for name, array in datafiles.read_npz(full).items()
            }
        ]
    if full.suffix == ".json":
        return read_json(full)
    if full.suffix not in datafiles.SUFFIXES:
        known = ", ".join((*datafiles.SUFFIXES, ".json"))
        raise data_error(
            full, "is of no known form", f"known are {known} and folders of ONNX test data"
        )
    return [{_name(full): _value(full)}]


def runners_of(path: str | os.PathLike[str]) -> list[str]:
    """Return the runner of each sample of a file of ``RunResults``; none for other files.

    Raises:
        ReferenceDataError: The file cannot be read.
    """
    full = datafiles.find(path, Path())
    if full.suffix != ".json" or full.is_dir():
        return []
    try:
        root = json.loads(full.read_bytes())
        if not isinstance(root, dict) or root.get(MARK) != "RunResults":
            return []
        return [str(runner) for runner, steps in root["lst"] for _ in steps]
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise data_error(full, "is no complete RunResults", "save it again") from error


def write_samples(
    path: str | os.PathLike[str],
    samples: Sequence[Mapping[str, Array]],
    *,
    kind: Kind = "feeds",
    runner: str = "onnx-passes",
) -> None:
    """Write values in the form that the path's extension says; none is a test data folder.

    Args:
        path: A .npz, .npy or .json file, or a folder that gets ``test_data_set_N`` folders.
        samples: Values by name, of any shape and type; .npz and .npy hold one sample, .npy one
            value.
        kind: What .json and a folder say they are: feeds, or results of a runner.
        runner: The name of that runner.

    Raises:
        ReferenceDataError: The form cannot hold this, or the file cannot be written; what was
            there stays.
    """
    target = Path(path)
    try:
        _write(target, samples, kind, runner)
    except OSError as error:
        raise ReferenceDataError(
            f"the values cannot be written: {error.strerror or error}",
            where=str(target),
            help="choose a place in a folder that you may write to, with room for it",
        ) from error


def _write(
    target: Path, samples: Sequence[Mapping[str, Array]], kind: Kind, runner: str
) -> None:
    if target.suffix in (".npz", ".npy"):
        if len(samples) != 1:
            raise data_error(
                target, f"would have to hold {len(samples)} samples", "write .json"
            )
        _publish(target, numpy_bytes(target, samples[0]))
    elif target.suffix == ".json":
        _publish(target, json.dumps(json_of(target, samples, kind, runner), indent=1).encode())
    elif target.suffix:
        raise data_error(
            target, "has no known extension", "use .npz, .npy, .json, or a folder"
        )
    else:
        _test_data(target, samples, "output" if kind == "results" else "input")


def merge_samples(many: Sequence[Sequence[Mapping[str, Array]]]) -> list[Sample]:
    """Join the values of several files, sample by sample.

    Args:
        many: For each file its samples, values of any shape and type by name.

    Raises:
        ReferenceDataError: Numbers of samples differ, or two files hold different values of
            one name.
    """
    if len(counts := {len(samples) for samples in many}) != 1:
        raise ReferenceDataError(
            f"the files hold different numbers of samples: {sorted(counts)}",
            help="join samples with 'data concat' first",
        )
    merged: list[Sample] = []
    for parts in zip(*many, strict=True):
        sample: Sample = {}
        for name, array in (item for part in parts for item in part.items()):
            if name in sample and not _same(sample[name], array):
                raise ReferenceDataError(
                    f"two files hold different values of {name!r}",
                    help="choose values with --names, or join samples with 'data concat'",
                )
            sample[name] = array
        merged.append(sample)
    return merged


def select(samples: Sequence[Sample], names: Sequence[str]) -> list[Sample]:
    """Keep some values of each sample, in the order given.

    Args:
        samples: Values by name, one mapping a sample.
        names: Names of the values to keep.

    Raises:
        ReferenceDataError: A sample lacks one; the message suggests another.
    """
    for sample in samples:
        for name in names:
            if name not in sample:
                raise ReferenceDataError(
                    f"there is no value {name!r}", help=did_you_mean(name, sample)
                )
    return [{name: sample[name] for name in names} for sample in samples]


def _same(a: Array, b: Array) -> bool:
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    return bool(np.array_equal(a, b) if a.dtype == object else a.tobytes() == b.tobytes())


def _number(path: Path) -> int:
    digits = re.search(r"(\d+)$", path.stem)
    return int(digits[1]) if digits else -1


def _folder(folder: Path) -> Sample:
    files = sorted(folder.glob("*.pb"), key=lambda p: (p.stem.split("_")[0], _number(p)))
    if not files:
        raise data_error(folder, "holds no .pb files", "expected input_0.pb, output_0.pb, ...")
    sample: Sample = {}
    for file in files:
        if (name := _name(file)) in sample:
            name = file.stem
        sample[name] = _value(file)
    return sample


def _name(file: Path) -> str:
    proto = onnx.TensorProto()
    if file.suffix == ".pb":
        try:
            proto.ParseFromString(file.read_bytes())
        except (
            Exception
        ):  # protobuf's class has no types; reading the value says what is wrong
            return file.stem
    return proto.name or file.stem


def _value(file: Path) -> Array:
    return tensor_of(datafiles.read_value(file, ir.Value(name=file.stem)), file)


def _test_data(target: Path, samples: Sequence[Mapping[str, Array]], role: str) -> None:
    if target.exists() and (not target.is_dir() or any(target.glob("test_data_set_*"))):
        raise data_error(target, "is there already", "name a new folder")
    for index, sample in enumerate(samples):
        folder = target / f"test_data_set_{index}"
        folder.mkdir(parents=True)
        for place, (name, array) in enumerate(sample.items()):
            proto = onnx.numpy_helper.from_array(array, name)
            _publish(folder / f"{role}_{place}.pb", proto.SerializeToString())


def _publish(path: Path, content: bytes) -> None:
    with pending(path) as file:
        file.write(content)
        file.publish(path)


def describe(array: Array) -> str:
    """Write dtype and shape: ``float32[2,3]``."""
    kind = kind_of(array.dtype)
    return f"{'string' if kind == 'string' else array.dtype.name}{shape_text(array.shape)}"
