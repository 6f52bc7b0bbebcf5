"""What is evaluated, as plain data, and its evaluation in a worker, shard by shard.

Workers get the job once. Sessions are made once, and outputs of batches are joined to be
measured at once. The processor of the worker is noted.
"""

from __future__ import annotations

import gc
import hashlib
import importlib
import json
import math
import os
import platform
from collections import OrderedDict
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np
import onnx_ir as ir
from pydantic import TypeAdapter

from onnx_passes.arrays import Array
from onnx_passes.data.dataset import Batches, DataSet, Shard, ShardPlan
from onnx_passes.data.file_forms import digest
from onnx_passes.data.measures import Block, Measures, PairState
from onnx_passes.errors import (
    EngineCrashedError,
    EngineError,
    EngineMemoryError,
    EngineTimeoutError,
    ModelError,
    OnnxPassesError,
    UsageError,
)
from onnx_passes.model.load import load_model
from onnx_passes.model.walk import all_nodes
from onnx_passes.plain import PlainDict, PlainMapping
from onnx_passes.runtime.engine_base import Data, Engine, Outputs, Session
from onnx_passes.runtime.engines import engine_from_config

FORMAT = 4


@dataclass(frozen=True)
class ModelFile:
    """A model in a file.

    ``path`` is absolute; ``files`` are relative to its folder, the model first. ``digest`` is
    the SHA-256 of the file and of its external data.
    """

    name: str
    path: str
    digest: str
    files: tuple[str, ...]

    @classmethod
    def of(cls, path: str | Path, name: str | None = None) -> ModelFile:
        """Look at a file; raise ``ModelError`` if it cannot be read."""
        full = Path(path).absolute()
        loaded = load_model(full)
        every = [full, *(Path(file).absolute() for file in loaded.external)]
        try:
            content = [digest(str(file)) for file in every]
            names = tuple(str(file.relative_to(full.parent)) for file in every)
        except (OSError, ValueError) as error:
            raise ModelError(f"the model cannot be read: {error}", where=str(full)) from error
        whole = hashlib.sha256(json.dumps(content).encode()).hexdigest()
        return cls(name or full.name, str(full), whole, names)

    def is_there(self) -> bool:
        """Whether the files are at their path, with this content."""
        try:
            return ModelFile.of(self.path).digest == self.digest
        except ModelError:
            return False


@dataclass(frozen=True)
class EngineChoice:
    """An engine by name and options, as in a pipeline file, so that a worker can make it."""

    name: str
    options: PlainMapping

    def check_threads(self) -> None:
        """Raise ``UsageError`` if the number of threads depends on the worker's machine."""
        if self.name == "onnxruntime" and self.options.get("threads") == 0:
            raise UsageError(
                "threads=0 leaves the number of threads to each worker's machine",
                help="say how many: onnxruntime{threads=1} is the default",
            )

    def make(self) -> Engine:
        """Make the engine; raise ``ConfigError`` if its name or an option is wrong."""
        return engine_from_config(self.name, self.options)


@dataclass(frozen=True)
class RunSpec:
    """A model, by its place in the job, on an engine."""

    model: int
    engine: EngineChoice
    name: str


@dataclass(frozen=True)
class DataJob:
    """Models on engines over a data set. The first run is the reference of the others.

    A worker first imports ``imports``, modules that register metrics or engines.
    """

    plan: ShardPlan
    models: tuple[ModelFile, ...]
    runs: tuple[RunSpec, ...]
    measures: Measures
    imports: tuple[str, ...] = ()

    @property
    def candidates(self) -> Sequence[RunSpec]:
        """The runs that are held against the first; that one itself where it is alone."""
        return self.runs[1:] or self.runs

    def to_text(self) -> str:
        """Return the job as JSON, for a worker."""
        return json.dumps(asdict(self))

    @classmethod
    def from_text(cls, text: str) -> DataJob:
        """Read what :meth:`to_text` returns."""
        return TypeAdapter(cls).validate_json(text)

    @cached_property
    def key(self) -> dict[str, str]:
        """What results depend on, hashed: plan, models, engines, measures."""
        parts: PlainDict = {
            "plan": self.plan.digest,
            "models": [model.digest for model in self.models],
            "engines": [[run.model, asdict(run.engine), _version(run)] for run in self.runs],
            "measures": [FORMAT, asdict(self.measures)],
        }
        return {name: _hash(part) for name, part in parts.items()}

    @property
    def digest(self) -> str:
        """Hash of the key."""
        return _hash(self.key)


