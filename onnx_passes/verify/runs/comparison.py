"""Run models side by side on the same inputs, and compare what they give."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from onnx_passes.errors import (
    EngineError,
    EngineUnavailableError,
    UsageError,
)
from onnx_passes.model.fingerprint import canonical_hash
from onnx_passes.runtime.compiler_levels import BUILT_ONLY, Level
from onnx_passes.runtime.engine_base import Feeds, Outputs
from onnx_passes.runtime.tensorrt.engine import with_profiles_of
from onnx_passes.verify.runs.batches import ALL, RunPlan, distinct
from onnx_passes.verify.runs.earlier_runs import admit, parts
from onnx_passes.verify.runs.engine_run import (
    check_limits,
    fusion_notes,
    may_execute,
    placement_notes,
    plan_run,
    timed_run,
)
from onnx_passes.verify.runs.finite import not_finite
from onnx_passes.verify.runs.found import FAILED, SAVED, Found, Pair, Run
from onnx_passes.verify.runs.inputs import digest_of
from onnx_passes.verify.runs.runner import Runner, check_sample, type_text, unique_names
from onnx_passes.verify.runs.settings import Settings
from onnx_passes.verify.runs.spool import Spool
from onnx_passes.verify.runs.tally import Tally, WideValues
from onnx_passes.verify.runs.timed import Latency


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
        saved = [run.name for run in self.recorded]
        names = unique_names([*saved, *(runner.name for runner in runners)])
        self.recorded = [
            replace(run, name=name) for run, name in zip(self.recorded, names, strict=False)
        ]
        self.names = names[len(saved) :]
        if runners:
            if settings.outputs is not None:
                # Values are what the memory is for.
                for runner in runners:
                    runner.loader.offload()
            self._read(samples)
        else:
            self.found.samples = len(recorded[0].values or ())

    def _read(self, samples: Iterable[Feeds]) -> None:
        loaders = dict.fromkeys(runner.loader for runner in self.runners)
        models = [(loader.name, loader()) for loader in loaders]
        for index, feeds in enumerate(samples):
            for loader, model in models:
                check_sample(index, feeds, loader, model)
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
            check_limits(self.settings, run.names)
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
        run.types = {str(v.name): type_text(v) for v in model.graph.outputs}
        run.model_hash = self._hash(runner)
        if not may_execute(runner, self.samples, run):
            return
        engine = with_profiles_of(runner.engine, model, distinct(self.samples))
        runner = Runner(runner.loader, engine, name=runner.name)
        try:
            run.details = engine.describe()
            todo = plan_run(engine, model, self.samples, settings)
        except EngineUnavailableError as error:
            run.state, run.reason = str(Level.ABSENT), error.sentence
            return
        except EngineError as error:
            run.state, run.reason = FAILED, error.sentence
            return
        if settings.postprocess is not None:
            settings.postprocess.check(todo.outputs)
        check_limits(settings, [name for batch in todo.batches for name in batch.names])
        for note in (*todo.notes, *fusion_notes(runner.engine, todo)):
            self._note(note)
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
        engine, whole = runner.engine, runner.model
        seconds: list[float] = []
        count, parts = 0, len(todo.batches) * len(self.samples)
        for batch in todo.batches:
            with engine.prepare(whole if todo.as_it_is else batch.model()) as session:
                for note in placement_notes(engine, session):
                    self._note(note)
                for sample in range(len(self.samples)):
                    feeds = self.samples.sample(sample)
                    names = None if todo.watched else batch.names
                    outputs = timed_run(session, feeds, names, settings, seconds)
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
            if settings.fail_fast and tally is not None and tally.failed:
                break
        if tally is not None:
            tally.end(stopped=settings.fail_fast and tally.failed)
        unchanged = todo.as_it_is and not todo.watched
        run.latency = Latency.of(seconds) if unchanged else None

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

    def _validate(self, run: Run, sample: int, outputs: Outputs) -> None:
        known = {found.output for found in self.found.invalid if found.run == run.name}
        for name, value in outputs.items():
            if name not in known and isinstance(value, np.ndarray):
                found = not_finite(run.name, name, sample, value)
                self.found.invalid += [found] if found is not None else []
