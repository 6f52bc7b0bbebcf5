"""The samples of a shard, as batches for a model."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from onnx_passes.arrays import Array
from onnx_passes.data.input_binding import Binding
from onnx_passes.data.sources.part import Column
from onnx_passes.errors import ReferenceDataError
from onnx_passes.runtime.engine_base import Feeds


@dataclass(frozen=True)
class Batches:
    """Neighbours that are fed one after the other.

    Attributes:
        feeds: Values by input name, for each batch.
        start: Place of the first sample in the shard.
        size: Samples in each batch.
        filled: How many samples were repeated at the end of each to fill a fixed batch.
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

    Attributes:
        rows: Their numbers in the whole data set, int64 [n].
        labels: Their labels, one for each sample; None without.
        fed: Their values by input name.
        binding: How they are fed.
    """

    rows: Array
    labels: Column | None
    fed: Mapping[str, Column]
    binding: Binding

    def batches(self, most: Callable[[], int] = lambda: 1) -> Iterator[Batches]:
        """Yield what a model is run on.

        Args:
            most: Returns how many batches are wanted next.

        Raises:
            ReferenceDataError: Samples of one batch differ in type or shape.
        """
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
        """Return the labels of samples, with the axis of samples first; None without.

        Args:
            start: The first sample, from the start of the shard.
            stop: The sample after the last.

        Raises:
            ReferenceDataError: They differ in type or shape.
        """
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
