"""Checks at checkpoints and at the end: a whole data set, and the pass that drifted.

A drift that is too large is traced to a pass and its rewrites.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import onnx_ir as ir

from onnx_passes.configs.engine_configs import options_of
from onnx_passes.configs.schema import EngineUse, PipelineConfig
from onnx_passes.configs.sections import When
from onnx_passes.contracts import Tolerance
from onnx_passes.data.dataset import DataSet
from onnx_passes.data.demand import Accuracy, Demand, RunOutcome
from onnx_passes.data.evaluation_job import DataJob, EngineChoice, ModelFile, RunSpec
from onnx_passes.data.evaluation_result import DataResult, save_worst
from onnx_passes.data.input_binding import DataInterface
from onnx_passes.data.job_evaluation import evaluate
from onnx_passes.data.measures import Measures
from onnx_passes.data.plan import make_plan
from onnx_passes.data.shard_evaluation import WorkerProcessors
from onnx_passes.data.workers import choose_executor
from onnx_passes.errors import OnnxPassesError
from onnx_passes.model.save import save_model
from onnx_passes.model.walk import bytes_before_folding
from onnx_passes.passes.context import Application, PassContext, Rewrites
from onnx_passes.pipeline.culprit import (
    Culprit,
    Judgement,
    error_of,
    find_culprits,
    pairs_around,
)
from onnx_passes.pipeline.gate import AMPLIFIED, Gate
from onnx_passes.pipeline.pass_execution import LEAST_RUNS, Attempts
from onnx_passes.pipeline.reproducer import Failure, leave_reproducer
from onnx_passes.pipeline.state import Checked, Kept
from onnx_passes.plain import PlainDict
from onnx_passes.report.data_results import verdict_text
from onnx_passes.report.run_report import Blame, RunReport
from onnx_passes.runtime.engine_base import Data
from onnx_passes.runtime.tensorrt.engine import compiler_of
from onnx_passes.verify.evidence import (
    ENGINE,
    EXECUTED,
    LEVEL,
    Check,
    MetricCheck,
    OutputCheck,
    Verdict,
)
from onnx_passes.verify.judge import NOISE_FACTOR, exceeds_noise, geometric_mean, resolution
from onnx_passes.verify.reference_data import ReferenceData
from onnx_passes.verify.shrink import Case, first_above, first_true
from onnx_passes.verify.snapshot import Change, Snapshot

KIND = "data set"
FEW = 3
"""Samples that each pass is checked on, where the pipeline does not say."""

_VERDICTS = {RunOutcome.PASSED: Verdict.PASSED, RunOutcome.FAILED: Verdict.FAILED}


class WholeData:
    """Holds models against the original over the data set of a pipeline."""

    def __init__(self, config: PipelineConfig, original: ir.Model) -> None:
        self._config, self._original = config, original
        data, accuracy = config.reference.data, config.verify.accuracy
        if data is None:
            raise ValueError("the pipeline has no data set")
        self._scores = data.scores
        spec = data.spec(
            str(config.folder or Path()),
            early=accuracy is not None and accuracy.early,
            allow_nan=config.reference.allow_nan,
        )
        self._plan = make_plan(spec, DataInterface.of(original))
        self.reproducer: str | None = None
        """The folder of the last reproducer; None before one is written."""

    def first_samples(self) -> ReferenceData:
        """Return the samples that each pass is checked on: the first of the order."""
        plan = self._plan
        data = DataSet(plan)
        count = min(self._config.reference.samples or FEW, plan.used)
        rows = data.rows(0, count)
        samples = [data.feeds(int(row)) for row in rows]
        expected: list[dict[str, Data]] | None = None
        if plan.binding.labels is not None:
            name = self._scores or str(self._original.graph.outputs[0].name)
            labels = [np.asarray(label) for label in data.take(rows)[plan.binding.labels]]
            stacked = plan.binding.stacked
            expected = [{name: label[None] if stacked else label} for label in labels]
        return ReferenceData(samples, expected, f"the first {count} of {plan.used:,} samples")

    def check(
        self, model: ir.Model, moments: Sequence[When], small: Sequence[Check]
    ) -> list[Check]:
        """Compare a model with the original on every engine that executes at a moment.

        ``small`` are the checks on few samples, with the limits that were raised above noise.
        """
        uses = [use for use in self._config.engines if use.when in moments]
        found: list[Check] = []
        with tempfile.TemporaryDirectory(prefix="onnx-passes-") as folder:
            paths = Path(folder) / "original.onnx", Path(folder) / "result.onnx"
            for path, one in zip(paths, (self._original, model), strict=True):
                save_model(one, path)
            for use in uses:
                choice = EngineChoice(use.name, options_of(self._config, use))
                engine = choice.make()
                compiler = compiler_of(engine)
                if compiler is None or compiler.executes:
                    limits = _applied(small, engine.name)
                    found.append(self._on(use, choice, engine.name, paths, limits))
        return found

    def _on(
        self,
        use: EngineUse,
        choice: EngineChoice,
        name: str,
        paths: tuple[Path, Path],
        limits: Mapping[str, Tolerance],
    ) -> Check:
        start = time.perf_counter()
        try:
            result = self._evaluate(choice, paths, limits)
        except OnnxPassesError as error:
            reason = f"over the data set: {error.message}"
            return Check(KIND, Verdict.NOT_VERIFIED, name, reason=reason)
        verdict = _VERDICTS.get(result.outcome, Verdict.NOT_VERIFIED)
        if verdict is Verdict.FAILED:
            self._reproduce(result, use, paths)
        return Check(
            KIND,
            verdict,
            name,
            reason=None if verdict is Verdict.PASSED else verdict_text(result.data),
            seconds=time.perf_counter() - start,
            outputs=_outputs(result),
            metrics=_metrics(result),
        )

    def _evaluate(
        self, choice: EngineChoice, paths: tuple[Path, Path], limits: Mapping[str, Tolerance]
    ) -> DataResult:
        config = self._config
        data, accuracy = config.reference.data, config.verify.accuracy
        assert data is not None
        limit = None
        if accuracy is not None:
            limit = Accuracy(accuracy.drop, accuracy.confidence, accuracy.early)
        rule = Demand(limit)
        job = DataJob(
            self._plan,
            tuple(ModelFile.of(path) for path in paths),
            tuple(RunSpec(place, choice, path.stem) for place, path in enumerate(paths)),
            Measures.of(Tolerance(), limits, scores=data.scores),
            config.imports,
        )
        executor = choose_executor(data.jobs, data.scheduler)
        return evaluate(
            job, rule, executor, accept=WorkerProcessors(job, allow_mixed=False).accept
        )

    def _reproduce(self, result: DataResult, use: EngineUse, paths: tuple[Path, Path]) -> None:
        """Leave both models, the worst samples, and how to compare them again."""
        if not self._config.reproducers:
            return
        folder = _free(Path(self._config.reproducers))
        for path, model in zip(paths, result.job.models, strict=True):
            for name in model.files:
                goal = folder / name
                goal.parent.mkdir(parents=True, exist_ok=True)
                goal.write_bytes((path.parent / name).read_bytes())
        save_worst(result, folder / "worst", models=[folder / path.name for path in paths])
        (folder / "result.json").write_text(result.text(), encoding="utf-8")
        engine = {use.name: dict(result.job.runs[0].engine.options)}
        (folder / "engine.json").write_text(json.dumps(engine, indent=2), encoding="utf-8")
        self.reproducer = str(folder)


def _applied(checks: Sequence[Check], engine: str) -> dict[str, Tolerance]:
    """Return the limits that an engine's outputs were held to."""
    return {
        output.output: Tolerance(output.rtol, output.atol)
        for check in checks
        if check.kind == "drift" and check.engine == engine
        for output in check.outputs
        if output.rtol or output.atol
    }


