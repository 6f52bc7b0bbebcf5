"""Run models side by side on the same inputs, and compare what they give."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import numpy as np
import onnx_ir as ir

from onnx_passes.contracts.elements import kind_of
from onnx_passes.errors import (
    EngineError,
    EngineUnavailableError,
    ReferenceDataError,
    UsageError,
)
from onnx_passes.runtime.base import Array, Engine, Feeds, Outputs, Session
from onnx_passes.runtime.interface import did_you_mean
from onnx_passes.runtime.levels import Level, examine
from onnx_passes.runtime.tensorrt.engine import compiler_of, fitted
from onnx_passes.surgery.fingerprint import canonical_hash
from onnx_passes.verify.feeds import check_feeds
from onnx_passes.verify.runs.batches import ALL, Batch, Plan, distinct, nearest, plan
from onnx_passes.verify.runs.found import FAILED, SAVED, Found, Invalid, Latency, Pair, Run
from onnx_passes.verify.runs.inputs import digest_of
from onnx_passes.verify.runs.judges import Judge, Simple
from onnx_passes.verify.runs.postprocess import TopK
from onnx_passes.verify.runs.runner import Runner
from onnx_passes.verify.runs.spool import Spool
from onnx_passes.verify.runs.tally import Tally, Truth

MEMORY_LIMIT = 2 << 30
"""Bytes that values may have in memory, where nobody says."""

_PARTS = 4
"""What an engine computes exists twice while it is handed over, beside what it is held against
and what is kept."""


@dataclass(frozen=True)
class Settings:
    """How models are run and compared.

    Attributes:
        outputs: Names of values, "all", or None for the models' outputs.
        judge: By what they are compared.
        limits: The limits that name outputs, so that the names are checked.
        postprocess: What is done to outputs first.
        validate: Whether NaN and infinities count as a failure.
        fail_fast: Whether the rest is left out after the first difference.
        iterations: Timed runs of each sample.
        warm_up: Runs of each sample before those.
        memory_limit: Bytes that values may have in memory.
        keep: Whether the values of every run are kept, to be saved or drawn.
        hashes: Whether models and inputs are hashed, as saved results are told apart by.
    """

    outputs: Sequence[str] | str | None = None
    judge: Judge = field(default_factory=Simple)
    limits: Simple | None = None
    postprocess: TopK | None = None
    validate: bool = False
    fail_fast: bool = False
    iterations: int = 1
    warm_up: int = 0
    memory_limit: int = MEMORY_LIMIT
    keep: bool = False
    hashes: bool = False


def compare(
    runners: Sequence[Runner],
    samples: Iterable[Feeds] = (),
    *,
    recorded: Sequence[Run] = (),
    settings: Settings | None = None,
) -> Found:
    """Run models on the same inputs, and hold the results against those of the first.

    Args:
        runners: Models on engines; each is made ready when its turn comes.
        samples: Inputs by name; looked at once, and kept on disk where they are many.
        recorded: Results of earlier runs. They come first: the first of all is the reference.
        settings: How; by default the outputs, within the default tolerance of their dtypes.

    Returns:
        What was found. An engine that cannot run a model is a finding, not an error.

    Raises:
        ModelError: A model cannot be read.
        ReferenceDataError: A sample does not fit a model.
        UsageError: A value does not exist, or there is nothing to run.
        ConfigError: An option does not fit an engine and the model.
    """
    return _Comparison(runners, samples, recorded, settings or Settings()).run()


class _Comparison:
    def __init__(
        self,
        runners: Sequence[Runner],
        samples: Iterable[Feeds],
        recorded: Sequence[Run],
        settings: Settings,
    ) -> None:
        if not runners and not recorded:
            raise UsageError("there is nothing to run, and nothing saved to compare")
        self.runners, self.recorded, self.settings = runners, list(recorded), settings
        self.share = max(1, settings.memory_limit // _PARTS)
        self.samples = Spool(self.share)
        self.found = Found()
        self.tallies: list[Tally] = []
        self.hashes: dict[int, str] = {}
        self.reference: Run | None = None
        self._names(runners)
        if runners:
            if settings.outputs is not None:
                # Values are what the memory is for.
                for runner in runners:
                    runner.loader.offload()
            self._read(samples)
        else:
            self.found.samples = len(recorded[0].values or ())

    def _names(self, runners: Sequence[Runner]) -> None:
        names: list[str] = []
        for each in [*(r.name for r in self.recorded), *(r.name for r in runners)]:
            name, number = each, 2
            while name in names:
                name, number = f"{each} #{number}", number + 1
            names.append(name)
        self.recorded = [
            replace(r, name=n) for r, n in zip(self.recorded, names, strict=False)
        ]
        self.names = names[len(self.recorded) :]

    def _read(self, samples: Iterable[Feeds]) -> None:
        models = {id(m): m for m in (runner.model for runner in self.runners)}
        for index, feeds in enumerate(samples):
            for model in models.values():
                check_feeds(feeds, model, {}, allow_nan=True)
            self.samples.put(index, feeds)
        if not len(self.samples):
            raise UsageError("there are no inputs to run the models on")
        self.found.samples = len(self.samples)
        if self.settings.hashes:
            self.found.inputs = [digest_of(feeds) for feeds in self.samples]

    def run(self) -> Found:
        for run in self.recorded:
            self._take(run)
        for runner, name in zip(self.runners, self.names, strict=True):
            run = Run(name, runner.loader.name, runner.engine.name)
            self.found.runs.append(run)
            self._execute(runner, run)
        self.found.pairs = [tally.pair() for tally in self.tallies]
        return self.found

    def _take(self, run: Run) -> None:
        """Compare what an earlier run gave."""
        self.found.runs.append(run)
        assert run.values is not None
        self._check_recorded(run)
        if self.settings.validate:
            for sample in range(len(run.values)):
                for part in self._parts(run, sample):
                    self._validate(run, sample, part)
        if self.reference is None:
            self.reference = run
            return
        tally = self._tally(run)
        for sample in range(len(run.values)):
            for part in self._parts(run, sample):
                tally.add(sample, part, frozenset(run.types))
            if self.settings.fail_fast and tally.failed:
                break
        tally.end(stopped=self.settings.fail_fast and tally.failed)

    def _parts(self, run: Run, sample: int) -> Iterator[Outputs]:
        """Yield saved values of a sample, as many at once as memory has room for."""
        values, part, held = run.values, {}, 0
        assert values is not None
        for name in self._chosen(values.names(sample)):
            part[name] = values.get(sample, name)
            held += getattr(part[name], "nbytes", 0)
            if held >= self.share:
                yield part
                part, held = {}, 0
        if part:
            yield part

    def _chosen(self, names: list[str]) -> list[str]:
        wanted = self.settings.outputs
        if wanted is None or wanted == ALL:
            return names
        for name in wanted:
            if name not in names:
                raise UsageError(
                    f"the saved results have no value {name!r}", help=nearest(name, names)
                )
        return [name for name in names if name in wanted]

    def _check_recorded(self, run: Run) -> None:
        """Refuse results of other inputs, or of a model with other outputs."""
        assert run.values is not None
        if not self.found.inputs and not self.runners:
            self.found.inputs = run.inputs
        if len(run.values) != self.found.samples or (
            run.inputs and self.found.inputs and run.inputs != self.found.inputs
        ):
            raise ReferenceDataError(
                f"the saved results of {run.name!r} came from other inputs: they have "
                f"{len(run.values)} samples, and there are {self.found.samples} here",
                help="give the inputs that were saved with them (--load-inputs), or the same "
                "--generate",
            )
        if not run.inputs:
            self._note(f"nothing says which model and inputs {run.name!r} came from")
        own = [self._interface(runner.model) for runner in self.runners]
        if own and run.types and not any(set(names) & run.types.keys() for names in own):
            raise ReferenceDataError(
                f"the saved results of {run.name!r} came from another model: its outputs are "
                f"{', '.join(run.types)}",
                help=f"the model here gives {', '.join(own[0])}",
            )
        hashes = [self._hash(runner) for runner in self.runners]
        if hashes and run.model_hash and run.model_hash not in hashes:
            self._note(f"{run.name!r} was saved from a model that computes something else")

    def _interface(self, model: ir.Model) -> list[str]:
        return [str(value.name) for value in model.graph.outputs]

    def _hash(self, runner: Runner) -> str:
        if not self.settings.hashes:
            return ""
        key = id(runner.loader)
        if key not in self.hashes:
            self.hashes[key] = canonical_hash(runner.model)
        return self.hashes[key]

    def _note(self, text: str) -> None:
        if text not in self.found.notes:
            self.found.notes.append(text)

    def _execute(self, runner: Runner, run: Run) -> None:
        settings = self.settings
        model = runner.model
        run.types = {str(v.name): _type(v) for v in model.graph.outputs}
        run.model_hash = self._hash(runner)
        if not self._compiled(runner.engine, model, run):
            return
        try:
            run.details = runner.engine.describe()
            todo = plan(model, settings.outputs, self.samples, runner.engine, self.share)
        except EngineUnavailableError as error:
            run.state, run.reason = str(Level.ABSENT), str(error)
            return
        if settings.postprocess is not None:
            settings.postprocess.check(todo.outputs)
        self._check_limits([name for batch in todo.batches for name in batch.names])
        for note in todo.notes:
            self._note(note)
        self._note_fusion(runner.engine, todo)
        run.batches = len(todo.batches)
        run.names = [name for batch in todo.batches for name in batch.names]
        run.makers = {name: todo.makers[name] for name in run.names if name in todo.makers}
        tally = None
        if self.reference is None:
            self.reference = run
        else:
            tally = self._tally(run)
        spool = Spool(self.share) if settings.keep or tally is None else None
        run.values = spool
        try:
            self._batches(runner, run, todo, tally, spool)
        except EngineError as error:
            run.state, run.reason = FAILED, str(error)
            if tally is None:
                self.reference = None
            elif not tally.failed:
                self.tallies.remove(tally)

    def _batches(
        self, runner: Runner, run: Run, todo: Plan, tally: Tally | None, spool: Spool | None
    ) -> None:
        settings = self.settings
        seconds: list[float] = []
        for batch in todo.batches:
            with _session(runner, batch, as_it_is=todo.as_it_is) as session:
                for sample in range(len(self.samples)):
                    feeds = self.samples.sample(sample)
                    outputs = self._timed(session, feeds, batch, seconds)
                    if settings.validate:
                        self._validate(run, sample, outputs)
                    if spool is not None:
                        spool.put(sample, outputs)
                    if tally is not None:
                        tally.add(sample, outputs, todo.outputs)
                        if settings.fail_fast and tally.failed:
                            break
            if settings.fail_fast and tally is not None and tally.failed:
                break
        if tally is not None:
            tally.end(stopped=settings.fail_fast and tally.failed)
        run.latency = Latency.of(seconds) if todo.as_it_is else None

    def _timed(
        self, session: Session, feeds: Feeds, batch: Batch, seconds: list[float]
    ) -> Outputs:
        names = None if len(batch.names) == len(batch.model.graph.outputs) else batch.names
        outputs: Outputs = {}
        for turn in range(self.settings.warm_up + self.settings.iterations):
            start = time.perf_counter()
            outputs = session.run(feeds, names)
            if turn >= self.settings.warm_up:
                seconds.append(time.perf_counter() - start)
        return outputs

    def _tally(self, run: Run) -> Tally:
        assert self.reference is not None
        truth = None
        if self.runners:
            truth = Truth(self.runners[0].loader, self.samples)
        pair = Pair(self.reference.name, run.name, self.settings.judge.name)
        loose = self.settings.outputs == ALL or self.reference.state == SAVED
        tally = Tally(
            pair,
            self.reference,
            self.settings.judge,
            truth,
            postprocess=self.settings.postprocess,
            loose=loose,
        )
        tally.begin(run.names, {**self.reference.makers, **run.makers})
        self.tallies.append(tally)
        return tally

    def _compiled(self, engine: Engine, model: ir.Model, run: Run) -> bool:
        """Tell how far an engine gets that executes nothing; else say that this one may."""
        inner = compiler_of(engine)
        if inner is None:
            return True
        run.details = engine.describe()
        if inner.missing is not None:
            missing = inner.missing
            run.state, run.reason = str(Level.ABSENT), f"{missing.message} ({missing.help})"
            return False
        finding = examine(fitted(engine, model, distinct(self.samples)), model)
        run.state, run.reason = str(finding.level), finding.reason
        if finding.level is Level.BUILT:
            run.reason = f"for {inner.target}, not executed: {inner.not_executed}"
        return False

    def _check_limits(self, names: Sequence[str]) -> None:
        limits = self.settings.limits
        for name in limits.overrides if limits is not None else ():
            if name not in names and name.partition("[")[0] not in names:
                raise UsageError(
                    f"--rtol or --atol: there is no output {name!r}",
                    help=did_you_mean(name, names),
                )

    def _note_fusion(self, engine: Engine, todo: Plan) -> None:
        if todo.as_it_is or getattr(engine, "node_by_node", False):
            return
        self._note(
            f"{engine.name} fuses nodes where nobody asks for the values between them: with "
            "these outputs it may compute otherwise than without"
        )

    def _validate(self, run: Run, sample: int, outputs: Outputs) -> None:
        known = {found.output for found in self.found.invalid if found.run == run.name}
        for name, value in outputs.items():
            if name not in known and isinstance(value, np.ndarray):
                found = _invalid(run.name, name, sample, value)
                self.found.invalid += [found] if found is not None else []


def _invalid(run: str, name: str, sample: int, array: Array) -> Invalid | None:
    if kind_of(array.dtype) not in ("float", "complex"):
        return None
    bad = ~np.isfinite(array)
    if not bad.any():
        return None
    nan = int(np.isnan(array).sum())
    first = np.unravel_index(int(bad.argmax()), array.shape)
    inf = int(bad.sum()) - nan
    return Invalid(run, name, sample, nan, inf, tuple(int(i) for i in first))


@contextmanager
def _session(runner: Runner, batch: Batch, *, as_it_is: bool) -> Iterator[Session]:
    with runner.engine.prepare(runner.model if as_it_is else batch.model) as session:
        yield session


def _type(value: ir.Value) -> str:
    dtype = value.dtype.name.lower() if value.dtype is not None else "?"
    shape = "" if value.shape is None else ",".join(str(dim) for dim in value.shape)
    return f"{dtype}[{shape}]"
