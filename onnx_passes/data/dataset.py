"""A data set: its plan, and what a worker reads, which is shards of samples in batches.

A plan finds parts by a path, a pattern or a function, chooses samples and their order, and
cuts shards.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache, cached_property
from pathlib import Path

import numpy as np

from onnx_passes.arrays import Array
from onnx_passes.configs.data_spec import EARLY_SAMPLES, SHARD_BYTES, SHARD_SAMPLES, DataSpec
from onnx_passes.data import file_forms
from onnx_passes.data.file_forms import (
    AGAIN,
    FORMS,
    Column,
    Columns,
    PartSpec,
    SourcePart,
    TarPart,
    broken_file_error,
    join,
)
from onnx_passes.data.input_binding import Binding, DataInterface, bind, check_column
from onnx_passes.errors import ReferenceDataError
from onnx_passes.optional import named_function, users_call
from onnx_passes.plain import Foreign, PlainDict
from onnx_passes.runtime.engine_base import Feeds

_LOOKED_AT = 16
_PREPARES = "it is called with a mapping of columns to values, and returns one"
_MAY_PASS = (MemoryError, OSError)
"""Faults behind which a shard is tried again."""


class SequencePart:
    """What a function returns that has a length and numbered samples.

    The function is called once in each process. It must return the same samples each time.
    """

    def __init__(self, spec: PartSpec) -> None:
        self._text = spec.path
        self._samples = call_once(self._text)

    @property
    def count(self) -> int:
        with users_call(f"data 'len({self._text})'", ReferenceDataError, AGAIN):
            return len(self._samples)

    def take(self, rows: Array) -> Columns:
        return join([self._sample(int(row)) for row in rows], self._text)

    def _sample(self, row: int) -> PlainDict:
        what = f"data {self.name(row)!r}"
        with users_call(what, ReferenceDataError, AGAIN, let=_MAY_PASS):
            return as_sample(self._samples[row], self._text)

    def name(self, row: int) -> str:
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
    """Call a function of the user's once in this process; return its samples by number.

    Raises ``UsageError`` if there is none, and ``ReferenceDataError`` if it raises, or gives
    no samples.
    """
    function: Callable[[], Foreign] = named_function(text, "--data")
    how = "it is called without arguments, and gives mappings of columns to arrays"
    with users_call(f"--data {text}", ReferenceDataError, how):
        given = function()
        if hasattr(given, "__len__") and hasattr(given, "__getitem__"):
            return given
        if isinstance(given, Iterable):
            return list(given)
    raise ReferenceDataError(
        f"--data {text} gives {type(given).__name__}, which is not an iterable",
        help="return a sequence of mappings, or yield them",
    )


def as_sample(given: object, text: str) -> dict[str, Array]:
    """Return a sample as arrays by column; ``ReferenceDataError`` if it is not a mapping."""
    if not isinstance(given, Mapping):
        raise broken_file_error(
            text,
            f"gives a sample of type {type(given).__name__}",
            "return or yield mappings of column names to arrays",
        )
    return {str(name): np.asarray(value) for name, value in given.items()}


FORMS["function"] = SequencePart


FORM_OF = {".npy": "npy", ".npz": "npz", ".tar": "tar", ".json": "json", ".parquet": "parquet"}
_FUNCTION = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")
_FORMS = (file_forms.ArrayPart, file_forms.JsonPart, file_forms.ParquetPart, TarPart)
"""Imported, so that their forms are known."""


def discover(spec: DataSpec, interface: DataInterface) -> Iterator[PartSpec]:
    """Yield the parts of a data set in order. Their counts are not known yet.

    The interface says whether an archive is one sample. Raises ``ReferenceDataError`` if there
    is no data, of no known form, or of several forms.
    """
    if spec.named:
        yield from _find_named(spec)
        return
    columns: list[str] = []
    for source in spec.sources:
        if _is_function(source, spec.base):
            yield PartSpec("function", {"": source}, source)
            continue
        paths = file_forms.expand(source, spec.base)
        folders = [path for path in paths if os.path.isdir(path)]
        for folder in folders:
            yield from _folder(Path(folder), spec, interface)
        rest = [path for path in paths if path not in folders]
        if rest and all(Path(path).suffix == ".npy" for path in rest):
            columns += rest  # columns of one table may be named one by one
        else:
            yield from _files(rest, source, spec, interface)
    if columns:
        yield from _columns(columns)


def _is_function(source: str, base: str) -> bool:
    there = os.path.exists(Path(base) / Path(source).expanduser())
    return bool(_FUNCTION.fullmatch(source)) and not there


def _folder(folder: Path, spec: DataSpec, interface: DataInterface) -> Iterator[PartSpec]:
    sets = sorted(
        (p for p in folder.glob("test_data_set_*") if p.is_dir()),
        key=lambda p: _number(p.name),
    )
    if not sets and any(folder.glob("input_*.pb")):
        sets = [folder]
    if sets:
        options = {"inputs": interface.names, "outputs": interface.outputs}
        for one in sets:
            yield PartSpec("test-data", {"": str(one)}, one.name, options=options)
        return
    found = sorted(
        str(p) for p in folder.rglob("*") if p.suffix in FORM_OF and not p.name.startswith(".")
    )
    if not found:
        raise ReferenceDataError(
            f"the folder {folder} holds no data",
            help=f"known are {', '.join(FORM_OF)}, and folders of ONNX test data; images are "
            "read from a .tar",
        )
    yield from _files(found, str(folder), spec, interface)


def _files(
    paths: list[str], source: str, spec: DataSpec, interface: DataInterface
) -> Iterator[PartSpec]:
    forms = {path: FORM_OF.get(Path(path).suffix, "") for path in paths}
    if strange := [path for path, form in forms.items() if not form]:
        raise ReferenceDataError(
            f"data {Path(strange[0]).name!r} is of no known form",
            where=strange[0],
            help=f"known are {', '.join(FORM_OF)}",
        )
    if len(set(forms.values())) > 1:
        raise ReferenceDataError(
            f"{source} holds files of several forms: {', '.join(sorted(set(forms.values())))}",
            help="name those that are meant with a pattern, such as data/*.npz",
        )
    if set(forms.values()) == {"npy"}:
        yield from _columns(paths)
        return
    common = os.path.commonpath([os.path.dirname(path) for path in paths]) if paths else ""
    for path in paths:
        name = os.path.relpath(path, common)
        part = PartSpec(forms[path], {"": path}, name)
        if part.form == "npz" and (whole := _is_whole(part, spec, interface)):
            part = replace(part, options={"whole": whole})
        yield part


def _is_whole(part: PartSpec, spec: DataSpec, interface: DataInterface) -> bool:
    """Whether a .npz file is one sample: its arrays lack the axis of samples."""
    try:
        shapes = file_forms.npz_shapes(part.path, part.name)
    except ReferenceDataError:
        return False  # it is reported as broken when it is opened
    for name, rank in interface.ranks.items():
        shape = shapes.get(spec.columns.get(name, name))
        if shape is not None and rank is not None:
            return len(shape) < rank
    return len({shape[:1] for shape in shapes.values()}) > 1


def _columns(paths: list[str]) -> Iterator[PartSpec]:
    """Group .npy files: ``images-0.npy`` and ``labels-0.npy`` are columns of one part."""
    parts: dict[tuple[str, str], dict[str, str]] = {}
    for path in paths:
        match = re.fullmatch(r"(.*?)[-_.]?(\d*)", Path(path).stem)
        assert match is not None
        column, number = match[1] or "data", match[2]
        parts.setdefault((os.path.dirname(path), number), {})[column] = path
    for (_, number), by_column in parts.items():
        name = Path(next(iter(by_column.values()))).name
        yield PartSpec("npy", by_column, name, options={"number": number})


def _find_named(spec: DataSpec) -> Iterator[PartSpec]:
    found = {column: file_forms.expand(text, spec.base) for column, text in spec.named.items()}
    counts = {column: len(paths) for column, paths in found.items()}
    if len(set(counts.values())) > 1:
        raise ReferenceDataError(
            "columns have different numbers of files",
            help=", ".join(f"{column}: {count}" for column, count in counts.items()),
        )
    for paths in zip(*found.values(), strict=True):
        if other := [path for path in paths if Path(path).suffix != ".npy"]:
            raise ReferenceDataError(
                f"{Path(other[0]).name!r} is no .npy file",
                help="a mapping of columns names .npy files; other forms hold their columns",
            )
        by_column = dict(zip(found, paths, strict=True))
        yield PartSpec("npy", by_column, Path(paths[0]).name)


def _number(name: str) -> int:
    match = re.search(r"(\d+)$", name)
    return int(match[1]) if match else -1


@dataclass(frozen=True)
class Broken:
    """A part that cannot be read, so that the number of its samples is unknown."""

    name: str
    reason: str


@dataclass(frozen=True)
class ShardPlan:
    """A data set whose samples are counted and divided into shards.

    It depends on the content of the data alone: not on folders, times or workers. ``shard`` is
    the number of samples in each shard but the last. ``broken`` parts cannot be read.
    """

    spec: DataSpec
    parts: tuple[PartSpec, ...]
    broken: tuple[Broken, ...]
    interface: DataInterface
    binding: Binding
    shard: int

    @cached_property
    def total(self) -> int:
        """Number of samples in the data set."""
        return sum(part.count for part in self.parts)

    @cached_property
    def used(self) -> int:
        """Number of samples that are evaluated."""
        return self.spec.selected(self.total)

    @property
    def shards(self) -> int:
        """Number of shards."""
        return math.ceil(self.used / self.shard)

    def range(self, shard: int) -> tuple[int, int]:
        """Return the first position of a shard in the order, and the one after its last."""
        return shard * self.shard, min((shard + 1) * self.shard, self.used)

    @cached_property
    def digest(self) -> str:
        """Hash of all that decides which samples are in which shard, and how they are fed."""
        spec = self.spec
        key = {
            "parts": [[part.form, part.count, part.digest] for part in self.parts],
            "order": [spec.shuffle, spec.limit, self.shard],
            "binding": asdict(self.binding),
            "prepare": spec.prepare,
            "allow_nan": spec.allow_nan,
        }
        return hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()[:32]


def make_plan(spec: DataSpec, interface: DataInterface) -> ShardPlan:
    """Find the data, count and hash it, and decide how it is fed.

    Raises ``ReferenceDataError`` if there is no data, or its first sample does not fit the
    model. Raises ``UsageError`` if a library that the data needs is not installed.
    """
    parts: list[PartSpec] = []
    broken: list[Broken] = []
    way = "check what --data names"
    taken: Columns | None = None
    for found in discover(spec, interface):
        try:
            part = FORMS[found.form](found)
            counted = _count(found, part)
            if taken is None and counted.count:
                taken = part.take(np.array([0]))
        except ReferenceDataError as error:
            way = way if broken else error.help or way
            broken.append(Broken(found.name, error.message))
        except OSError as error:
            broken.append(Broken(found.name, f"cannot be read: {error.strerror or error}"))
        except MemoryError:
            broken.append(Broken(found.name, "cannot be read: it does not fit into memory"))
        else:
            parts.append(counted)
    if taken is None:
        raise ReferenceDataError(
            f"no part of the data set can be read: {broken[0].reason}"
            if broken
            else "the data set has no samples",
            help=way,
        )
    first = _prepare(taken, spec)
    binding = bind(spec, interface, first)
    for name, column in binding.columns.items():
        # What does not fit from the first sample on is an error of usage, not of a shard.
        sample = [first[column][0]]
        check_column(
            name, sample, interface, binding, lambda _: "the first sample", allow_nan=True
        )
    return ShardPlan(
        spec, tuple(parts), tuple(broken), interface, binding, _shard(spec, parts, binding)
    )


def _count(spec: PartSpec, part: SourcePart) -> PartSpec:
    if isinstance(part, SequencePart):
        return replace(spec, count=part.count, digest=part.digest())
    digests = {column: file_forms.digest(path) for column, path in spec.files.items()}
    content = hashlib.sha256(json.dumps(digests, sort_keys=True).encode()).hexdigest()
    size = sum(map(_size, spec.files.values()))
    absolute = {c: os.path.abspath(p) for c, p in spec.files.items()}
    return replace(spec, files=absolute, count=part.count, size=size, digest=content)


def _size(path: str) -> int:
    root = Path(path)
    if root.is_dir():
        return sum(p.stat().st_size for p in root.rglob("*") if p.is_file())
    return root.stat().st_size


def _prepare(columns: Columns, spec: DataSpec) -> Columns:
    if spec.prepare is None:
        return columns
    function = named_function(spec.prepare, "prepare")
    sample = {name: values[0] for name, values in columns.items()}
    with users_call(f"prepare {spec.prepare}", ReferenceDataError, _PREPARES):
        done = as_sample(function(sample), f"prepare {spec.prepare}")
    return {name: [value] for name, value in done.items()}


def _shard(spec: DataSpec, parts: list[PartSpec], binding: Binding) -> int:
    """Return the samples of a shard: as the user says, or by the bytes of a sample."""
    wanted = spec.shard
    if wanted is None:
        total = sum(part.count for part in parts)
        mean = max(1, sum(part.size for part in parts) // max(1, total))
        most = EARLY_SAMPLES if spec.early else SHARD_SAMPLES
        wanted = max(1, min(most, SHARD_BYTES // mean))
    return math.ceil(wanted / binding.batch) * binding.batch


class Order:
    """A permutation of ``0 .. count - 1``, the same for a seed with any version of numpy.

    Without a seed, the numbers come in ascending order.
    """

    def __init__(self, count: int, seed: int | None) -> None:
        self._numbers: Array | None = None
        if seed is not None:
            bits = np.random.MT19937(np.random.SeedSequence(seed))
            self._numbers = np.random.RandomState(bits).permutation(count)

    def rows(self, start: int, stop: int) -> Array:
        """Return the numbers at positions ``start`` up to ``stop``, as int64."""
        if self._numbers is None:
            return np.arange(start, stop)
        return self._numbers[start:stop]


@dataclass(frozen=True)
class Batches:
    """Neighbours that are fed one after the other.

    ``start`` is the place of the first sample in the shard. At the end of each batch,
    ``filled`` samples are repeated to fill a fixed size.
    """

    feeds: Sequence[Feeds]
    start: int
    size: int
    filled: int = 0

    @property
    def stop(self) -> int:
        """The place after the last sample."""
        return self.start + len(self.feeds) * self.size


@dataclass(frozen=True)
class Shard:
    """The samples of a shard.

    ``rows`` are their numbers in the whole data set, int64 [n]. Methods raise
    ``ReferenceDataError`` if samples of one batch differ in type or shape.
    """

    rows: Array
    labels: Column | None
    fed: Mapping[str, Column]
    binding: Binding

    def batches(self, most: Callable[[], int] = lambda: 1) -> Iterator[Batches]:
        """Yield what a model is run on; ``most`` returns how many batches are wanted next."""
        start = 0
        if self.binding.stacked and all(
            isinstance(values, np.ndarray) for values in self.fed.values()
        ):
            start = len(self.rows) - len(self.rows) % self.binding.batch
            yield from self._cut(start, most)
        while start < len(self.rows):
            batch = self._batch(start, self._stop(start))
            yield batch
            start = batch.stop

    def _cut(self, whole: int, most: Callable[[], int]) -> Iterator[Batches]:
        """Yield whole batches of arrays."""
        # To slice an array takes as long as much of a small model's run; iterating one that
        # was cut once does not.
        size, place = self.binding.batch, 0
        cut = [
            values[:whole].reshape(-1, size, *values.shape[1:])
            for values in self.fed.values()
            if isinstance(values, np.ndarray)
        ]
        while place * size < whole:
            stop = place + most()
            views = zip(*(values[place:stop] for values in cut), strict=True)
            feeds = [dict(zip(self.fed, each, strict=False)) for each in views]
            yield Batches(feeds, place * size, size)
            place += len(feeds)

    def _stop(self, start: int) -> int:
        """Return where a batch ends: where it is full, or a sample has another shape."""
        size = self.binding.batch
        stop = min(start - start % size + size, len(self.rows))
        lists = [values for values in self.fed.values() if isinstance(values, list)]
        for place in range(start + 1, stop):
            if any(np.shape(v[place]) != np.shape(v[start]) for v in lists):
                return place
        return stop

    def _batch(self, start: int, stop: int) -> Batches:
        size = stop - start
        if not self.binding.stacked:
            feeds = {name: np.asarray(values[start]) for name, values in self.fed.items()}
            return Batches([feeds], start, size)
        feeds = {n: _stack(values[start:stop], n) for n, values in self.fed.items()}
        missing = self.binding.batch - size if self.binding.fixed else 0
        if missing:
            feeds = {
                n: np.concatenate([v, v[-1:].repeat(missing, 0)]) for n, v in feeds.items()
            }
        return Batches([feeds], start, size, missing)

    def labels_of(self, start: int, stop: int) -> Array | None:
        """Return the labels of samples, with the axis of samples first; None without."""
        return None if self.labels is None else _stack(self.labels[start:stop], "labels")


def _stack(values: Array | Sequence[object], name: str) -> Array:
    if isinstance(values, np.ndarray):
        return values
    items = [np.asarray(value) for value in values]
    if len({(item.dtype, item.shape) for item in items}) > 1:
        raise ReferenceDataError(
            f"samples of {name!r} have different types or shapes in one batch",
            help="use batch 1, or give them one shape and type",
        )
    return np.stack(items)


OPEN_PARTS = 64
OPEN_BYTES = 256 << 20


class OpenParts:
    """The parts that were read last, kept open within a number and a size."""

    def __init__(self) -> None:
        self._open: OrderedDict[str, tuple[SourcePart, int]] = OrderedDict()

    def get(self, spec: PartSpec) -> SourcePart:
        """Return a part; raise ``ReferenceDataError`` if it cannot be read."""
        key = f"{spec.form} {spec.path}"
        if key in self._open:
            self._open.move_to_end(key)
            return self._open[key][0]
        part = FORMS[spec.form](spec)
        self._open[key] = part, spec.size
        while len(self._open) > 1 and (
            len(self._open) > OPEN_PARTS
            or sum(size for _, size in self._open.values()) > OPEN_BYTES
        ):
            self._open.popitem(last=False)
        return part


class DataSet:
    """Reads shards of a plan.

    Methods that read raise ``OSError``, or ``ReferenceDataError`` if data is damaged or does
    not fit the model.
    """

    def __init__(self, plan: ShardPlan) -> None:
        self.plan = plan
        self._order = Order(plan.total, plan.spec.shuffle)
        self._starts = np.cumsum([0, *(part.count for part in plan.parts)])
        self._parts = OpenParts()

    @cached_property
    def _prepare(self) -> Callable[..., object] | None:
        text = self.plan.spec.prepare
        return None if text is None else named_function(text, "prepare")

    def rows(self, start: int, stop: int) -> Array:
        """Return the numbers of the samples at positions of the order, int64."""
        return self._order.rows(start, stop)

    def shard(self, number: int) -> Shard:
        """Read a shard."""
        return self.read(self._order.rows(*self.plan.range(number)))

    def read(self, rows: Array) -> Shard:
        """Read samples by their numbers in the whole data set."""
        columns = self.take(rows)
        binding = self.plan.binding
        for column in (*binding.columns.values(), binding.labels):
            if column is not None and column not in columns:
                raise ReferenceDataError(
                    f"there is no column {column!r}",
                    where=self.name(int(rows[0])),
                    help="store the same columns in all files",
                )
        labels = None if binding.labels is None else columns[binding.labels]
        fed = {name: columns[column] for name, column in binding.columns.items()}
        for name, values in fed.items():
            check_column(
                name,
                values,
                self.plan.interface,
                binding,
                lambda place: self.name(int(rows[place])),
                allow_nan=self.plan.spec.allow_nan,
            )
        return Shard(rows, labels, fed, binding)

    def take(self, rows: Array) -> Columns:
        """Read samples by their numbers in the whole data set."""
        places = np.searchsorted(self._starts, rows, side="right") - 1
        numbers = np.unique(places)
        if len(numbers) == 1:
            columns = self._part(int(numbers[0])).take(rows - self._starts[numbers[0]])
        else:
            groups = [np.flatnonzero(places == number) for number in numbers]
            taken = [
                self._part(int(number)).take(rows[group] - self._starts[number])
                for number, group in zip(numbers, groups, strict=True)
            ]
            names = [self.plan.parts[int(number)].name for number in numbers]
            columns = _reorder(taken, groups, names, len(rows))
        prepare = self._prepare
        return columns if prepare is None else self._apply(prepare, columns, rows)

    def _apply(self, prepare: Callable[..., object], columns: Columns, rows: Array) -> Columns:
        what, done = f"prepare {self.plan.spec.prepare}", []
        for place in range(len(rows)):
            sample = {name: values[place] for name, values in columns.items()}
            where = self.name(int(rows[place]))
            with users_call(what, ReferenceDataError, _PREPARES, where=where, let=_MAY_PASS):
                done.append(as_sample(prepare(sample), what))
        return join(done, what)

    def feeds(self, row: int) -> Feeds:
        """Return what a model is run on for one sample, by its number."""
        columns = self.take(np.array([row]))
        binding = self.plan.binding
        found = {n: np.asarray(columns[c][0]) for n, c in binding.columns.items()}
        if not binding.stacked:
            return found
        size = binding.batch if binding.fixed else 1
        return {n: np.repeat(v[None], size, 0) for n, v in found.items()}

    def name(self, row: int) -> str:
        """Return what a report calls a sample, by its number in the whole data set."""
        number = int(np.searchsorted(self._starts, row, side="right")) - 1
        return self._part(number).name(row - int(self._starts[number]))

    def _part(self, number: int) -> SourcePart:
        return self._parts.get(self.plan.parts[number])


def _reorder(
    taken: list[Columns], groups: list[Array], parts: list[str], count: int
) -> Columns:
    """Put what several parts gave into the order that was asked for."""
    first = sorted(taken[0])
    for part, columns in zip(parts, taken, strict=True):
        if sorted(columns) != first:
            raise ReferenceDataError(
                f"parts of the data have different columns: {parts[0]} has "
                f"{', '.join(taken[0])}, and {part} has {', '.join(columns)}",
                help="store the same columns in all files",
            )
    found: Columns = {}
    for name in taken[0]:
        pieces = [columns[name] for columns in taken]
        arrays = [piece for piece in pieces if isinstance(piece, np.ndarray)]
        forms = {(array.dtype, array.shape[1:]) for array in arrays}
        if len(arrays) == len(pieces) and len(forms) == 1:
            whole = np.empty((count, *arrays[0].shape[1:]), arrays[0].dtype)
            for group, array in zip(groups, arrays, strict=True):
                whole[group] = array
            found[name] = whole
            continue
        items: list[object] = [None] * count
        for group, piece in zip(groups, pieces, strict=True):
            for place, item in zip(group, piece, strict=True):
                items[place] = item
        found[name] = items
    return found
