"""Reference data from the user's files, and whether it fits the inputs of a model.

Nothing is cast, broadcast or padded.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import onnx_ir as ir

from onnx_passes.arrays import Array
from onnx_passes.contracts.scores import blocks, dtype_name, kind_of, shape_text
from onnx_passes.errors import ReferenceDataError
from onnx_passes.runtime.engine_base import Data, Feeds, Outputs, did_you_mean
from onnx_passes.verify.saved import adopt, find, read_npz, read_value


def check_feeds(
    feeds: Feeds, model: ir.Model, files: Mapping[str, str], *, allow_nan: bool = False
) -> None:
    """Check one sample against the inputs of a model.

    ``files`` has the file of each value, for messages. ReferenceDataError means that a name,
    dtype, rank or size does not fit, that inputs disagree on a named dimension, or that there
    is a NaN.
    """
    inputs = {str(value.name): value for value in model.graph.inputs}
    for name in feeds:
        if name not in inputs:
            raise ReferenceDataError(
                f"the model has no input {name!r}",
                where=files.get(name),
                help=did_you_mean(name, inputs),
            )
    for name, value in inputs.items():
        if name not in feeds and not value.is_initializer():
            raise ReferenceDataError(
                f"there is no reference data for input {name!r}",
                where=next(iter(files.values()), None),
                help=f"given: {', '.join(feeds) or 'none'}; needed: {', '.join(inputs)}",
            )
    sizes: dict[str, tuple[int, str]] = {}
    for name, data in feeds.items():
        fit = _Fit(name, files.get(name, ""), inputs[name].shape, sizes)
        fit.check(data, inputs[name].type)
        if not allow_nan:
            fit.refuse_nan(data)


@dataclass(frozen=True)
class _Fit:
    """An input of one sample; ``sizes`` have the inputs that set named dimensions."""

    name: str
    file: str
    shape: ir.Shape | None
    sizes: dict[str, tuple[int, str]] = field(default_factory=dict)

    def check(
        self, data: Data, declared: ir.TypeProtocol | None, *, single: bool = True
    ) -> None:
        if isinstance(declared, ir.OptionalType):
            if data is None:
                return
            declared = declared.elem_type
        if isinstance(declared, ir.SequenceType):
            if not isinstance(data, list):
                raise self._misfit("is a sequence, and the file holds a tensor", _AS_PB)
            for item in data:
                self.check(item, declared.elem_type, single=False)
        elif not isinstance(data, np.ndarray):
            raise self._misfit("is a tensor, and the file holds something else", _AS_PB)
        else:
            self._check_dtype(data, declared)
            self._check_shape(data, single=single)

    def refuse_nan(self, data: Data) -> None:
        for array in _tensors(data):
            if kind_of(array.dtype) not in ("float", "complex"):
                continue
            for start, (block,) in blocks(array):
                if (nan := np.isnan(block)).any():
                    flat = start + int(nan.argmax())
                    index = tuple(int(i) for i in np.unravel_index(flat, array.shape))
                    raise self._misfit(
                        f"has a NaN in its reference data, at {shape_text(index)}",
                        "a NaN hides what a pass does to the rest; replace it, or set "
                        "reference.allow_nan: true if the model is meant to take it",
                    )

    def _check_dtype(self, array: Array, declared: ir.TypeProtocol | None) -> None:
        if declared is None or declared.dtype == ir.DataType.UNDEFINED:
            return
        given, needed = dtype_name(array.dtype), declared.dtype.numpy().name
        if declared.dtype == ir.DataType.STRING:
            needed = "string"
        if given == needed:
            return
        numpy_type = needed if hasattr(np, needed) else f"ml_dtypes.{needed}"
        how = (
            "save text: np.save(path, np.array(['...']))"
            if needed == "string"
            else f"convert it before it is saved: array.astype({_qualified(numpy_type)})"
        )
        raise self._misfit(f"is given {given}, and the model needs {needed}", how)

    def _check_shape(self, array: Array, *, single: bool) -> None:
        if self.shape is None:
            return
        given = f"is given shape {shape_text(array.shape)}, and the model needs {self.shape}"
        if array.ndim != len(self.shape):
            raise self._misfit(
                given,
                f"it has {array.ndim} axes, and needs {len(self.shape)}; no axis is added or "
                "broadcast: np.expand_dims(array, 0) adds one",
            )
        for axis, (size, dim) in enumerate(zip(array.shape, self.shape, strict=True)):
            if isinstance(dim, int):
                if dim != size:
                    raise self._misfit(given, f"axis {axis} is {size}, and must be {dim}")
            elif dim.value and single:
                known, by = self.sizes.setdefault(str(dim.value), (size, self.name))
                if known != size:
                    raise self._misfit(
                        given,
                        f"axis {axis} is {size}, and {dim.value!r} is {known} in input "
                        f"{by!r}; a dimension has one size in a sample. Where the model says "
                        "so by mistake: onnx-passes sanitize --override-input-shapes",
                    )

    def _misfit(self, what: str, help_: str) -> ReferenceDataError:
        return ReferenceDataError(
            f"input {self.name!r} {what}", where=self.file or None, help=help_
        )


_AS_PB = "store it with onnx.numpy_helper as .pb, in the type that the model declares"


def _qualified(name: str) -> str:
    return name if "." in name else f"np.{name}"


def _tensors(data: Data) -> Iterator[Array]:
    if isinstance(data, list):
        for item in data:
            yield from _tensors(item)
    elif data is not None:
        yield data


@dataclass(frozen=True)
class ReferenceData:
    """The data that models are compared on.

    ``samples`` is empty if none were given. ``expected`` has outputs or labels by output name,
    in the order of the outputs; None if none were given. ``source`` names the files, for a
    report.
    """

    samples: list[Feeds]
    expected: list[Outputs] | None
    source: str


@dataclass(frozen=True)
class _Read:
    """Values of all samples, and the files they came from, by name."""

    samples: list[dict[str, Data]]
    files: list[dict[str, str]]

    def split(self, counts: Sequence[int]) -> _Read:
        """Return as many samples in place of each as a number says."""
        pairs = list(zip(self.samples, self.files, counts, strict=True))
        return _Read(
            [part for sample, _, count in pairs for part in split_sample(sample, count)],
            [files for _, files, count in pairs for _ in range(count)],
        )


def count_samples(feeds: Feeds, model: ir.Model) -> int:
    """Return how many samples arrays hold along axis 0, where the model has a fixed size."""
    counts = set()
    for value in model.graph.inputs:
        array, shape = feeds.get(str(value.name)), value.shape
        if not isinstance(array, np.ndarray) or not shape or array.ndim != len(shape):
            continue
        wanted = shape[0]
        if isinstance(wanted, int) and 0 < wanted < len(array) and len(array) % wanted == 0:
            counts.add(len(array) // wanted)
    return counts.pop() if len(counts) == 1 else 1


def split_sample(sample: Mapping[str, Data], count: int) -> list[dict[str, Data]]:
    """Split the arrays of a sample along axis 0; others are in each part."""
    return [
        {name: _part(data, index, count) for name, data in sample.items()}
        for index in range(count)
    ]


def _part(data: Data, index: int, count: int) -> Data:
    if not isinstance(data, np.ndarray) or not data.ndim or len(data) % count:
        return data
    size = len(data) // count
    return data[index * size : (index + 1) * size] if size else data


def load_reference(
    spec: Mapping[str, object], model: ir.Model, base_dir: str | Path
) -> ReferenceData:
    """Load the files that the section ``reference`` of a pipeline names.

    ``inputs`` (or ``inp``) is one of

    - a mapping of input names to .npy, .npz or .pb files; a list of files under a name holds
      one for each sample;
    - a list of files in the order of the model's inputs, where those with an initializer may
      all be left out;
    - one .npz file that holds every input by name, or one file for the only input;
    - a folder of ONNX test data (``input_0.pb``, ``output_0.pb``), or one that holds such
      folders (``test_data_set_0``), each of them a sample. Its outputs are expected;
    - a folder of .npz files, or of .npy files for the only input, each of them a sample.

    ``outputs`` (or ``out``) takes the same forms, for outputs or labels; those of the last
    outputs may be left out. Arrays of several samples are split along axis 0 if the model has
    a fixed size there. Nothing is cast, broadcast or unpickled.

    Relative paths start from ``base_dir``; keys of generated data are ignored. A file that
    cannot be read, or does not fit the model, raises ReferenceDataError.
    """
    base = Path(base_dir)
    given, wanted = _key(spec, "inputs", "inp"), _key(spec, "outputs", "out")
    if given is None:
        if wanted is not None:
            raise ReferenceDataError(
                "reference.outputs (--labels) is given without reference.inputs (--inputs)",
                help="expected outputs belong to inputs; name the inputs' files as well",
            )
        return ReferenceData([], None, "")
    inputs = _Values("input", list(model.graph.inputs), base).read(given)
    counts = [count_samples(feeds, model) for feeds in inputs.samples]
    inputs = inputs.split(counts)
    for feeds, files in zip(inputs.samples, inputs.files, strict=True):
        check_feeds(feeds, model, files, allow_nan=spec.get("allow_nan") is True)
    if wanted is None and isinstance(given, str) and find(given, base).is_dir():
        wanted = given if _has_outputs(find(given, base)) else None
    outputs = None
    if wanted is not None:
        outputs = _Values("output", list(model.graph.outputs), base).read(wanted)
        if len(outputs.samples) == len(counts):
            outputs = outputs.split(counts)
        if len(outputs.samples) != len(inputs.samples):
            raise ReferenceDataError(
                f"there are {len(inputs.samples)} samples of inputs, and "
                f"{len(outputs.samples)} of outputs",
                where=_source(outputs),
                help="give one set of expected outputs for each set of inputs",
            )
    return ReferenceData(
        [*inputs.samples],
        None if outputs is None else _ordered(outputs, model),
        given if isinstance(given, str) else _source(inputs),
    )


class _Values:
    """The inputs, or the outputs."""

    def __init__(self, word: str, values: list[ir.Value], base: Path) -> None:
        self.word, self.base = word, base
        self.values = {str(value.name): value for value in values}
        self.required = [str(v.name) for v in values if not v.is_initializer()]

    def read(self, given: object) -> _Read:
        match given:
            case [] | "":
                pass
            case Mapping() if not given:
                pass
            case str():
                return self._one(find(given, self.base), given)
            case list() | tuple() if all(isinstance(item, str) for item in given):
                return self._single(self._in_order([find(str(p), self.base) for p in given]))
            case Mapping():
                return self._by_name(given)
        raise ReferenceDataError(
            f"reference.{self.word}s names no files: {given!r}",
            help="give a path, a list of paths, or a mapping of names to paths",
        )

    def _one(self, path: Path, given: str) -> _Read:
        if path.is_dir():
            return self._folders(path)
        if path.suffix != ".npz":
            return self._single(self._in_order([path]))
        arrays = read_npz(path)
        for name in arrays:
            if name not in self.values:
                raise ReferenceDataError(
                    f"the model has no {self.word} {name!r}, which {given!r} holds",
                    where=str(path),
                    help=did_you_mean(name, self.values)
                    + "; np.savez(path, name=array) saves an array under a name",
                )
        values = {name: adopt(a, path, self.values[name]) for name, a in arrays.items()}
        return _Read([values], [dict.fromkeys(values, str(path))])

    def _folders(self, folder: Path) -> _Read:
        arrays = sorted(p for p in folder.iterdir() if p.suffix in (".npy", ".npz"))
        if arrays:
            parts = [self._one(path, path.name) for path in arrays]
            return _Read(
                [s for p in parts for s in p.samples], [f for p in parts for f in p.files]
            )
        sets = [
            p for p in folder.iterdir() if p.is_dir() and p.name.startswith("test_data_set_")
        ]
        samples, files = [], []
        for sample in sorted(sets, key=_number) or [folder]:
            found = sorted(sample.glob(f"{self.word}_*.pb"), key=_number)
            if not found and (self.word == "output" or self.required):
                raise ReferenceDataError(
                    f"the folder holds no {self.word}_0.pb",
                    where=str(sample),
                    help="a folder holds .npz or .npy files, or input_0.pb, output_0.pb ..., "
                    "or folders test_data_set_0, ... of these",
                )
            if [_number(path) for path in found] != list(range(len(found))):
                raise ReferenceDataError(
                    f"{self.word}_*.pb are not numbered from 0 without gaps",
                    where=str(sample),
                    help=f"found: {', '.join(path.name for path in found)}",
                )
            read = self._single(self._in_order(found))
            samples += read.samples
            files += read.files
        return _Read(samples, files)

    def _in_order(self, paths: Sequence[Path]) -> dict[str, Path]:
        """Give files to inputs by position: to all, or to those without an initializer."""
        names = list(self.values)
        if self.word == "input" and len(paths) == len(self.required):
            names = self.required
        if len(paths) > len(names) or (self.word == "input" and len(paths) < len(names)):
            raise ReferenceDataError(
                f"{len(paths)} files are given for {len(names)} {self.word}s",
                where=str(paths[0]) if paths else None,
                help=f"the model's {self.word}s, in order, are {', '.join(names) or 'none'}; "
                "several samples are a list of files under each name",
            )
        return dict(zip(names, paths, strict=False))

    def _by_name(self, given: Mapping[object, object]) -> _Read:
        lists: dict[str, list[str]] = {}
        for name, paths in given.items():
            if name not in self.values:
                raise ReferenceDataError(
                    f"the model has no {self.word} {name!r}",
                    help=did_you_mean(str(name), self.values),
                )
            many = list(paths) if isinstance(paths, list | tuple) else [paths]
            if not many or not all(isinstance(path, str) for path in many):
                raise ReferenceDataError(
                    f"the reference data of {self.word} {name!r} is no path",
                    help="give a path, or a list of paths, one for each sample",
                )
            lists[str(name)] = [str(path) for path in many]
        counts = {name: len(paths) for name, paths in lists.items()}
        if len(set(counts.values())) > 1:
            raise ReferenceDataError(
                f"the {self.word}s have different numbers of samples",
                help=", ".join(f"{name}: {count}" for name, count in counts.items()),
            )
        samples, files = [], []
        for index in range(max(counts.values(), default=0)):
            read = self._single(
                {n: find(paths[index], self.base) for n, paths in lists.items()}
            )
            samples += read.samples
            files += read.files
        return _Read(samples, files)

    def _single(self, paths: Mapping[str, Path]) -> _Read:
        values = {name: read_value(path, self.values[name]) for name, path in paths.items()}
        return _Read([values], [{name: str(path) for name, path in paths.items()}])


def _key(spec: Mapping[str, object], *names: str) -> object:
    return next((spec[name] for name in names if spec.get(name) is not None), None)


def _number(path: Path) -> int:
    match = re.search(r"(\d+)$", path.stem)
    return int(match[1]) if match else -1


def _has_outputs(folder: Path) -> bool:
    return any(folder.glob("output_*.pb")) or any(folder.glob("test_data_set_*/output_*.pb"))


def _ordered(outputs: _Read, model: ir.Model) -> list[Outputs]:
    names = [str(value.name) for value in model.graph.outputs]
    return [{n: sample[n] for n in names if n in sample} for sample in outputs.samples]


def _source(read: _Read) -> str:
    names = list(dict.fromkeys(Path(f).name for sample in read.files for f in sample.values()))
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(names[:3]) + more
