"""Join the outputs of batches, so that many samples are measured at once."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from onnx_passes.arrays import Array
from onnx_passes.data.accumulators.accumulator import Block
from onnx_passes.data.accumulators.pair import PairState
from onnx_passes.data.shard import Batches, Shard
from onnx_passes.errors import EngineError
from onnx_passes.runtime.engine_base import Data, Outputs

FLUSH_BYTES = 16 << 20
"""Bytes of outputs that are measured at once."""

IN_TURN = 16
"""Batches that one model runs on before the next model does."""


class _OutputSlot(NamedTuple):
    """Where an output of a batch goes.

    Attributes:
        dtype: Its dtype.
        shape: Its shape for a whole batch.
        samples: Room for many samples, the axis of samples first.
    """

    dtype: np.dtype[np.generic]
    shape: tuple[int, ...]
    samples: Array


class OutputBlocks:
    """Collects outputs, and measures them when there are enough.

    Outputs are copied soon. ONNX Runtime's allocator gets slower with each result that is
    kept: a run of 4 µs takes 7 µs beside some thousand of them.

    Args:
        states: What measures each candidate.
        shard: The samples.
    """

    def __init__(self, states: Sequence[PairState], shard: Shard) -> None:
        self._states, self._shard = states, shard
        self._runs: list[dict[str, _OutputSlot]] = []
        self._label: object = None
        self._start = self._stop = self._end = 0

    @property
    def many(self) -> int:
        """How many batches may be run before what they gave is added."""
        size = self._shard.binding.batch
        return max(1, min(IN_TURN, (self._end - self._start) // size))

    def add(self, batches: Batches, outputs: Sequence[Sequence[Outputs]]) -> None:
        """Add what the runs gave.

        Args:
            batches: What they were fed.
            outputs: What each run gave for each batch.

        Raises:
            EngineError: An output cannot be divided into samples.
            ReferenceDataError: Labels of one batch differ in type or shape.
            OnnxPassesError: What was collected cannot be measured.
        """
        if self._copy(batches, outputs):
            return
        for place, feeds in enumerate(batches.feeds):
            start = batches.start + place * batches.size
            one = Batches([feeds], start, batches.size, batches.filled)
            found = [[run[place]] for run in outputs]
            if not self._copy(one, found):
                self.flush()
                self._begin(one, [given for (given,) in found])
                if not self._copy(one, found):
                    self._shard.labels_of(one.start, one.stop)
                    raise RuntimeError(f"batch at {start} does not fit what was made for it")

    def _copy(self, batches: Batches, outputs: Sequence[Sequence[Outputs]]) -> bool:
        """Copy what the runs gave; return False if there is no room for what is like it."""
        size, start, stop = batches.size, batches.start, batches.stop
        if stop > self._end or not self._has_labels_of(batches):
            return False
        for run, slots in zip(outputs, self._runs, strict=True):
            for name, (dtype, shape, samples) in slots.items():
                values = [found.get(name) for found in run]
                stacked = len(shape) == samples.ndim
                # The last batch may be smaller.
                wanted = (size + batches.filled, *shape[1:]) if stacked else shape
                for value in values:
                    if type(value) is not np.ndarray or value.dtype is not dtype:
                        return False
                    if value.shape != wanted:
                        return False
                where = samples[start - self._start : stop - self._start]
                if batches.filled:
                    values = [value[:size] for value in values]  # type: ignore[index]
                if stacked:
                    np.concatenate(values, out=where)  # type: ignore[arg-type]
                elif size == 1:
                    np.stack(values, out=where)  # type: ignore[arg-type]
                else:
                    return False
            if any(len(found) != len(slots) for found in run):
                return False
        self._stop = stop
        return True

    def _has_labels_of(self, batches: Batches) -> bool:
        """Whether labels that are stored one by one are like those before."""
        if not isinstance(self._shard.labels, list):
            return True
        labels = map(np.asarray, self._shard.labels[batches.start : batches.stop])
        return {(label.dtype, label.shape) for label in labels} == {self._label}

    def _begin(self, batch: Batches, outputs: Sequence[Outputs]) -> None:
        """Make room for samples like those of a batch."""
        count = batch.size
        forms = [
            {name: _form(name, value, count + batch.filled) for name, value in found.items()}
            for found in outputs
        ]
        each = sum(v.itemsize * math.prod(shape) for run in forms for v, shape in run.values())
        room = max(count, FLUSH_BYTES // max(1, each))
        self._start = self._stop = batch.start
        self._end = min(len(self._shard.rows), batch.start + room)
        if isinstance(self._shard.labels, list):
            label = np.asarray(self._shard.labels[batch.start])
            self._label = label.dtype, label.shape
        self._runs = [
            {
                name: _OutputSlot(
                    v.dtype, v.shape, np.empty((self._end - self._start, *shape), v.dtype)
                )
                for name, (v, shape) in run.items()
            }
            for run in forms
        ]

    def flush(self) -> None:
        """Measure what was collected.

        Raises:
            OnnxPassesError: It cannot be measured.
        """
        start, stop = self._start, self._stop
        self._end = 0
        if start == stop:
            return
        rows, labels = self._shard.rows[start:stop], self._shard.labels_of(start, stop)
        runs = [
            {name: slot.samples[: stop - start] for name, slot in run.items()}
            for run in self._runs
        ]
        self._start = self._stop
        for state, right in zip(self._states, runs[1:] or runs, strict=True):
            state.update(Block(rows, runs[0], right, labels))


def _form(name: str, value: Data, size: int) -> tuple[Array, tuple[int, ...]]:
    """Return an output, and its shape for one sample, whose axis may lack if there is one.

    Raises:
        EngineError: It is not a tensor, or has no such axis.
    """
    if not isinstance(value, np.ndarray):
        raise EngineError(
            f"output {name!r} is not a tensor, which a data set run cannot measure",
            help="compare it without --data",
        )
    if value.shape[:1] == (size,):
        return value, value.shape[1:]
    if size == 1:
        return value, value.shape
    raise EngineError(
        f"output {name!r} has no first axis of {size} samples: {value.shape}",
        help="set batch to 1, so that each sample has an output of its own",
    )
