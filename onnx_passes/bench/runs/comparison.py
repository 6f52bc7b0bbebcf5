"""Run models side by side on the same inputs, and compare their results.

A tally adds up the comparisons of a run with the reference, sample by sample.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import onnx_ir as ir

from onnx_passes.arrays import Array
from onnx_passes.bench.runs.judges import (
    LargestIndices,
    Measured,
    ResultJudge,
    SampleValues,
    Settings,
)
from onnx_passes.bench.runs.results import (
    FAILED,
    SAVED,
    FirstDifference,
    Found,
    Invalid,
    Pair,
    Run,
    Spool,
    feeds_digest,
)
from onnx_passes.bench.runs.runner import (
    ALL,
    Runner,
    RunPlan,
    check_sample,
    distinct,
    nearest,
    plan,
    type_text,
    unique_names,
)
from onnx_passes.contracts.scores import kind_of
from onnx_passes.errors import (
    EngineError,
    EngineUnavailableError,
    ReferenceDataError,
    UsageError,
    did_you_mean,
)
from onnx_passes.model.digest import canonical_hash
from onnx_passes.runtime.engine_base import (
    BUILT_ONLY,
    Data,
    Engine,
    Feeds,
    Level,
    Outputs,
    Session,
    examine,
)
from onnx_passes.runtime.ort import rounding_engine
from onnx_passes.runtime.tensorrt.engine import compiler_of, with_profiles_of
from onnx_passes.verify.evidence import OutputCheck
from onnx_passes.verify.recording import is_informative


class Tally:
    """Compares a run with the reference.

    ``pair`` is filled in. The values of ``reference`` are kept. ``postprocess`` applies first,
    to both sides. If ``loose``, values inside need not be in both.
    """

    def __init__(
        self,
        pair: Pair,
        reference: Run,
        judge: ResultJudge,
        *,
        postprocess: LargestIndices | None = None,
        loose: bool = False,
    ) -> None:
        self._pair, self._reference, self._judge = pair, reference, judge
        self._loose, self._postprocess = loose, postprocess
        self._worst: dict[str, OutputCheck] = {}
        self._order: dict[str, int] = {}
        self._makers: Mapping[str, str] = {}
        self._first: tuple[int, int, OutputCheck] | None = None
        self._seen: set[int] = set()
        self._stopped = False

    @property
    def failed(self) -> bool:
        """Whether a value differs."""
        return self._first is not None

    def begin(
        self, theirs: Sequence[str], names: Sequence[str], makers: Mapping[str, str]
    ) -> None:
        """Say which values both have, in topological order, and the nodes that make them."""
        ours = set(names)
        self._order = {n: i for i, n in enumerate(dict.fromkeys((*theirs, *names)))}
        self._makers = makers
        self._missing = [name for name in theirs if name not in ours]
        self._extra = {name for name in ours if name not in set(theirs)}

    def add(self, sample: int, outputs: Outputs, own: frozenset[str]) -> None:
        """Compare values of a sample; ``own`` are outputs of the model."""
        self._seen.add(sample)
        values = self._reference.values
        assert values is not None
        known = set(values.names(sample)) if sample < len(values) else set()
        if self._loose:
            outputs = {n: v for n, v in outputs.items() if n not in self._extra or n in own}
        expected = {
            n: values.get(sample, n) for n in self._order if n in outputs and n in known
        }
        if not outputs:
            return
        inner = frozenset(outputs) - own if own else frozenset()

        if self._postprocess is not None:
            expected = self._postprocess(expected, own | self._reference.types.keys())
            outputs = self._postprocess(outputs, own)
        side = SampleValues(expected, outputs, inner)
        for check in self._judge(side):
            self._merge(sample, check)

    def end(self, *, stopped: bool) -> None:
        """Say that all is compared, or the rest left out; what is missing counts now."""
        self._stopped = stopped
        if stopped:
            return
        required = set(self._missing)
        if self._loose:
            required &= set(self._reference.types)
        for name in self._missing:
            if name in required:
                self._merge(0, OutputCheck(name, passed=False, reason="is missing"))
            else:
                self._pair.only_reference.append(name)
        if self._loose:
            known = self._worst.keys()
            self._pair.only_candidate = sorted(
                self._extra - known, key=lambda name: self._order[name]
            )

    def pair(self) -> Pair:
        """Return what was found, values in topological order."""
        pair = self._pair
        pair.outputs = sorted(self._worst.values(), key=lambda c: self._place(c.output))
        pair.samples, pair.stopped = len(self._seen), self._stopped
        if self._first is not None:
            _, sample, check = self._first
            name = check.output if check.output in self._order else _base(check.output)
            pair.first = FirstDifference(check, sample, self._makers.get(name))
        return pair

    def _place(self, output: str) -> int:
        known = self._order.get(output, self._order.get(_base(output)))
        return len(self._order) if known is None else known

    def _merge(self, sample: int, check: OutputCheck) -> None:
        old = self._worst.get(check.output)
        self._worst[check.output] = check if old is None else _worse(old, check)
        if not check.passed:
            place = self._place(check.output)
            if self._first is None or place < self._first[0]:
                self._first = (place, sample, check)


def _base(output: str) -> str:
    return output.partition("[")[0]


def _worse(old: OutputCheck, new: OutputCheck) -> OutputCheck:
    """Return the worse of two samples' comparisons, with the largest errors of both."""
    worst = new if _rank(new) > _rank(old) else old
    return replace(
        worst,
        max_abs=_most(old.max_abs, new.max_abs),
        max_rel=_most(old.max_rel, new.max_rel),
        share=_most(old.share, new.share),
    )


