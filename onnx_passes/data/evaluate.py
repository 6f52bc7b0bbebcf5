"""Evaluate a shard: what runs in each worker, with sessions that are made once."""

from __future__ import annotations

import gc
import importlib
import json
import os
import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from itertools import groupby
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from onnx_passes.contracts.elements import Array
from onnx_passes.data.accumulators.base import Block
from onnx_passes.data.accumulators.pair import PairState
from onnx_passes.data.dataset import Batch, DataSet
from onnx_passes.data.job import Job, ModelFile, RunSpec
from onnx_passes.data.machine import machine
from onnx_passes.errors import (
    EngineCrashedError,
    EngineError,
    EngineMemoryError,
    EngineTimeoutError,
    OnnxPassesError,
)
from onnx_passes.io.load import load_model
from onnx_passes.runtime.base import Data, Outputs, Session

FLUSH_BYTES = 16 << 20
"""Bytes of outputs that are measured at once."""

PASSING = (EngineMemoryError, EngineCrashedError, EngineTimeoutError, MemoryError, OSError)
"""Faults that another attempt may not meet. All others are of the data or the model."""


class Sessions:
    """The sessions of this process, by digest of the model and engine; the last ones used.

    Args:
        kept: How many stay ready.
    """

    def __init__(self, kept: int = 8) -> None:
        self._kept = kept
        self._open: OrderedDict[str, tuple[Session, ExitStack]] = OrderedDict()

    def get(self, model: ModelFile, run: RunSpec) -> Session:
        """Return a session, made when it is first asked for.

        Raises:
            ModelError: The model cannot be read.
            EngineError: The engine refuses it.
        """
        key = json.dumps([model.digest, run.engine.name, dict(run.engine.options)])
        if key in self._open:
            self._open.move_to_end(key)
            return self._open[key][0]
        with ExitStack() as stack:
            loaded = load_model(model.path).model
            session = stack.enter_context(run.engine.make().prepare(loaded))
            self._open[key] = session, stack.pop_all()
        while len(self._open) > self._kept:
            _, (_, old) = self._open.popitem(last=False)
            old.close()
        return session

    def close(self) -> None:
        """Free all sessions."""
        while self._open:
            self._open.popitem()[1][1].close()


class Evaluator:
    """Evaluates shards of one job in this process.

    Args:
        job: The job.
        sessions: The sessions of this process.
    """

    def __init__(self, job: Job, sessions: Sessions) -> None:
        self.job, self._sessions = job, sessions
        for module in job.imports:
            importlib.import_module(module)
        self._data = DataSet(job.plan)

    def warm(self) -> None:
        """Make the sessions ready.

        Raises:
            OnnxPassesError: A model cannot be run.
        """
        for run in self.job.runs:
            self._sessions.get(self.job.models[run.model], run)

    def shard(self, number: int) -> dict[str, Any]:
        """Evaluate a shard.

        Args:
            number: Its number.

        Returns:
            Plain JSON: either "pairs", the state of each candidate, or "error", the reason
            why there is none; beside it what is no part of the result.
        """
        start = time.perf_counter()
        found: dict[str, Any] = {"shard": number}
        try:
            found["pairs"] = self._pairs(number)
        except (OnnxPassesError, MemoryError, OSError) as error:
            found["error"] = _reason(error)
            found["retry"] = isinstance(error, PASSING)
        first, stop = self.job.plan.range(number)
        found["samples"] = stop - first
        found["seconds"] = time.perf_counter() - start
        found["worker"] = {"pid": os.getpid(), "cpu": machine()["digest"]}
        return found

    def _pairs(self, number: int) -> list[dict[str, Any]]:
        job = self.job
        states = [PairState(job.measures) for _ in job.candidates]
        sessions = [self._sessions.get(job.models[run.model], run) for run in job.runs]
        buffer = _Buffer(states)
        for batch in self._data.batches(number):
            buffer.add(batch, [session.run(batch.feeds) for session in sessions])
        buffer.flush()
        return [state.to_json() for state in states]