def _free(folder: Path) -> Path:
    number = 0
    while (free := folder / f"data-set-{number}").exists():
        number += 1
    return free


def _outputs(result: DataResult) -> tuple[OutputCheck, ...]:
    (pair,) = result.data["pairs"]
    if "accuracy" in pair["verdict"]:
        return ()
    return tuple(
        OutputCheck(
            name,
            passed=not found["failing_samples"],
            max_abs=None if found["rmse"] is None else float(found["max_abs"]),
            mismatched=found["failing_elements"],
            size=found["elements"],
        )
        for name, found in pair["found"]["outputs"].items()
    )


def _metrics(result: DataResult) -> tuple[MetricCheck, ...]:
    (pair,) = result.data["pairs"]
    found = pair["verdict"].get("accuracy")
    if found is None:
        return ()
    value, limit = float(found["drop"]), float(found["limit"])
    return (MetricCheck("accuracy drop", value, -1.0, limit, found["samples"]),)


@dataclass(frozen=True)
class Drifted:
    """A result that is too far from the original."""

    original: Snapshot
    result: ir.Model
    kept: Sequence[Kept]
    checks: Sequence[Check]
    gate: Gate
    config: PipelineConfig
    plain: PlainDict
    report: RunReport
    name: str
    title: str

    @cached_property
    def file_bytes(self) -> int:
        """What the file of the original takes, about, less what was folded into it."""
        return bytes_before_folding(self.original.model)


