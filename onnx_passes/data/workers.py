"""What evaluates shards, in this process or a pool of processes.

Shards go in by number, and outcomes come out in any order. Outputs of batches are joined to be
measured at once.
"""

from __future__ import annotations

import gc
import importlib
import math
import multiprocessing
import os
import signal
import threading
import time
from collections import deque
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack
from functools import cache
from multiprocessing.connection import wait as wait_for
from typing import NamedTuple, TypeAlias

import numpy as np

from onnx_passes.arrays import Array
from onnx_passes.data.dataset import Batches, DataSet, Shard
from onnx_passes.data.evaluation_job import DataJob
from onnx_passes.data.measures import Block, PairState
from onnx_passes.errors import (
    EngineCrashedError,
    EngineError,
    EngineMemoryError,
    EngineTimeoutError,
    OnnxPassesError,
    UsageError,
)
from onnx_passes.model.load import load_model
from onnx_passes.plain import PlainDict
from onnx_passes.runtime.engine_base import Data, Outputs, Session

FLUSH_BYTES = 16 << 20
"""Bytes of outputs that are measured at once."""

IN_TURN = 16
"""Batches that one model runs on before the next model does."""


class _OutputSlot(NamedTuple):
    """Where an output of a batch goes: ``samples`` of many, ``shape`` of a whole batch."""

    dtype: np.dtype[np.generic]
    shape: tuple[int, ...]
    samples: Array