def _most(one: float | None, other: float | None) -> float | None:
    return max((v for v in (one, other) if v is not None), default=None)


def _rank(check: OutputCheck) -> tuple[bool, float]:
    if isinstance(check, Measured):
        return not check.passed, check.badness
    if check.rmse_new is not None and check.share is not None:
        return not check.passed, check.share  # the two errors reported are those of one sample
    return not check.passed, check.max_abs or 0.0


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
            self.found.inputs = [feeds_digest(feeds) for feeds in self.samples]

    def run(self) -> Found:
        for run in self.recorded:
            self._take(run)
        for place, (runner, name) in enumerate(zip(self.runners, self.names, strict=True)):
            run = Run(name, runner.loader.name, runner.engine.name)
            self.found.runs.append(run)
            self._progress(place, 0.0)
            self._execute(runner, run, place)
        self.found.pairs = [tally.pair() for tally in self.tallies]
        if self.tallies and self.reference is not None:
            self._note_constant(self.reference)
        return self.found

    def _note_constant(self, run: Run) -> None:
        """Note outputs that no wrong weight would change: each element is one number."""
        assert run.values is not None
        found = (run.values.sample(k) for k in range(len(run.values)))
        rows = [{name: row.get(name) for name in run.types} for row in found]
        for name in run.types:
            arrays = [a for r in rows if isinstance(a := r[name], np.ndarray) and a.size > 1]
            if not arrays or kind_of(arrays[0].dtype) != "float":
                continue
            if not is_informative(arrays, lambda: True):
                number = f"{arrays[0].flat[0]:g}"
                self._note(f"{name} is {number} everywhere: that models agree says little")

    def _take(self, run: Run) -> None:
        """Compare what an earlier run gave."""
        self.found.runs.append(run)
        assert run.values is not None
        self._admit(run)
        if not self.runners:
            # With a model here its values decide what a name is.
            check_limits(self.settings, run.names)
            if self.settings.postprocess is not None:
                self.settings.postprocess.check({*run.types, *run.names})
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
            todo = plan(model, settings.outputs, self.samples, engine, settings.share)
        except EngineUnavailableError as error:
            run.state, run.reason = str(Level.ABSENT), error.sentence
            return
        except EngineError as error:
            run.state, run.reason = FAILED, error.sentence
            return
        run.names = [name for batch in todo.batches for name in batch.names]
        if settings.postprocess is not None:
            settings.postprocess.check({*todo.outputs, *run.names})
        check_limits(settings, run.names)
        for note in (*todo.notes, *fusion_notes(runner.engine, todo)):
            self._note(note)
        for note in rounding_notes(run.name, engine, model):
            self._note(note)
        run.batches = len(todo.batches)
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
        count, parts = 0, len(todo.batches) * len(self.samples)
        for batch in todo.batches:
            with engine.prepare(whole if todo.as_it_is else batch.model()) as session:
                for note in placement_notes(engine, session):
                    self._note(note)
                for sample in range(len(self.samples)):
                    feeds = self.samples.sample(sample)
                    outputs = session.run(feeds, batch.names)
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

    def _tally(self, run: Run) -> Tally:
        assert self.reference is not None
        pair = Pair(self.reference.name, run.name, self.settings.judge.name)
        loose = self.settings.outputs == ALL or self.reference.state == SAVED
        tally = Tally(
            pair,
            self.reference,
            self.settings.judge,
            postprocess=self.settings.postprocess,
            loose=loose,
        )
        theirs = self.reference.names
        if wanted := self.settings.wanted:
            theirs = [name for name in theirs if name in wanted]
        tally.begin(theirs, run.names, {**self.reference.makers, **run.makers})
        self.tallies.append(tally)
        return tally

    def _validate(self, run: Run, sample: int, outputs: Outputs) -> None:
        known = {found.output for found in self.found.invalid if found.run == run.name}
        for name, value in outputs.items():
            if name not in known and isinstance(value, np.ndarray):
                found = not_finite(run.name, name, sample, value)
                self.found.invalid += [found] if found is not None else []


