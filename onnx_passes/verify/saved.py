"""Saved inputs and outputs: numpy's files, ONNX test data, and Polygraphy's JSON.

The JSON is that of Polygraphy 0.53.6, as its ``polygraphy.json.save_json`` writes it: a list
of feeds, or a ``RunResults`` of runners and their iterations. Nothing is unpickled.
"""

from __future__ import annotations

import base64
import binascii
import io
import json
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
import onnx
import onnx_ir as ir

from onnx_passes.contracts.elements import Array, kind_of, shape_text
from onnx_passes.errors import ReferenceDataError
from onnx_passes.model.atomic import pending
from onnx_passes.runtime.interface import did_you_mean
from onnx_passes.verify import datafiles

Sample: TypeAlias = dict[str, Array]
Kind: TypeAlias = Literal["feeds", "results"]
_MARK = "polygraphy_class"


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
                name: _tensor(datafiles.adopt(array, full, ir.Value(name=name)), full)
                for name, array in datafiles.read_npz(full).items()
            }
        ]
    if full.suffix == ".json":
        return _json(full)
    if full.suffix not in datafiles.SUFFIXES:
        known = ", ".join((*datafiles.SUFFIXES, ".json"))
        raise _fault(
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
        if not isinstance(root, dict) or root.get(_MARK) != "RunResults":
            return []
        return [str(runner) for runner, steps in root["lst"] for _ in steps]
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise _fault(full, "is no complete RunResults", "save it again") from error


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
            raise _fault(target, f"would have to hold {len(samples)} samples", "write .json")
        _publish(target, _numpy(target, samples[0]))
    elif target.suffix == ".json":
        _publish(
            target, json.dumps(_encoded(target, samples, kind, runner), indent=1).encode()
        )
    elif target.suffix:
        raise _fault(target, "has no known extension", "use .npz, .npy, .json, or a folder")
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
        raise _fault(folder, "holds no .pb files", "expected input_0.pb, output_0.pb, ...")
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
    return _tensor(datafiles.read_value(file, ir.Value(name=file.stem)), file)


def _tensor(data: Any, file: Path) -> Array:
    if not isinstance(data, np.ndarray):
        raise _fault(file, "holds no tensor", "sequences and optionals are not supported")
    return data


def _json(path: Path) -> list[Sample]:
    try:
        root = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise _fault(path, f"is no JSON: {error}", "save it again") from error
    if isinstance(root, dict) and root.get(_MARK) == "RunResults":
        try:
            found = [step["outputs"] for _, steps in root["lst"] for step in steps]
        except (KeyError, TypeError, ValueError) as error:
            raise _fault(path, "is no complete RunResults", "save it again") from error
    else:
        found = root if isinstance(root, list) else [root]
    if not found or not all(isinstance(one, dict) and _MARK not in one for one in found):
        raise _fault(
            path, "holds neither feeds nor results", "a run's report is shown by 'report'"
        )
    return [{name: _decoded(item, name, path) for name, item in one.items()} for one in found]


def _decoded(item: Any, name: str, path: Path) -> Array:
    if isinstance(item, dict) and item.get(_MARK) == "LazyArray":
        item = item.get("values")
    if isinstance(item, dict) and item.get(_MARK) == "Tensor":
        raise _fault(path, f"holds {name!r} as a PyTorch tensor", "save numpy arrays")
    if not isinstance(item, dict) or item.get(_MARK) != "ndarray":
        raise _fault(path, f"holds no array as {name!r}", "feeds map names to arrays")
    try:
        raw = io.BytesIO(base64.b64decode(item["array"], validate=True))
        array = np.load(raw, allow_pickle=False)
    except (KeyError, TypeError, ValueError, EOFError, OSError, binascii.Error) as error:
        if "pickle" in str(error):
            # numpy's message says how to load it all the same.
            what = f"holds Python objects as {name!r}, or no array; pickles are never loaded"
            raise _fault(path, what, "save arrays of numbers or of text") from error
        raise _fault(path, f"cannot be read at {name!r}: {error}", "save it again") from error
    return _tensor(datafiles.adopt(array, path, ir.Value(name=name)), path)


def _npy(path: Path, name: str, array: Array) -> bytes:
    plain = array.astype(np.str_) if kind_of(array.dtype) == "string" else array
    # numpy writes the types of ml_dtypes without their names, and cannot read them back.
    if plain.dtype.type.__module__ != "numpy":
        raise _fault(
            path,
            f"cannot hold {name!r}: numpy's files have no {array.dtype.name}",
            "convert to a folder of ONNX test data, which has every type",
        )
    out = io.BytesIO()
    np.save(out, plain, allow_pickle=False)
    return out.getvalue()


def _numpy(path: Path, sample: Mapping[str, Array]) -> bytes:
    if path.suffix == ".npy":
        if len(sample) != 1:
            raise _fault(path, f"would have to hold {len(sample)} values", "write .npz")
        return _npy(path, *next(iter(sample.items())))
    import zipfile

    out = io.BytesIO()
    # Not np.savez: it takes no value that is called file, or allow_pickle.
    with zipfile.ZipFile(out, "w") as archive:
        for name, array in sample.items():
            archive.writestr(f"{name}.npy", _npy(path, name, array))
    return out.getvalue()


def _encoded(
    path: Path, samples: Sequence[Mapping[str, Array]], kind: Kind, runner: str
) -> Any:
    feeds = [
        {
            name: {
                "array": base64.b64encode(_npy(path, name, array)).decode(),
                _MARK: "ndarray",
            }
            for name, array in sample.items()
        }
        for sample in samples
    ]
    if kind == "feeds":
        return feeds
    steps = [
        {
            "outputs": {n: {"values": a, _MARK: "LazyArray"} for n, a in feed.items()},
            "runtime": None,
            "runner_name": runner,
            _MARK: "IterationResult",
        }
        for feed in feeds
    ]
    return {"lst": [[runner, steps]], _MARK: "RunResults"}


def _test_data(target: Path, samples: Sequence[Mapping[str, Array]], role: str) -> None:
    if target.exists() and (not target.is_dir() or any(target.glob("test_data_set_*"))):
        raise _fault(target, "is there already", "name a new folder")
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


def _fault(path: Path, what: str, help_: str) -> ReferenceDataError:
    return ReferenceDataError(f"{path.name!r} {what}", where=str(path), help=help_)


def describe(array: Array) -> str:
    """Write dtype and shape: ``float32[2,3]``."""
    kind = kind_of(array.dtype)
    return f"{'string' if kind == 'string' else array.dtype.name}{shape_text(array.shape)}"