class _Buffer:
    """Collects the outputs of batches, so that small ones are measured together."""

    def __init__(self, states: Sequence[PairState]) -> None:
        self._states = states
        self._steps: list[_Step] = []
        self._most = 0

    def add(self, batch: Batch, outputs: Sequence[Outputs]) -> None:
        """Add what the runs gave for a batch."""
        if not self._steps:
            # Batches are alike: the first one tells how many there is room for.
            arrays = [v for found in outputs for v in found.values()]
            size = sum(v.nbytes for v in arrays if isinstance(v, np.ndarray))
            self._most = max(1, FLUSH_BYTES // max(1, size))
        self._steps.append((batch, outputs))
        if len(self._steps) >= self._most:
            self.flush()

    def flush(self) -> None:
        """Measure what was collected, neighbours of one size and form together."""
        steps, self._steps = self._steps, []
        for _, group in groupby(steps, lambda step: (len(step[0].rows), step[0].filled)):
            alike = list(group)
            if _is_uniform(alike):
                self._measure(alike)
            else:
                for step in alike:
                    self._measure([step])

    def _measure(self, steps: list[_Step]) -> None:
        batch, first = steps[0]
        rows = np.concatenate([batch.rows for batch, _ in steps])
        labels = None
        if batch.labels is not None:
            labels = np.concatenate([batch.labels for batch, _ in steps])
        runs = [
            {
                name: _by_sample(name, [outputs[place][name] for _, outputs in steps], batch)
                for name in found
            }
            for place, found in enumerate(first)
        ]
        for state, right in zip(self._states, runs[1:] or runs, strict=True):
            state.update(Block(rows, runs[0], right, labels))


_Step: TypeAlias = "tuple[Batch, Sequence[Outputs]]"


def _is_uniform(steps: list[_Step]) -> bool:
    """Whether the outputs and labels of batches can be joined."""
    if len({None if b.labels is None else b.labels.shape[1:] for b, _ in steps}) > 1:
        return False
    for place, found in enumerate(steps[0][1]):
        for name, value in found.items():
            if not isinstance(value, np.ndarray):
                return False
            dtype, shape = value.dtype, value.shape
            for _, outputs in steps:
                other = outputs[place].get(name)
                if not isinstance(other, np.ndarray):
                    return False
                if other.shape != shape or other.dtype != dtype:
                    return False
    return True


def _by_sample(name: str, values: list[Data], batch: Batch) -> Array:
    """Join an output of batches of one size, with the axis of samples first.

    An output without that axis belongs to the samples together, and is only kept where there
    is one.

    Raises:
        EngineError: It is no tensor, or has no such axis.
    """
    count = len(batch.rows)
    size, first = count + batch.filled, values[0]
    if not isinstance(first, np.ndarray):
        raise EngineError(
            f"output {name!r} is no tensor, which a data set run cannot measure",
            help="compare it without --data",
        )
    if first.shape[:1] == (size,):
        kept = [value[:count] for value in values] if batch.filled else values  # type: ignore[index]
        return np.concatenate(kept)  # type: ignore[arg-type]
    if size == 1:
        return np.stack(values)  # type: ignore[arg-type]
    raise EngineError(
        f"output {name!r} has no first axis of {size} samples: {first.shape}",
        help="set batch to 1, so that each sample has an output of its own",
    )


def _reason(error: BaseException) -> str:
    if isinstance(error, OnnxPassesError):
        where = f" ({error.where})" if error.where else ""
        return f"{' '.join(error.message.split())}{where}"
    if isinstance(error, MemoryError):
        return "the worker ran out of memory"
    return f"{type(error).__name__}: {error}"


_sessions = Sessions()
_evaluators: OrderedDict[str, Evaluator] = OrderedDict()


def evaluator_of(text: str, digest: str, folder: str | None = None) -> Evaluator:
    """Return the evaluator of a job in this process, made when it is first asked for.

    Args:
        text: The job as JSON.
        digest: Its digest.
        folder: Where the files of its models are, if not where the job says.
    """
    key = f"{digest} {folder}"
    if key not in _evaluators:
        data: Mapping[str, Any] = json.loads(text)
        job = Job.from_json(data)
        if folder is not None:
            job = moved(job, Path(folder))
        _evaluators[key] = Evaluator(job, _sessions)
        # Looking through all modules and models for garbage takes longer than a small shard.
        gc.freeze()
        while len(_evaluators) > 2:
            _evaluators.popitem(last=False)
    return _evaluators[key]


def moved(job: Job, folder: Path) -> Job:
    """Return a job whose models are in folders of their digests."""
    models = tuple(
        ModelFile(m.name, str(folder / m.digest / m.files[0]), m.digest, m.files)
        for m in job.models
    )
    return Job(job.plan, models, job.runs, job.measures, job.imports)
