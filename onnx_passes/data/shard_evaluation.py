"""Evaluate a shard: what runs in each worker, with sessions that are made once."""

from __future__ import annotations

import gc
import importlib
import json
import os
import time
from collections import OrderedDict
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from onnx_passes.data.accumulators.pair import PairState
from onnx_passes.data.dataset import DataSet
from onnx_passes.data.evaluation_job import DataJob, Feeder, ModelFile, RunSpec
from onnx_passes.data.joined_batches import OutputBlocks
from onnx_passes.data.machine import machine
from onnx_passes.errors import (
    EngineCrashedError,
    EngineMemoryError,
    EngineTimeoutError,
    OnnxPassesError,
)
from onnx_passes.model.load import load_model
from onnx_passes.plain import PlainDict, PlainMapping
from onnx_passes.runtime.engine_base import Feeds, Session

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

        Args:
            model: The file of the model.
            run: The engine and its options.

        Raises:
            ModelError: The model cannot be read.
            EngineError: The engine refuses it.
        """
        key = _key(model, run)
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

    def keep(self, job: DataJob) -> None:
        """Free the sessions that a job does not use."""
        used = {_key(job.models[run.model], run) for run in job.runs}
        for key in self._open.keys() - used:
            self._open.pop(key)[1].close()

    def close(self) -> None:
        """Free all sessions."""
        while self._open:
            self._open.popitem()[1][1].close()


def _key(model: ModelFile, run: RunSpec) -> str:
    return json.dumps([model.digest, run.engine.name, dict(run.engine.options)])


class Evaluator:
    """Evaluates shards of one job in this process.

    Args:
        job: The job.
        sessions: The sessions of this process.
    """

    def __init__(self, job: DataJob, sessions: Sessions) -> None:
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

    def shard(self, number: int) -> PlainDict:
        """Evaluate a shard.

        Args:
            number: Its number.

        Returns:
            Plain JSON: either "pairs", the state of each candidate, or "error", the reason
            why there is none; beside it what is not part of the result.
        """
        start, used = time.perf_counter(), time.process_time()
        found: PlainDict = {"shard": number}
        try:
            found["pairs"] = self._pairs(number)
        except (OnnxPassesError, MemoryError, OSError) as error:
            found["error"] = _reason(error)
            found["retry"] = isinstance(error, PASSING)
        first, stop = self.job.plan.range(number)
        found["samples"] = stop - first
        found["seconds"] = time.perf_counter() - start
        found["processor"] = time.process_time() - used
        found["worker"] = {"pid": os.getpid(), "cpu": machine()["digest"]}
        return found

    def _pairs(self, number: int) -> list[PlainDict]:
        job = self.job
        states = [PairState(job.measures) for _ in job.candidates]
        sessions = [self._sessions.get(job.models[run.model], run) for run in job.runs]
        shard = self._data.shard(number)
        blocks = OutputBlocks(states, shard)
        for part in shard.batches(lambda: blocks.many):
            feeds = part.feeds if job.feeder is None else self._inner(job.feeder, part.feeds)
            blocks.add(part, [[session.run(f) for f in feeds] for session in sessions])
        blocks.flush()
        return [state.to_json() for state in states]

    def _inner(self, feeder: Feeder, feeds: Sequence[Feeds]) -> list[Feeds]:
        """Return what parts of a model read, computed from what the model is fed with."""
        every = [dict(feed) for feed in feeds]
        if feeder.model is not None:
            run = RunSpec(feeder.model, feeder.engine, "")
            session = self._sessions.get(self.job.models[feeder.model], run)
            for feed in every:
                feed |= session.run({name: feed[name] for name in feeder.reads})
        return [{n: feed[n] for n in feeder.gives if n in feed} for feed in every]


def _reason(error: BaseException) -> str:
    if isinstance(error, OnnxPassesError):
        where = f" ({error.where})" if error.where else ""
        return f"{' '.join(error.message.split())}{where}"
    if isinstance(error, MemoryError):
        return "the worker ran out of memory"
    return f"{type(error).__name__}: {error}"


_sessions = Sessions()
_evaluators: OrderedDict[str, Evaluator] = OrderedDict()


def forget_others(text: str) -> None:
    """Free what this process holds for other jobs than one, given as JSON."""
    _evaluators.clear()
    _sessions.keep(DataJob.from_json(json.loads(text)))


def evaluator_of(text: str, digest: str, folder: str | None = None) -> Evaluator:
    """Return the evaluator of a job in this process, made when it is first asked for.

    Args:
        text: The job as JSON.
        digest: Its digest.
        folder: Where the files of its models are, if not where the job says.
    """
    key = f"{digest} {folder}"
    if key not in _evaluators:
        data: PlainMapping = json.loads(text)
        job = DataJob.from_json(data)
        if folder is not None:
            job = move_models(job, Path(folder))
        _evaluators[key] = Evaluator(job, _sessions)
        while len(_evaluators) > 2:
            _evaluators.popitem(last=False)
        # Models of jobs before are garbage with cycles.
        if gc.get_freeze_count():
            gc.unfreeze()
            gc.collect()
        # Looking through all modules and models for garbage takes longer than a small shard.
        gc.freeze()
    return _evaluators[key]


def move_models(job: DataJob, folder: Path) -> DataJob:
    """Return a job whose models are in folders of their digests.

    Args:
        job: The job.
        folder: The folder that has a folder for each digest.
    """
    models = tuple(
        ModelFile(m.name, str(folder / m.digest / m.files[0]), m.digest, m.files)
        for m in job.models
    )
    return DataJob(job.plan, models, job.runs, job.measures, job.imports)