def not_finite(run: str, name: str, sample: int, array: Array) -> Invalid | None:
    """Return what is not finite in a value; None if all of it is finite."""
    if kind_of(array.dtype) not in ("float", "complex"):
        return None
    bad = ~np.isfinite(array)
    if not bad.any():
        return None
    nan = int(np.isnan(array).sum())
    first = np.unravel_index(int(bad.argmax()), array.shape)
    inf = int(bad.sum()) - nan
    return Invalid(run, name, sample, nan, inf, tuple(int(i) for i in first))


def may_execute(runner: Runner, samples: Spool, run: Run) -> bool:
    """Whether an engine may execute a model; if not, note in ``run`` how far it gets."""
    engine, model = runner.engine, runner.model
    inner = compiler_of(engine)
    if inner is None:
        return True
    run.details = engine.describe()
    if inner.missing is not None:
        run.state, run.reason = str(Level.ABSENT), inner.missing.sentence
        return False
    if inner.executes:
        return True
    engine = with_profiles_of(engine, model, distinct(samples))
    finding = examine(engine, model)
    run.state, run.reason = str(finding.level), finding.reason
    if finding.level is Level.BUILT:
        run.reason = f"for {inner.target}, not executed: {inner.not_executed}"
    return False


def check_limits(settings: Settings, names: Sequence[str]) -> None:
    """Raise UsageError for limits of outputs that are not among ``names``."""
    limits = settings.limits
    for name in limits.overrides if limits is not None else ():
        if name not in names and name.partition("[")[0] not in names:
            raise UsageError(
                f"--rtol or --atol: there is no output {name!r}",
                help=did_you_mean(name, names),
            )


def fusion_notes(engine: Engine, todo: RunPlan) -> list[str]:
    """Return what a reader must know of an engine that fuses less for inner values."""
    if todo.as_it_is or getattr(engine, "node_by_node", False):
        return []
    if compiler_of(engine) is not None:
        count = sum(len(batch.names) for batch in todo.batches)
        return [
            f"{engine.name} builds an engine for each of {len(todo.batches)} batches, "
            f"with {count} values marked as outputs: it fuses less than without"
        ]
    return [
        f"{engine.name} fuses nodes where nobody asks for the values between them: with "
        "these outputs it may compute otherwise than without"
    ]


def rounding_notes(name: str, engine: Engine, model: ir.Model) -> list[str]:
    """Return what a reader must know of an engine that hides the rounding of narrow floats."""
    if rounding_engine(engine, model) is engine:
        return []
    return [
        f"{name} may compute values below float32 in float32, which hides what "
        "overflows: -e onnxruntime rounds each"
    ]


def placement_notes(engine: Engine, session: Session) -> list[str]:
    """Return which providers run how many nodes, if the session says so."""
    placed: dict[str, int] = getattr(session, "placed", {})
    told = ", ".join(f"{name} {count}" for name, count in placed.items())
    return [f"nodes by provider on {engine.name}: {told}"] if placed else []


def parts(run: Run, sample: int, settings: Settings) -> Iterator[Outputs]:
    """Yield saved values, as many at once as fit in memory; UsageError if one is missing."""
    values = run.values
    assert values is not None
    part: dict[str, Data] = {}
    held = 0
    for name in _chosen(values.names(sample), settings.wanted):
        part[name] = values.get(sample, name)
        held += int(getattr(part[name], "nbytes", 0))
        if held >= settings.share:
            yield part
            part, held = {}, 0
    if part:
        yield part


def _chosen(names: list[str], wanted: Sequence[str] | None) -> list[str]:
    for name in wanted or ():
        if name not in names:
            raise UsageError(
                f"the saved results have no value {name!r}", help=nearest(name, names)
            )
    return [name for name in names if wanted is None or name in wanted]


def admit(run: Run, found: Found, models: Sequence[tuple[ir.Model, str]]) -> Iterator[str]:
    """Refuse results of other inputs, or of a model with other outputs.

    ``found`` knows the number of samples, and the digests of their inputs. Each model comes
    with its hash. Yield what a reader has to know about the results; ReferenceDataError if
    they belong to something else.
    """
    count = len(run.values or ())
    known = bool(run.inputs and found.inputs)
    if count != found.samples or (known and run.inputs != found.inputs):
        raise ReferenceDataError(
            f"the saved results of {run.name!r} came from other inputs: they have {count} "
            f"samples, and there are {found.samples} here",
            help="give the inputs that were saved with them (--load-inputs), or the same "
            "--generate",
        )
    if not run.inputs:
        yield f"nothing says which model and inputs {run.name!r} came from"
    own = [[str(value.name) for value in model.graph.outputs] for model, _ in models]
    if own and run.types and not any(set(names) & run.types.keys() for names in own):
        raise ReferenceDataError(
            f"the saved results of {run.name!r} came from another model: its outputs are "
            f"{', '.join(run.types)}",
            help=f"the model here gives {', '.join(own[0])}",
        )
    hashes = [own_hash for _, own_hash in models if own_hash]
    if hashes and run.model_hash and run.model_hash not in hashes:
        yield f"{run.name!r} was saved from a model with other nodes or weights"
