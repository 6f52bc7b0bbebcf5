"""A planned data set as a worker reads it: shards of samples, as batches for a model."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from onnx_passes.arrays import Array
from onnx_passes.data.file_forms import FORMS, Column, Columns, PartSpec, SourcePart, join
from onnx_passes.data.input_binding import Binding, check_column
from onnx_passes.data.plan import ShardPlan, as_sample
from onnx_passes.errors import ReferenceDataError
from onnx_passes.optional import named_function
from onnx_passes.runtime.engine_base import Feeds


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
        text, done = str(self.plan.spec.prepare), []
        for place in range(len(rows)):
            sample = {name: values[place] for name, values in columns.items()}
            try:
                done.append(as_sample(prepare(sample), f"prepare {text}"))
            except (ReferenceDataError, MemoryError, OSError):
                raise  # the last two may pass, so that the shard is tried again
            except Exception as error:  # whatever the function raises
                raise ReferenceDataError(
                    f"prepare {text} raised {type(error).__name__}: {error}",
                    where=self.name(int(rows[place])),
                    help="it is called with a mapping of columns to values, and returns one",
                ) from error
        return join(done, f"prepare {text}")

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
