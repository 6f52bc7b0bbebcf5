"""What follows a failed check: the culprit, a reproducer, and what is left of the pass.

A drift that is too large is traced to a pass and its rewrites.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

import onnx_ir as ir

from onnx_passes.configs.resolve import PassStep
from onnx_passes.errors import OnnxPassesError
from onnx_passes.model.walk import node_count, weight_bytes
from onnx_passes.passes.base import Pass
from onnx_passes.passes.context import Application, PassContext, Rewrites
from onnx_passes.pipeline.culprit import (
    Culprit,
    CulpritSearch,
    Judgement,
    WrongPart,
    error_of,
    find_culprits,
    pairs_around,
)
from onnx_passes.pipeline.engine_check import held_by_type
from onnx_passes.pipeline.pass_execution import LEAST_RUNS, Attempt, Attempts
from onnx_passes.pipeline.reproducer import Failure, leave_reproducer
from onnx_passes.pipeline.run_state import RunState, rewrite_summary
from onnx_passes.pipeline.state import Checked, Kept
from onnx_passes.report.run_report import Blame, PassReport
from onnx_passes.verify.evidence import ENGINE, EXECUTED, LEVEL, Check, OutputCheck, Verdict
from onnx_passes.verify.judge import NOISE_FACTOR, exceeds_noise, geometric_mean, resolution
from onnx_passes.verify.shrink import Case, first_above, first_true
from onnx_passes.verify.snapshot import Change, Snapshot

if TYPE_CHECKING:
    from onnx_passes.pipeline.gate import Gate

SEARCH_SECONDS = 300.0
"""Time after which no further culprits of one pass are looked for."""

AMPLIFIED = (
    "no rewrite is blamed, since each change agrees by itself: the model amplifies their "
    "rounding by more than the last places of its weights. Give inputs of your own, or a "
    "limit that you can accept: -s 'verify.drift={atol: 1e-3}'"
)
"""Why a drift is traced to no rewrite."""


@dataclass(frozen=True)
class FailedCheck:
    """A pass whose check failed.

    ``make`` creates the pass anew. ``first`` is the position in the record of rewrites at
    which it began; None for a sequence of passes, each examined already.
    """

    state: RunState
    gate: Gate
    pass_: Pass
    step: PassStep
    make: Callable[[], Pass]
    report: PassReport
    before: Snapshot
    first: int | None
    checked: Checked

    @property
    def after(self) -> ir.Model:
        """The model that the pass made; until what is wrong is undone."""
        return self.state.model

    @property
    def applied(self) -> list[Application]:
        return [] if self.first is None else self.state.rewrites.applied[self.first :]

    @cached_property
    def judgement(self) -> Judgement:
        found = self._judged(self.report.checks)
        assert found is not None
        return found

    def _judged(self, checks: Sequence[Check]) -> Judgement | None:
        return Judgement.of(
            self.gate.state,
            self.gate.levels.compilers,
            checks,
            self.pass_.contracts(),
            self.step.tolerance,
        )

    def explain(self, change: Change) -> CulpritSearch:
        """Name the wrong rewrites where there are any, and leave a reproducer."""
        if self.judgement.check.kind == ENGINE:
            self._leave_whole()
            return CulpritSearch()
        overall = self.judgement.check.kind in ("drift", "metric")
        by_type = held_by_type(self.pass_.contracts(), self.step.tolerance)
        if by_type and self.gate.only_amplifies(self.judgement.check, self.checked.evidence):
            self.report.notes.append(AMPLIFIED)
            self._leave_whole()
            return CulpritSearch()
        failed = self._attempts.known(self.after, self.applied, change, self.checked)
        search = find_culprits(self._attempts, failed, self._wrong_parts, bisect=not overall)
        if overall and search.rest is None:
            # Held against the original: no rewrite of this pass need be at fault.
            self._trace()
            return CulpritSearch()
        report = self.report
        report.culprits = [c.application.number for c in search.culprits]
        report.notes += search.notes
        models, place = (self.before.model, self.after), (report.index, report.name)
        report.blame = self.judgement.blame(search.culprits, *models, place, search.rest)
        if self.state.config.reproducers:
            failure = Failure(
                self.judgement,
                f"{report.index:04d}-{self.step.cls.name}",
                self.step.text,
                report.error or "",
                report.contract,
                pairs_around(self._attempts, failed, search, "the pass"),
                [self.step.text],
                report.blame,
                self.make,
            )
            self._leave(failure)
        return search

    def _leave_whole(self) -> None:
        """Leave the models: what an engine does to them is the fault of no rewrite."""
        if not self.state.config.reproducers:
            return
        report = self.report
        failure = Failure(
            self.judgement,
            f"{report.index:04d}-{self.step.cls.name}",
            self.step.text,
            report.error or "",
            report.contract,
            [Case(self.before.model, self.after, {}, "around the pass")],
            [self.step.text],
        )
        self._leave(failure)

    def _leave(self, failure: Failure) -> None:
        state = self.state
        self.report.reproducer, notes = leave_reproducer(failure, state.config, state.report)
        self.report.notes += notes

    def _trace(self) -> None:
        """Look for the fault in all passes so far: they were held against the original."""
        kept = list(self.state.kept)
        if self.first is not None:
            skip = self.state.rewrites.skip
            applied = tuple(self.applied)
            kept.append(Kept(self.step, self.report.index, self.first, applied, skip))
        name = f"{self.report.index:04d}-{self.step.cls.name}"
        error = self.report.error or ""
        traced = trace(self.state, self.report.checks, name, error, kept, self.step.text)
        self.report.notes += traced.notes
        self.report.blame, self.report.reproducer = traced.blame, traced.folder
        numbers = {application.number for application in self.applied}
        found = [b.number for b in traced.blame if b.number is not None]
        self.report.culprits = [number for number in found if number in numbers]

    def undo(self, search: CulpritSearch) -> Attempt | None:
        """Leave out the wrong rewrites, where they are known and the policy says so."""
        policy = self.step.on_failure or self.state.config.on_failure
        rest = search.rest
        if (
            self.first is None
            or policy != "rollback"
            or self.state.config.granularity != "application"
            or rest is None
            or rest.change is Change.NONE
            or rest.checked.verdict is Verdict.FAILED
        ):
            return None
        rewrites = self.state.rewrites
        rewrites.applied[self.first :] = rest.applied
        rewrites.skip |= {culprit.application.key for culprit in search.culprits}
        return rest

    def tell(self, rest: Attempt, search: CulpritSearch, message: str) -> None:
        report = self.report
        report.rewrites = [rewrite_summary(a) for a in self.applied]
        report.checks, report.culprits, report.error = rest.checks, [], None
        report.evidence, report.verdict = rest.checked.evidence, rest.checked.verdict
        report.nodes_after = node_count(rest.model)
        report.bytes_after = weight_bytes(rest.model)
        found = (culprit.application for culprit in search.culprits)
        undone = sorted(found, key=lambda application: application.number)
        for index, rewrite in enumerate(undone):
            what = f"rewrite {rewrite.number} ({rewrite.rule}: {'; '.join(rewrite.nodes)})"
            why = f" was undone: {message}" if index == 0 else " was undone as well"
            report.notes.append(what + why)
        numbers = ", ".join(str(rewrite.number) for rewrite in undone)
        where = f"; reproducer in {report.reproducer}" if report.reproducer else ""
        self.state.report.notes.append(
            f"{report.name}: wrong and undone: rewrite {numbers}{where}"
        )

    @cached_property
    def _attempts(self) -> Attempts:
        return Attempts(
            self.make,
            self.before,
            self.state.context,
            self.first or 0,
            self._check,
            self.state.config.limits.pass_seconds,
            max(LEAST_RUNS, len(self.state.report.passes)),
            time.monotonic() + SEARCH_SECONDS,
            self._ask_compilers if self._lost_support else None,
        )

    @property
    def _lost_support(self) -> bool:
        """Whether a compiler gets less far, which one build by attempt shows."""
        check = self.judgement.check
        return check.kind == LEVEL and check.level != EXECUTED

    def _ask_compilers(self, model: ir.Model) -> list[Check]:
        return self.gate.levels.check(self.before.model, model, "each")

    def _check(
        self, model: ir.Model, change: Change, applied: Sequence[Application]
    ) -> Checked:
        if change is Change.NONE:
            return Checked()
        return self.gate.check(
            self.pass_, self.before, model, change, self.step.tolerance, applied
        )

    def _wrong_parts(self, made: Attempt) -> list[WrongPart]:
        """Return the parts that are wrong on the sample, the engine and by the contract."""
        judged = self._judged(made.checks)
        changed = self.before.model, made.model, made.applied
        return [] if judged is None else judged.wrong_parts(changed)


@dataclass
class DriftTrace:
    """What a drift was traced to; ``folder`` holds the reproducer."""

    blame: list[Blame] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    folder: str | None = None


def trace(
    state: RunState,
    checks: Sequence[Check],
    name: str,
    error: str,
    kept: Sequence[Kept] = (),
    title: str = "",
) -> DriftTrace:
    """Find out what took the model too far from the original.

    ``kept`` are the passes that made it; empty for all that were kept. ``title`` is empty for
    their names.
    """
    traced, gate = DriftTrace(), state.gate
    if gate is None:
        return traced
    kept = kept or state.kept
    judgement = Judgement.of(gate.state, gate.levels.compilers, checks)
    level = judgement is not None and judgement.check.kind == LEVEL
    if judgement is None or not (level or judgement.samples):
        return traced
    pairs: list[Case] = []
    of_engine = judgement.check.kind == ENGINE
    try:
        tracer = _Tracer(state, gate, kept, judgement, traced)
        if level:
            tracer.find_lost_support()
        elif gate.only_amplifies(judgement.check):
            traced.notes.append(AMPLIFIED)
        elif not of_engine:
            pairs += tracer.run()
    except Exception as failure:
        # It explains a failure that is already certain, and must not replace it.
        told = failure.message if isinstance(failure, OnnxPassesError) else str(failure)
        what = "lost support" if level else "drift"
        traced.notes.append(f"the {what} was not traced to a pass: {told}")
    pairs.append(Case(gate.original.model, state.model, {}, "the whole models"))
    if state.config.reproducers:
        contract = "within the drift tolerance of the original"
        steps = [one.step.text for one in kept]
        failed = Failure(
            judgement,
            name,
            title or ", ".join(dict.fromkeys(steps)),
            error,
            contract,
            pairs,
            steps,
            traced.blame,
        )
        traced.folder, notes = leave_reproducer(failed, state.config, state.report)
        traced.notes += notes
    return traced


@dataclass
class _Tracer:
    state: RunState
    gate: Gate
    kept: Sequence[Kept]
    judgement: Judgement
    traced: DriftTrace

    def run(self) -> list[Case]:
        """Find the pass, then what is wrong in it; return the models around that."""
        states = self._states()
        final = self._error(self.state.model)
        noise = resolution(self.judgement.bench.original, self.gate.baseline.unstable)
        threshold = geometric_mean(noise, final)
        last = len(states) - 1
        place, good, bad = last, self._error(states[max(last - 1, 0)].model), final
        if not exceeds_noise(good, bad, noise):  # what came before it was accepted
            place, good, bad = first_above(
                last, lambda n: self._error(states[n].model), final, threshold
            )
        if place and exceeds_noise(good, bad, noise):
            before, after = states[place - 1 : place + 1]
            return self._within(self.kept[place - 1], before, after.model, threshold)
        self.traced.notes.append(
            "no single pass is to blame: the error grows little by little, and at no pass "
            f"by {NOISE_FACTOR:g} times ({good:.3g} -> {bad:.3g}, the noise is {noise:.3g})"
        )
        whole = self.gate.original.model, self.state.model
        for blame in self.judgement.blame((), *whole, (None, "the pipeline")):
            assert blame.value is not None
            for kept in self.kept:  # the last pass that put a node there
                if any(blame.value.output in p for a in kept.applied for p in a.replaced):
                    blame.step, blame.name = kept.index, kept.step.text
            self.traced.blame.append(blame)
        return []

    def find_lost_support(self) -> None:
        """Name the rewrites whose regions a compiler does not take, or else the pass.

        Where it executes, those are named whose values differ there.
        """
        states = self._states()
        executed = self.judgement.check.level == EXECUTED
        for kept, before, after in zip(self.kept, states, states[1:], strict=False):
            changed = before.model, after.model, kept.applied
            parts = self.judgement.wrong_parts(changed, self.state.model)
            found = [Culprit(one, p.how, p.value) for p in parts for one in p.rewrites]
            place = kept.index, kept.step.text
            self.traced.blame += self.judgement.blame(found, before.model, after.model, place)
        if executed and not self.traced.blame:
            self.traced.notes.append(
                "no rewrite is wrong by itself on that engine: each region keeps its promise"
            )
        if executed or self.traced.blame or not self.kept:
            return
        compiler = self.judgement.compiler
        wanted = compiler.original.level.rank

        def lost(count: int) -> bool:
            return compiler.finding(states[count].model).level.rank < wanted

        kept = self.kept[first_true(len(self.kept), lost) - 1]
        how = "the first after which the model is not compiled"
        self.traced.blame.append(Blame(kept.index, kept.step.text, how))

    def _states(self) -> list[Snapshot]:
        """Repeat the passes; return the original, and the model after each."""
        states = [self.gate.original]
        for kept in self.kept:
            states.append(Snapshot(self._attempts(kept, states[-1]).apply().model))
        if states[-1].change(self.state.model) not in (Change.NONE, Change.NAMES):
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
        baseline = self.gate.baseline
        given = baseline.samples if baseline.given else ()
        return Attempts(
            lambda: kept.step.make(self.state.plain, {"counter": 0, "history": []}),
            before,
            PassContext(
                rewrites,
                file_bytes=self.state.file_bytes,
                samples=given,
                made_up=() if baseline.given else baseline.usual_samples,
            ),
            kept.first,
            check,
            self.state.config.limits.pass_seconds,
            max(LEAST_RUNS, len(self.state.report.passes)),
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
        models, place = (before.model, after), (kept.index, name)
        self.traced.notes += search.notes
        self.traced.blame += self.judgement.blame(search.culprits, *models, place, search.rest)
        return pairs_around(attempts, failed, search, f"pass {kept.index} {name}", (name,))

    def _error(self, model: ir.Model) -> float:
        return error_of(model, self.judgement.bench, self.gate.baseline)
