"""Which pass, and which of its rewrites, took a result too far from the original.

No single pass failed by itself, or it would have been reported. So the passes that were kept
are repeated, unchecked. Their states are bisected by the error of the outputs against those of
the original. In the pass found, rewrites are scored by themselves, and bisected where no one
stands out. Where no step stands out either, the first value that diverges is named.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import onnx_ir as ir

from onnx_passes.configs.schema import PipelineConfig
from onnx_passes.errors import OnnxPassesError
from onnx_passes.model.walk import ungrown_bytes
from onnx_passes.passes.context import Application, PassContext, Rewrites
from onnx_passes.pipeline.attempt import LEAST_RUNS, Attempts
from onnx_passes.pipeline.culprit import (
    Culprit,
    find_culprits,
    measured_by,
    pairs_around,
)
from onnx_passes.pipeline.gate import AMPLIFIED, Gate
from onnx_passes.pipeline.judgement import Judgement, error_of
from onnx_passes.pipeline.reproduce import leave_reproducer
from onnx_passes.pipeline.reproducer import Failure
from onnx_passes.pipeline.state import Checked, Kept
from onnx_passes.plain import PlainDict
from onnx_passes.report.run_report import Blame, RunReport
from onnx_passes.verify.bisection import first_above, first_true
from onnx_passes.verify.case import Case
from onnx_passes.verify.result import ENGINE, EXECUTED, LEVEL, Check, OutputCheck, Verdict
from onnx_passes.verify.score import (
    GAP,
    middle_of,
    resolution,
    stands_out,
)
from onnx_passes.verify.snapshot import Change, Snapshot
from onnx_passes.verify.witness import Witnesses


@dataclass(frozen=True)
class Drifted:
    """A result that is too far from the original.

    Attributes:
        original: The original.
        result: The result.
        kept: The passes between them.
        checks: What was found, some of it failed.
        gate: What checked it.
        config: The pipeline.
        plain: The same as passes see it.
        report: The report of the run.
        name: Names the folder of the reproducer.
        title: What failed, as text.
    """

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
        return ungrown_bytes(self.original.model)


@dataclass
class Traced:
    """What a drift was traced to.

    Attributes:
        blame: The rewrite, the pass, or the first value that diverges.
        notes: What a reader should know, a sentence each.
        folder: The reproducer; None where none was left.
    """

    blame: list[Blame] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    folder: str | None = None


def trace_drift(drifted: Drifted, error: str) -> Traced:
    """Find out what took a result too far from the original, and leave a reproducer.

    Args:
        drifted: The result, and how it came about.
        error: The error that it led to, as text.
    """
    traced = Traced()
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
    traced: Traced

    def run(self) -> list[Case]:
        """Find the pass, then what is wrong in it; return the models around that."""
        drifted = self.drifted
        states = self._states()
        final = self._error(drifted.result)
        noise = resolution(self.judgement.bench.original, drifted.gate.baseline.unstable)
        threshold = middle_of(noise, final)
        place, good, bad = first_above(
            len(states) - 1, lambda n: self._error(states[n].model), final, threshold
        )
        if place and stands_out(good, bad, noise):
            before, after = states[place - 1 : place + 1]
            return self._within(drifted.kept[place - 1], before, after.model, threshold)
        self.traced.notes.append(
            "no single pass is to blame: the error grows little by little, and at no pass "
            f"by {GAP:g} times ({good:.3g} -> {bad:.3g}, the noise is {noise:.3g})"
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
            witnesses = Witnesses()
            if kept.applied:
                self._attempts(kept, before).apply(witness=witnesses)
            regions = self.judgement.regions(before.model, after.model)
            if executed:
                scores = regions.measured(witnesses.pieces, self.judgement.promise)
            else:
                scores = regions.scores(witnesses.pieces, left_in=drifted.result)
            place = kept.index, kept.step.text
            found = [
                Culprit(s.application, s.how, *measured_by(s))
                for s in scores
                if s is not None and not s.passed
            ]
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
            lambda applied, skip, _: self.judgement.scores(attempts, applied, skip),
        )
        name = kept.step.text
        right = search.rest.model if search.rest is not None else before.model
        place = kept.index, name
        self.traced.notes += search.notes
        self.traced.blame += self.judgement.blame(search.culprits, right, after, place)
        return pairs_around(attempts, failed, search, f"pass {kept.index + 1} {name}", (name,))

    def _error(self, model: ir.Model) -> float:
        """Return how far a model's outputs are from those of the original."""
        return error_of(model, self.judgement.bench, self.drifted.gate.baseline)