@dataclass
class DriftTrace:
    """What a drift was traced to; ``folder`` holds the reproducer."""

    blame: list[Blame] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    folder: str | None = None


def trace_drift(drifted: Drifted, error: str) -> DriftTrace:
    """Find out what took a result too far from the original, and leave a reproducer."""
    traced = DriftTrace()
    judgement = Judgement.of(drifted.gate, drifted.checks)
    level = judgement is not None and judgement.check.kind == LEVEL
    if judgement is None or not (level or judgement.samples):
        return traced
    pairs: list[Case] = []
    of_engine = judgement.check.kind == ENGINE
    try:
        tracer = _Tracer(drifted, judgement, traced)
        if level:
            tracer.find_lost_support()
        elif drifted.gate.only_amplifies(judgement.check):
            traced.notes.append(AMPLIFIED)
        elif not of_engine:
            pairs += tracer.run()
    except Exception as failure:
        # It explains a failure that is already certain, and must not replace it.
        told = failure.message if isinstance(failure, OnnxPassesError) else str(failure)
        what = "lost support" if level else "drift"
        traced.notes.append(f"the {what} was not traced to a pass: {told}")
    pairs.append(Case(drifted.original.model, drifted.result, {}, "the whole models"))
    if drifted.config.reproducers:
        contract = "within the drift tolerance of the original"
        steps = [kept.step.text for kept in drifted.kept]
        one = Failure(
            judgement,
            drifted.name,
            drifted.title,
            error,
            contract,
            pairs,
            steps,
            traced.blame,
        )
        traced.folder, notes = leave_reproducer(one, drifted.config, drifted.report)
        traced.notes += notes
    return traced


