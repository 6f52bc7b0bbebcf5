"""Run models side by side on the same inputs, and compare what they give."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import onnx_ir as ir

from onnx_passes.errors import (
    EngineError,
    EngineUnavailableError,
    ReferenceDataError,
    UsageError,
)
from onnx_passes.model.fingerprint import canonical_hash
from onnx_passes.runtime.base import Engine, Feeds, Outputs, Session
from onnx_passes.runtime.interface import did_you_mean
from onnx_passes.runtime.layers import layers_of
from onnx_passes.runtime.levels import BUILT_ONLY, Level, examine
from onnx_passes.runtime.tensorrt.engine import compiler_of, fitted
from onnx_passes.verify.feeds import check_feeds
from onnx_passes.verify.runs.batches import ALL, RunPlan, SessionBatch, distinct, makers, plan
from onnx_passes.verify.runs.finite import not_finite
from onnx_passes.verify.runs.found import FAILED, SAVED, Found, Pair, Run
from onnx_passes.verify.runs.inputs import digest_of
from onnx_passes.verify.runs.recorded import admit, parts
from onnx_passes.verify.runs.runner import Runner
from onnx_passes.verify.runs.settings import Settings
from onnx_passes.verify.runs.spool import Spool
from onnx_passes.verify.runs.tally import Tally, WideValues
from onnx_passes.verify.runs.timed import Latency
from onnx_passes.verify.runs.timing import list_layers


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
        self.share = settings.share
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
        loaders = dict.fromkeys(runner.loader for runner in self.runners)
        models = [(loader.name, loader()) for loader in loaders]
        for index, feeds in enumerate(samples):
            for loader, model in models:
                _check_sample(index, feeds, loader, model)
            self.samples.put(index, feeds)
        if not len(self.samples):
            raise UsageError("there are no inputs to run the models on")
        self.found.samples = len(self.samples)
        if self.settings.hashes:
            self.found.inputs = [digest_of(feeds) for feeds in self.samples]

    def run(self) -> Found:
        for run in self.recorded:
            self._take(run)
        for place, (runner, name) in enumerate(zip(self.runners, self.names, strict=True)):
            run = Run(name, runner.loader.name, runner.engine.name)
            self.found.runs.append(run)
            self._progress(place, 0.0)
            self._execute(runner, run, place)
        self.found.pairs = [tally.pair() for tally in self.tallies]
        return self.found

    def _take(self, run: Run) -> None:
        """Compare what an earlier run gave."""
        self.found.runs.append(run)
        assert run.values is not None
        self._admit(run)
        if not self.runners:
            # With a model here its values decide what a name is.
            self._check_limits(run.names)
            if self.settings.postprocess is not None:
                self.settings.postprocess.check(run.types or run.names)
        if self.settings.validate:
            for sample in range(len(run.values)):
                for part in parts(run, sample, self.settings):
                    self._validate(run, sample, part)
        if self.reference is None:
            self.reference = run
            return
        tally = self._tally(run)
        for sample in range(len(run.values)):
            for part in parts(run, sample, self.settings):
                tally.add(sample, part, frozenset(run.types))
            if self.settings.fail_fast and tally.failed:
                break
        tally.end(stopped=self.settings.fail_fast and tally.failed)

    def _admit(self, run: Run) -> None:
        if not self.found.inputs and not self.runners:
            self.found.inputs = run.inputs
        models = [(runner.model, self._hash(runner)) for runner in self.runners]
        for note in admit(run, self.found, models):
            self._note(note)

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

    def _progress(self, place: int, share: float) -> None:
        """Say how far the runs are: those before a place, and a share of the one at it."""
        samples = len(self.samples)
        done = int(samples * (place + share) + 1e-9)
        self.settings.progress(done, samples * len(self.runners))

    def _execute(self, runner: Runner, run: Run, place: int) -> None:
        settings = self.settings
        model = runner.model
        run.types = {str(v.name): _type(v) for v in model.graph.outputs}
        run.model_hash = self._hash(runner)
        if not self._compiled(runner, model, run):
            return
        engine = fitted(runner.engine, model, distinct(self.samples))
        tell_layers = runner.tell_layers
        runner = Runner(runner.loader, engine, name=runner.name, tell_layers=tell_layers)
        try:
            run.details = engine.describe()
            todo = self._plan(engine, model)
        except EngineUnavailableError as error:
            run.state, run.reason = str(Level.ABSENT), error.sentence
            return
        except EngineError as error:
            run.state, run.reason = FAILED, error.sentence
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
            self._batches(runner, run, todo, tally, spool, place)
        except EngineError as error:
            run.state, run.reason = FAILED, error.sentence
            if error.message.startswith(BUILT_ONLY):
                # There is a GPU, and it does not take what was built.
                run.state = str(Level.BUILT)
            if tally is None:
                self.reference = None
            elif not tally.failed:
                self.tallies.remove(tally)

    def _plan(self, engine: Engine, model: ir.Model) -> RunPlan:
        """Divide what is wanted into batches; with debug tensors one, as TensorRT reports.

        Raises:
            EngineError: TensorRT does not run the model, and so reports nothing.
        """
        wanted = self.settings.outputs
        inner = compiler_of(engine)
        if wanted != ALL or inner is None or not inner.options.watch:
            return plan(model, wanted, self.samples, engine, self.share)
        with engine.prepare(model) as session:
            names = tuple(session.run(self.samples.sample(0)))
        own = frozenset(str(value.name) for value in model.graph.outputs)
        note = (
            f"{engine.name} keeps its fusion: compared are the {len(names) - len(own)} debug "
            "tensors between its kernels, by TensorRT's names"
        )
        return RunPlan(
            (SessionBatch(model, names),), own, makers(model), (note,), watched=True
        )

    def _batches(
        self,
        runner: Runner,
        run: Run,
        todo: RunPlan,
        tally: Tally | None,
        spool: Spool | None,
        place: int,
    ) -> None:
        settings = self.settings
        seconds: list[float] = []
        count, parts = 0, len(todo.batches) * len(self.samples)
        for batch in todo.batches:
            with _session(runner, batch, as_it_is=todo.as_it_is) as session:
                self._note_placement(runner.engine, session)
                for sample in range(len(self.samples)):
                    feeds = self.samples.sample(sample)
                    names = None if todo.watched else batch.names
                    outputs = self._timed(session, feeds, names, seconds)
                    if settings.validate:
                        self._validate(run, sample, outputs)
                    if spool is not None:
                        spool.put(sample, outputs)
                    if tally is not None:
                        tally.add(sample, outputs, todo.outputs)
                    # They would stay while the next session is made ready and runs.
                    outputs = {}
                    count += 1
                    self._progress(place, count / parts)
                    if settings.fail_fast and tally is not None and tally.failed:
                        break
                if runner.tell_layers:
                    run.layers += layers_of(session)
            if settings.fail_fast and tally is not None and tally.failed:
                break
        if tally is not None:
            tally.end(stopped=settings.fail_fast and tally.failed)
        unchanged = todo.as_it_is and not todo.watched
        run.latency = Latency.of(seconds) if unchanged else None

    def _timed(
        self,
        session: Session,
        feeds: Feeds,
        names: Sequence[str] | None,
        seconds: list[float],
    ) -> Outputs:
        outputs: Outputs = {}
        for turn in range(self.settings.warm_up + self.settings.iterations):
            start = time.perf_counter()
            outputs = session.run(feeds, names)
            if turn >= self.settings.warm_up:
                seconds.append(time.perf_counter() - start)
        return outputs

    def _tally(self, run: Run) -> Tally:
        assert self.reference is not None
        right = self._right()
        truth = None if right is None else WideValues(right.loader, self.samples)
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
        theirs = self.reference.names
        if wanted := self.settings.wanted:
            theirs = [name for name in theirs if name in wanted]
        tally.begin(theirs, run.names, {**self.reference.makers, **run.makers})
        self.tallies.append(tally)
        return tally

    def _right(self) -> Runner | None:
        """Return the runner of the model that is held to be right, if it is here."""
        assert self.reference is not None
        for runner, name in zip(self.runners, self.names, strict=True):
            if name == self.reference.name:
                return runner
            if self.reference.state == SAVED and self.reference.model_hash == self._hash(
                runner
            ):
                return runner
        return None

    def _compiled(self, runner: Runner, model: ir.Model, run: Run) -> bool:
        """Say how far an engine gets that executes nothing; else say that this one may."""
        engine = runner.engine
        inner = compiler_of(engine)
        if inner is None:
            return True
        run.details = engine.describe()
        if inner.missing is not None:
            run.state, run.reason = str(Level.ABSENT), inner.missing.sentence
            return False
        if inner.executes:
            return True
        engine = fitted(engine, model, distinct(self.samples))
        finding = examine(engine, model)
        if runner.tell_layers and finding.level is Level.BUILT:
            run.layers, _ = list_layers(engine, runner, ())
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

    def _note_fusion(self, engine: Engine, todo: RunPlan) -> None:
        if todo.as_it_is or getattr(engine, "node_by_node", False):
            return
        if compiler_of(engine) is not None:
            count = sum(len(batch.names) for batch in todo.batches)
            self._note(
                f"{engine.name} builds an engine for each of {len(todo.batches)} batches, "
                f"with {count} values marked as outputs: it fuses less than without; 'watch: "
                "true' keeps fusion, and tells the values between kernels"
            )
            return
        self._note(
            f"{engine.name} fuses nodes where nobody asks for the values between them: with "
            "these outputs it may compute otherwise than without"
        )

    def _note_placement(self, engine: Engine, session: Session) -> None:
        placed: dict[str, int] = getattr(session, "placed", {})
        if placed:
            told = ", ".join(f"{name} {count}" for name, count in placed.items())
            self._note(f"nodes by provider on {engine.name}: {told}")

    def _validate(self, run: Run, sample: int, outputs: Outputs) -> None:
        known = {found.output for found in self.found.invalid if found.run == run.name}
        for name, value in outputs.items():
            if name not in known and isinstance(value, np.ndarray):
                found = not_finite(run.name, name, sample, value)
                self.found.invalid += [found] if found is not None else []


def _check_sample(index: int, feeds: Feeds, name: str, model: ir.Model) -> None:
    try:
        check_feeds(feeds, model, {}, allow_nan=True)
    except ReferenceDataError as error:
        error.where = error.where or f"sample {index} for {name}"
        raise


@contextmanager
def _session(runner: Runner, batch: SessionBatch, *, as_it_is: bool) -> Iterator[Session]:
    with runner.engine.prepare(runner.model if as_it_is else batch.model()) as session:
        yield session


def _type(value: ir.Value) -> str:
    dtype = value.dtype.name.lower() if value.dtype is not None else "?"
    shape = "" if value.shape is None else ",".join(str(dim) for dim in value.shape)
    return f"{dtype}[{shape}]"