def _version(run: RunSpec) -> PlainDict:
    return dict(run.engine.make().describe())


def _hash(value: object) -> str:
    text = json.dumps(value, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


@cache
def processor() -> str:
    """Return a digest of the name and the instruction sets of this machine's processor."""
    known = [platform.machine(), platform.processor()]
    with suppress(OSError):  # another system: what Python knows distinguishes machines
        text = Path("/proc/cpuinfo").read_text("utf-8", "replace")
        lines = (line.partition(":") for line in text.partition("\n\n")[0].splitlines())
        names = ("model name", "CPU part", "flags", "Features")
        known += [" ".join(sorted(v.split())) for key, _, v in lines if key.strip() in names]
    return hashlib.sha256("\n".join(known).encode()).hexdigest()[:16]


_MARKS = ("QLinear", "Integer", "QuantizeLinear")


def uses_int8(model: ir.Model) -> bool:
    """Whether a model computes with quantized values."""
    return any(mark in node.op_type for node in all_nodes(model) for mark in _MARKS)


class WorkerProcessors:
    """Notes the processors that results come from.

    ``allow_mixed`` allows results of different processors to be joined for 8-bit models.
    """

    def __init__(self, job: DataJob, *, allow_mixed: bool) -> None:
        self._allow = allow_mixed
        self._first: str | None = None
        self._mixed = False
        self._int8 = any(uses_int8(load_model(model.path).model) for model in job.models)

    def accept(self, outcome: PlainDict) -> None:
        """Look at the outcome of a shard.

        Raises ``UsageError`` if it comes from another processor, and a model computes in 8
        bits.
        """
        cpu = outcome.get("worker", {}).get("cpu")
        if cpu is None or cpu == self._first:
            return
        if self._first is None:
            self._first = cpu
            return
        self._mixed = True
        if self._int8 and not self._allow:
            raise UsageError(
                "workers have different processors, which may differ in 8 bits",
                help="use machines of one kind, or accept it with --mixed-cpus",
            )

    @property
    def notes(self) -> list[str]:
        """What a report says of it."""
        if not self._mixed:
            return []
        return ["workers have different processors: results may differ in the last bits"]


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
        found: PlainDict = {"shard": number}
        try:
            found["pairs"] = self._pairs(number)
        except (OnnxPassesError, MemoryError, OSError) as error:
            found["error"] = _reason(error)
            found["retry"] = isinstance(error, TRANSIENT_ERRORS)
        first, stop = self.job.plan.range(number)
        found["samples"] = stop - first
        found["worker"] = {"pid": os.getpid(), "cpu": processor()}
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


_evaluators: OrderedDict[str, Evaluator] = OrderedDict()


def evaluator_of(text: str, digest: str) -> Evaluator:
    """Return the evaluator of a job, as JSON, in this process, made when first asked for."""
    if digest not in _evaluators:
        _evaluators[digest] = Evaluator(DataJob.from_text(text))
        while len(_evaluators) > 2:
            _evaluators.popitem(last=False)[1].close()
        # Models of jobs before are garbage with cycles.
        if gc.get_freeze_count():
            gc.unfreeze()
            gc.collect()
        # Looking through all modules and models for garbage takes longer than a small shard.
        gc.freeze()
    return _evaluators[digest]