@dataclass
class _Tracer:
    drifted: Drifted
    judgement: Judgement
    traced: DriftTrace

    def run(self) -> list[Case]:
        """Find the pass, then what is wrong in it; return the models around that."""
        drifted = self.drifted
        states = self._states()
        final = self._error(drifted.result)
        noise = resolution(self.judgement.bench.original, drifted.gate.baseline.unstable)
        threshold = geometric_mean(noise, final)
        place, good, bad = first_above(
            len(states) - 1, lambda n: self._error(states[n].model), final, threshold
        )
        if place and exceeds_noise(good, bad, noise):
            before, after = states[place - 1 : place + 1]
            return self._within(drifted.kept[place - 1], before, after.model, threshold)
        self.traced.notes.append(
            "no single pass is to blame: the error grows little by little, and at no pass "
            f"by {NOISE_FACTOR:g} times ({good:.3g} -> {bad:.3g}, the noise is {noise:.3g})"
        )
        whole = drifted.original.model, drifted.result
        for blame in self.judgement.blame((), *whole, (None, "the pipeline")):
            assert blame.value is not None
            for kept in drifted.kept:  # the last pass that put a node there
                if any(blame.value.output in p for a in kept.applied for p in a.replaced):
                    blame.step, blame.name = kept.index, kept.step.text
            self.traced.blame.append(blame)
        return []

    def find_lost_support(self) -> None:
        """Name the rewrites whose regions a compiler does not take, or else the pass.

        Where it executes, those are named whose values differ there.
        """
        drifted, states = self.drifted, self._states()
        executed = self.judgement.check.level == EXECUTED
        for kept, before, after in zip(drifted.kept, states, states[1:], strict=False):
            changed = before.model, after.model, kept.applied
            parts = self.judgement.wrong_parts(changed, drifted.result)
            found = [Culprit(one, p.how, p.value) for p in parts for one in p.rewrites]
            place = kept.index, kept.step.text
            self.traced.blame += self.judgement.blame(found, before.model, after.model, place)
        if executed and not self.traced.blame:
            self.traced.notes.append(
                "no rewrite is wrong by itself on that engine: each region keeps its promise"
            )
        if executed or self.traced.blame or not drifted.kept:
            return
        compiler = self.judgement.compiler
        wanted = compiler.original.level.rank

        def lost(count: int) -> bool:
            return compiler.finding(states[count].model).level.rank < wanted

        kept = drifted.kept[first_true(len(drifted.kept), lost) - 1]
        how = "the first after which the model is not compiled"
        self.traced.blame.append(Blame(kept.index, kept.step.text, how))

    def _states(self) -> list[Snapshot]:
        """Repeat the passes; return the original, and the model after each."""
        states = [self.drifted.original]
        for kept in self.drifted.kept:
            states.append(Snapshot(self._attempts(kept, states[-1]).apply().model))
        if states[-1].change(self.drifted.result) not in (Change.NONE, Change.NAMES):
            raise OnnxPassesError("the passes do not repeat what they did")
        return states

    def _attempts(self, kept: Kept, before: Snapshot, threshold: float = 0.0) -> Attempts:
        """Return what repeats a pass, and fails it where the error is over a threshold."""

        def check(model: ir.Model, _: Change, __: Sequence[Application]) -> Checked:
            error = self._error(model)
            verdict = Verdict.FAILED if error > threshold else Verdict.PASSED
            found = OutputCheck("", error <= threshold, max_abs=error, limit=threshold)
            return Checked([replace(self.judgement.check, verdict=verdict, outputs=(found,))])

        limit = kept.first + len(kept.applied) if kept.applied else None
        record = list(kept.applied[:1]) * kept.first  # only their number counts
        rewrites = Rewrites(limit, kept.skip, None, record)
        baseline = self.drifted.gate.baseline
        given = baseline.samples if baseline.given else ()
        return Attempts(
            lambda: kept.step.make(self.drifted.plain, {"counter": 0, "history": []}),
            before,
            PassContext(
                rewrites,
                file_bytes=self.drifted.file_bytes,
                samples=given,
                made_up=() if baseline.given else baseline.usual_samples,
            ),
            kept.first,
            check,
            self.drifted.config.limits.pass_seconds,
            max(LEAST_RUNS, len(self.drifted.report.passes)),
        )

    def _within(
        self, kept: Kept, before: Snapshot, after: ir.Model, threshold: float
    ) -> list[Case]:
        """Find the rewrites of a pass that are wrong, or the first value that diverges."""
        attempts = self._attempts(kept, before, threshold)
        applied = list(kept.applied)
        checked = attempts.check(after, Change.COMPUTATION, applied)
        failed = attempts.known(after, applied, Change.COMPUTATION, checked)
        search = find_culprits(
            attempts,
            failed,
            lambda made: self.judgement.wrong_parts((before.model, made.model, made.applied)),
        )
        name = kept.step.text
        right = search.rest.model if search.rest is not None else before.model
        place = kept.index, name
        self.traced.notes += search.notes
        self.traced.blame += self.judgement.blame(search.culprits, right, after, place)
        return pairs_around(attempts, failed, search, f"pass {kept.index + 1} {name}", (name,))

    def _error(self, model: ir.Model) -> float:
        return error_of(model, self.judgement.bench, self.drifted.gate.baseline)