class OutputBlocks:
    """Collects outputs, and measures them when there are enough.

    Outputs are copied soon. ONNX Runtime's allocator gets slower with each result that is
    kept: a run of 4 µs takes 7 µs beside some thousand of them.
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

        ``outputs`` are by run, then by batch. Raises ``EngineError`` if an output cannot be
        divided into samples, ``ReferenceDataError`` if labels of one batch differ in type or
        shape, and ``OnnxPassesError`` if what was collected cannot be measured.
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
        """Measure what was collected; raise ``OnnxPassesError`` if that is not possible."""
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

    Raises ``EngineError`` if it is not a tensor, or has no such axis.
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


TRANSIENT_ERRORS = (
    EngineMemoryError,
    EngineCrashedError,
    EngineTimeoutError,
    MemoryError,
    OSError,
)
"""Faults that another attempt may not meet. All others are of the data or the model."""


class Evaluator:
    """Evaluates shards of one job in this process."""

    def __init__(self, job: DataJob) -> None:
        self.job = job
        for module in job.imports:
            importlib.import_module(module)
        self._data = DataSet(job.plan)
        self._stack = ExitStack()
        self._sessions: list[Session] = []

    def open_sessions(self) -> None:
        """Make the sessions ready; raise ``OnnxPassesError`` if a model cannot be run."""
        for run in self.job.runs[len(self._sessions) :]:
            loaded = load_model(self.job.models[run.model].path).model
            self._sessions.append(self._stack.enter_context(run.engine.make().prepare(loaded)))

    def close(self) -> None:
        """End the sessions."""
        self._sessions.clear()
        self._stack.close()

    def shard(self, number: int) -> PlainDict:
        """Evaluate a shard.

        The result is plain JSON: "pairs", the state of each candidate, or "error", the reason
        why there is none. Beside it is what is not part of the result.
        """
        start, used = time.perf_counter(), time.process_time()
        found: PlainDict = {"shard": number}
        try:
            found["pairs"] = self._pairs(number)
        except (OnnxPassesError, MemoryError, OSError) as error:
            found["error"] = _reason(error)
            found["retry"] = isinstance(error, TRANSIENT_ERRORS)
        first, stop = self.job.plan.range(number)
        found["samples"] = stop - first
        found["seconds"] = time.perf_counter() - start
        found["processor"] = time.process_time() - used
        found["worker"] = os.getpid()
        return found

    def _pairs(self, number: int) -> list[PlainDict]:
        job = self.job
        states = [PairState(job.measures) for _ in job.candidates]
        self.open_sessions()
        shard = self._data.shard(number)
        blocks = OutputBlocks(states, shard)
        for part in shard.batches(lambda: blocks.many):
            blocks.add(
                part, [[session.run(f) for f in part.feeds] for session in self._sessions]
            )
        blocks.flush()
        return [state.to_json() for state in states]


def _reason(error: BaseException) -> str:
    if isinstance(error, OnnxPassesError):
        where = f" ({error.where})" if error.where else ""
        return f"{' '.join(error.message.split())}{where}"
    if isinstance(error, MemoryError):
        return "the worker ran out of memory"
    return f"{type(error).__name__}: {error}"


class InProcess:
    """Evaluates shards in this process, one after the other."""

    name = "in process"
    slots = 1

    def __init__(self) -> None:
        self._todo: list[int] = []
        self._evaluator: Evaluator | None = None

    def start(self, job: DataJob) -> None:
        self._evaluator = Evaluator(job)
        self._evaluator.open_sessions()

    def submit(self, shard: int) -> None:
        self._todo.append(shard)

    def collect(self) -> PlainDict:
        assert self._evaluator is not None
        return self._evaluator.shard(self._todo.pop(0))

    def close(self) -> None:
        if self._evaluator is not None:
            self._evaluator.close()


def worker_death_outcome(shard: int, samples: int, reason: str) -> PlainDict:
    """Return the outcome of a shard whose worker ended. ``reason`` is a sentence."""
    return {
        "shard": shard,
        "samples": samples,
        "error": reason,
        "retry": True,
        "seconds": 0.0,
        "at": time.time(),
    }


class Pool:
    """Evaluates shards in worker processes.

    When a worker dies, the pool is made anew. The shards that were under way then run one at
    a time, so that the one to blame is found.
    """

    def __init__(self, workers: int) -> None:
        if workers < 1:
            raise UsageError(f"--jobs must be at least 1, not {workers}")
        self._workers, self.slots = workers, 2 * workers
        self.name = f"{workers} processes"
        self._pool: ProcessPoolExecutor | None = None
        self._running: dict[Future[PlainDict], int] = {}
        self._suspects: deque[int] = deque()

    def start(self, job: DataJob) -> None:
        self._job = job
        self._text = job.to_text()
        self._make()

    def _make(self) -> None:
        # Not fork: the threads of an engine do not survive it.
        context = multiprocessing.get_context("spawn")
        self._pool = ProcessPoolExecutor(
            self._workers, context, initializer=_begin, initargs=(self._text,)
        )

    def submit(self, shard: int) -> None:
        if self._suspects:
            self._suspects.append(shard)
        else:
            self._run(shard)

    def _run(self, shard: int) -> None:
        assert self._pool is not None
        try:
            future = self._pool.submit(_evaluate, shard)
            self._running[future] = shard
        except BrokenProcessPool:
            self._suspects.append(shard)
            self._restart()

    def collect(self) -> PlainDict:
        while True:
            if not self._running:
                self._run(self._suspects.popleft())
            alone = len(self._running) == 1
            finished, _ = wait(self._running, return_when=FIRST_COMPLETED)
            future = next(iter(finished))
            shard = self._running.pop(future)
            try:
                return future.result()
            except BrokenProcessPool:
                if alone:
                    self._restart()
                    first, stop = self._job.plan.range(shard)
                    reason = "the worker process ended; it may have run out of memory"
                    return worker_death_outcome(shard, stop - first, reason)
                self._suspects.append(shard)
                self._restart()

    def _restart(self) -> None:
        self._suspects.extend(self._running.values())
        self._running.clear()
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)
        self._make()

    def close(self) -> None:
        """End the workers, whatever they do."""
        pool, self._pool = self._pool, None
        if pool is None:
            return
        processes = list((pool._processes or {}).values())
        pool.shutdown(wait=False, cancel_futures=True)
        for process in processes:
            process.terminate()
        for process in processes:
            process.join()


_jobs: list[str] = []
"""The job of this worker, as JSON."""


def _begin(text: str) -> None:
    # Ctrl-C reaches the whole group of processes; the client ends the workers.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    _jobs.append(text)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait_for([parent.sentinel])
        os._exit(1)


@cache
def _evaluator() -> Evaluator:
    evaluator = Evaluator(DataJob.from_text(_jobs[0]))
    # Looking through all modules and models for garbage takes longer than a small shard.
    gc.freeze()
    return evaluator


def _evaluate(shard: int) -> PlainDict:
    return _evaluator().shard(shard)


Executor: TypeAlias = InProcess | Pool
"""Runs the shards of a job, which go in by number and come out in any order."""


def choose_executor(jobs: int | None) -> Executor:
    """Return what runs the shards: worker processes, by default this process."""
    return InProcess() if jobs is None else Pool(jobs)
