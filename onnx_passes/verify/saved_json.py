"""Samples in the JSON of Polygraphy, and arrays in the form of numpy."""

from __future__ import annotations

import base64
import binascii
import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, TypeAlias

import numpy as np
import onnx_ir as ir

from onnx_passes.arrays import Array
from onnx_passes.contracts.scores import kind_of
from onnx_passes.errors import ReferenceDataError
from onnx_passes.plain import Plain
from onnx_passes.verify import datafiles

Sample: TypeAlias = dict[str, Array]
Kind: TypeAlias = Literal["feeds", "results"]
MARK = "polygraphy_class"


def tensor_of(data: Plain, file: Path) -> Array:
    """Return an array as it is; raise for what is not one.

    Args:
        data: What was read.
        file: Where it is from, for messages.

    Raises:
        ReferenceDataError: It is a sequence or an optional.
    """
    if not isinstance(data, np.ndarray):
        raise data_error(file, "holds no tensor", "sequences and optionals are not supported")
    return data


def read_json(path: Path) -> list[Sample]:
    """Read samples from JSON.

    Args:
        path: The file.

    Raises:
        ReferenceDataError: It holds no samples.
    """
    try:
        root = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise data_error(path, f"is no JSON: {error}", "save it again") from error
    if isinstance(root, dict) and root.get(MARK) == "RunResults":
        try:
            found = [step["outputs"] for _, steps in root["lst"] for step in steps]
        except (KeyError, TypeError, ValueError) as error:
            raise data_error(path, "is no complete RunResults", "save it again") from error
    else:
        found = root if isinstance(root, list) else [root]
    if not found or not all(isinstance(one, dict) and MARK not in one for one in found):
        raise data_error(
            path, "holds neither feeds nor results", "a run's report is shown by 'report'"
        )
    return [{name: _decoded(item, name, path) for name, item in one.items()} for one in found]


def _decoded(item: Plain, name: str, path: Path) -> Array:
    if isinstance(item, dict) and item.get(MARK) == "LazyArray":
        item = item.get("values")
    if isinstance(item, dict) and item.get(MARK) == "Tensor":
        raise data_error(path, f"holds {name!r} as a PyTorch tensor", "save numpy arrays")
    if not isinstance(item, dict) or item.get(MARK) != "ndarray":
        raise data_error(path, f"holds no array as {name!r}", "feeds map names to arrays")
    try:
        raw = io.BytesIO(base64.b64decode(item["array"], validate=True))
        array = np.load(raw, allow_pickle=False)
    except (KeyError, TypeError, ValueError, EOFError, OSError, binascii.Error) as error:
        if "pickle" in str(error):
            # numpy's message says how to load it all the same.
            what = f"holds Python objects as {name!r}, or no array; pickles are never loaded"
            raise data_error(path, what, "save arrays of numbers or of text") from error
        raise data_error(
            path, f"cannot be read at {name!r}: {error}", "save it again"
        ) from error
    return tensor_of(datafiles.adopt(array, path, ir.Value(name=name)), path)


def _npy(path: Path, name: str, array: Array) -> bytes:
    plain = array.astype(np.str_) if kind_of(array.dtype) == "string" else array
    # numpy writes the types of ml_dtypes without their names, and cannot read them back.
    if plain.dtype.type.__module__ != "numpy":
        raise data_error(
            path,
            f"cannot hold {name!r}: numpy's files have no {array.dtype.name}",
            "convert to a folder of ONNX test data, which has every type",
        )
    out = io.BytesIO()
    np.save(out, plain, allow_pickle=False)
    return out.getvalue()


def numpy_bytes(path: Path, sample: Mapping[str, Array]) -> bytes:
    """Return a sample as the bytes of .npy or .npz.

    Args:
        path: The file, whose suffix says which.
        sample: Arrays of any shape and dtype, by name.
    """
    if path.suffix == ".npy":
        if len(sample) != 1:
            raise data_error(path, f"would have to hold {len(sample)} values", "write .npz")
        return _npy(path, *next(iter(sample.items())))
    import zipfile

    out = io.BytesIO()
    # Not np.savez: it takes no value that is called file, or allow_pickle.
    with zipfile.ZipFile(out, "w") as archive:
        for name, array in sample.items():
            archive.writestr(f"{name}.npy", _npy(path, name, array))
    return out.getvalue()


def json_of(
    path: Path, samples: Sequence[Mapping[str, Array]], kind: Kind, runner: str
) -> Plain:
    """Return samples as plain data for JSON.

    Args:
        path: The file, for messages.
        samples: Arrays of any shape and dtype by name, one mapping a sample.
        kind: What they are.
        runner: Name of the run that gave results.
    """
    feeds = [
        {
            name: {
                "array": base64.b64encode(_npy(path, name, array)).decode(),
                MARK: "ndarray",
            }
            for name, array in sample.items()
        }
        for sample in samples
    ]
    if kind == "feeds":
        return feeds
    steps = [
        {
            "outputs": {n: {"values": a, MARK: "LazyArray"} for n, a in feed.items()},
            "runtime": None,
            "runner_name": runner,
            MARK: "IterationResult",
        }
        for feed in feeds
    ]
    return {"lst": [[runner, steps]], MARK: "RunResults"}


def data_error(path: Path, what: str, help_: str) -> ReferenceDataError:
    """Return an error of a file.

    Args:
        path: The file.
        what: What is wrong with it.
        help_: What to do.
    """
    return ReferenceDataError(f"{path.name!r} {what}", where=str(path), help=help_)
