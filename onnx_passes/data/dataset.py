"""A planned data set as a worker reads it: shards of samples, as batches for a model."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from functools import cached_property

import numpy as np

from onnx_passes.arrays import Array
from onnx_passes.data.input_binding import check_column
from onnx_passes.data.plan import ShardPlan
from onnx_passes.data.shard import Shard
from onnx_passes.data.shuffled_order import Order
from onnx_passes.data.sources.archive import join
from onnx_passes.data.sources.function import as_sample
from onnx_passes.data.sources.part import FORMS, Columns, PartSpec, SourcePart
from onnx_passes.errors import ReferenceDataError
from onnx_passes.runtime.engine_base import Feeds
from onnx_passes.verify.runs.user_functions import named_function

OPEN_PARTS = 64
OPEN_BYTES = 256 << 20


class OpenParts:
    """The parts that were read last, kept open within a number and a size."""

    def __init__(self) -> None:
        self._open: OrderedDict[str, tuple[SourcePart, int]] = OrderedDict()

    def get(self, spec: PartSpec) -> SourcePart:
        """Return a part.

        Raises:
            ReferenceDataError: It cannot be read.
        """
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

    Args:
        plan: The plan.
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
        """Return the numbers of the samples at positions of the order, int64.

        Args:
            start: The first position.
            stop: The position after the last.
        """
        return self._order.rows(start, stop)

    def shard(self, number: int) -> Shard:
        """Read a shard.

        Raises:
            ReferenceDataError: Its data is damaged, or does not fit the model.
            OSError: It cannot be read.
        """
        return self.read(self._order.rows(*self.plan.range(number)))

    def sample(self, count: int) -> Shard:
        """Read some samples from all over the data set, the same ones each time.

        Args:
            count: How many, at most; rounded up to whole batches.

        Raises:
            ReferenceDataError: Their data is damaged, or does not fit the model.
            OSError: It cannot be read.
        """
        plan, size = self.plan, self.plan.binding.batch
        count = min(-(-count // size) * size, plan.used)
        places = np.sort(Order(plan.used, 0).rows(0, count))
        rows = [self.rows(int(place), int(place) + 1) for place in places]
        return self.read(np.concatenate(rows))

    def read(self, rows: Array) -> Shard:
        """Read samples by their numbers in the whole data set.

        Args:
            rows: Numbers of the samples, int64 of shape [samples].

        Raises:
            ReferenceDataError: Their data is damaged, or does not fit the model.
            OSError: It cannot be read.
        """
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
        """Read samples by their numbers in the whole data set.

        Args:
            rows: Their numbers, int64 of shape [samples].

        Raises:
            ReferenceDataError: The data is damaged.
        """
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
