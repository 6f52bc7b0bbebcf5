"""Saved inputs and outputs: numpy's files, ONNX test data, and Polygraphy's JSON.

Nothing is unpickled.
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
from onnx import numpy_helper

from onnx_passes.arrays import Array
from onnx_passes.contracts.scores import dtype_name, kind_of, shape_text
from onnx_passes.errors import ReferenceDataError
from onnx_passes.model.formats import closest_file_name
from onnx_passes.model.save import pending
from onnx_passes.plain import Plain
from onnx_passes.runtime.engine_base import Data, did_you_mean

Proto: TypeAlias = onnx.TensorProto | onnx.SequenceProto | onnx.OptionalProto

SUFFIXES = (".npy", ".npz", ".pb")


def find(path: str | os.PathLike[str], base_dir: Path) -> Path:
    """Return a path that exists; else ReferenceDataError suggests one beside it."""
    full = base_dir / Path(path).expanduser()
    if full.exists():
        return full
    near = closest_file_name(full)
    from_file = base_dir != Path() and not Path(path).is_absolute()
    rule = "paths are relative to the folder of the pipeline file" if from_file else ""
    raise ReferenceDataError(
        f"reference data {str(path)!r} does not exist",
        where=str(full),
        help=f"{f'did you mean {near!r}? ' if near else ''}{rule}".strip() or "check the path",
    )


def read_value(path: Path, value: ir.Value) -> Data:
    """Read what one file holds for one input or output.

    Formats are .npy, .npz with one array or one of the value's name, and .pb with the proto of
    the value's type. Bytes that numpy saved without their type, as those of ``ml_dtypes``, get
    the value's. A file that is not one of these raises ReferenceDataError.
    """
    if path.suffix == ".pb":
        return _normal(_read_pb(path, value.type), path, value)
    if path.suffix == ".npz":
        arrays = read_npz(path)
        name = value.name if value.name in arrays else next(iter(arrays), None)
        if name is None or (name != value.name and len(arrays) > 1):
            raise _broken(
                path,
                f"holds {len(arrays)} arrays, none of them named {value.name!r}",
                did_you_mean(value.name or "", arrays),
            )
        array = arrays[name]
    else:
        array = _read_npy(path)
    return _normal(array, path, value)


def adopt(array: Array, path: Path, value: ir.Value) -> Data:
    """Bring an array of a .npz file into the form that engines take."""
    return _normal(array, path, value)


def read_npz(path: Path) -> dict[str, Array]:
    """Read all arrays of a .npz file, in their order."""
    loaded = _load(path)
    if not isinstance(loaded, dict):
        raise _broken(path, "is no .npz file, but a single array", "name it .npy")
    return loaded


def _read_npy(path: Path) -> Array:
    if path.suffix != ".npy":
        known = f"known are {', '.join(SUFFIXES)} and folders of ONNX test data"
        raise _broken(path, "is of no known format", known)
    loaded = _load(path)
    if isinstance(loaded, dict):
        raise _broken(path, "is no .npy file, but an archive of arrays", "name it .npz")
    return loaded


def _load(path: Path) -> Array | dict[str, Array]:
    try:
        # Opened here, because np.load leaves a broken archive open.
        with path.open("rb") as file:
            loaded = np.load(file, allow_pickle=False)
            if isinstance(loaded, np.lib.npyio.NpzFile):
                return {name: loaded[name] for name in loaded.files}
            array: Array = loaded
            return array
    except Exception as error:  # of a broken file: those of zip, zlib, tokenize and more
        raise _unreadable(path, error) from error


def _read_pb(path: Path, type_: ir.TypeProtocol | None) -> Any:
    proto: Proto = onnx.TensorProto()
    read: Any = numpy_helper.to_array
    if isinstance(type_, ir.OptionalType):
        proto, read = onnx.OptionalProto(), numpy_helper.to_optional
    elif isinstance(type_, ir.SequenceType):
        proto, read = onnx.SequenceProto(), numpy_helper.to_list
    kind = type(proto).__name__
    external = False
    try:
        proto.ParseFromString(path.read_bytes())
        external = isinstance(proto, onnx.TensorProto) and bool(proto.external_data)
        if not external:
            return read(proto)
    except Exception as error:  # protobuf's own error class comes without types
        raise _broken(
            path,
            f"cannot be read as a {kind}: {_one_line(error)}",
            f"write it with onnx.numpy_helper and {kind}.SerializeToString()",
        ) from error
    raise _broken(
        path, "keeps its data in another file", "save the tensor with its data inside"
    )


def _normal(data: Any, path: Path, value: ir.Value) -> Data:
    """Use native byte order, text as str, and the types of ``ml_dtypes`` under their names."""
    if data is None:
        return None
    if isinstance(data, list):
        return [_normal(item, path, value) for item in data]
    array = np.asarray(data)
    dtype = array.dtype
    if dtype.kind == "V" and dtype.fields is None and kind_of(dtype) == "other":
        declared = value.dtype
        if declared is None or declared.numpy().itemsize != dtype.itemsize:
            raise _broken(
                path,
                f"holds elements of {dtype.itemsize} bytes without a type",
                "numpy drops types such as bfloat16 and int4; store a TensorProto (.pb)",
            )
        return array.view(declared.numpy())
    if kind_of(dtype) == "string":
        return _text(array, path)
    if kind_of(dtype) == "other":
        raise _broken(path, f"holds {dtype_name(dtype)} elements", "ONNX has no such type")
    return array if dtype.isnative else array.astype(dtype.newbyteorder("="))


def _text(array: Array, path: Path) -> Array:
    items = [x.decode() if isinstance(x, bytes) else x for x in array.reshape(-1).tolist()]
    if not all(isinstance(item, str) for item in items):
        raise _broken(path, "holds Python objects", "save an array of numbers or of text")
    text = np.empty(len(items), object)
    text[:] = items
    return text.reshape(array.shape)


def _unreadable(path: Path, error: Exception) -> ReferenceDataError:
    text = _one_line(error)
    if "pickle" in text:
        return _broken(
            path,
            "holds Python objects, or is no numpy file; pickled data is never loaded",
            "save an array of numbers or of text: np.save(path, array, allow_pickle=False)",
        )
    if "not a valid dtype" in text:
        return _broken(
            path,
            "is of a type that numpy writes and cannot read back",
            "store it as a TensorProto (.pb): onnx.numpy_helper.from_array(array)",
        )
    return _broken(path, f"cannot be read: {text}", "save it again with np.save or np.savez")


def _broken(path: Path, what: str, help_: str) -> ReferenceDataError:
    return ReferenceDataError(
        f"reference data {path.name!r} {what}", where=str(path), help=help_
    )


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__


Sample: TypeAlias = dict[str, Array]
Kind: TypeAlias = Literal["feeds", "results"]
MARK = "polygraphy_class"


def tensor_of(data: Plain, file: Path) -> Array:
    """Return an array as it is; raise ReferenceDataError for a sequence or optional."""
    if not isinstance(data, np.ndarray):
        raise data_error(file, "holds no tensor", "sequences and optionals are not supported")
    return data


def read_json(path: Path) -> list[Sample]:
    """Read samples from JSON; without samples, raise ReferenceDataError."""
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
    return tensor_of(adopt(array, path, ir.Value(name=name)), path)


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
    """Return a sample as the bytes of .npy or .npz, by the suffix of ``path``."""
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
    """Return samples as plain data for JSON; ``runner`` is the run that gave results."""
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
    """Return an error of a file."""
    return ReferenceDataError(f"{path.name!r} {what}", where=str(path), help=help_)


def read_samples(path: str | os.PathLike[str]) -> list[Sample]:
    """Read values by name, sample by sample; runners of ``RunResults`` follow one another.

    A path is a .npz, .npy, .pb or .json file, a ``test_data_set_N`` folder, or a folder of
    those. Others raise ReferenceDataError.
    """
    full = find(path, Path())
    if full.is_dir():
        sets = sorted(full.glob("test_data_set_*"), key=_number)
        return [_folder(one) for one in sets or [full]]
    if full.suffix == ".npz":
        return [
            {
                name: tensor_of(adopt(array, full, ir.Value(name=name)), full)
                for name, array in read_npz(full).items()
            }
        ]
    if full.suffix == ".json":
        return read_json(full)
    if full.suffix not in SUFFIXES:
        known = ", ".join((*SUFFIXES, ".json"))
        raise data_error(
            full, "is of no known form", f"known are {known} and folders of ONNX test data"
        )
    return [{_name(full): _value(full)}]


def runners_of(path: str | os.PathLike[str]) -> list[str]:
    """Return the runner of each sample of a file of ``RunResults``; none for other files."""
    full = find(path, Path())
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

    .npz and .npy hold one sample, .npy one value. ``kind`` and ``runner`` are for .json and
    folders. If the form cannot hold this, or the file cannot be written, ReferenceDataError is
    raised, and what was there stays.
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

    ReferenceDataError if numbers of samples differ, or if two files hold different values of
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
    """Keep values of each sample, in order; ReferenceDataError if a sample lacks one."""
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
    return tensor_of(read_value(file, ir.Value(name=file.stem)), file)


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
