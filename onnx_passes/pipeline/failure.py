"""What follows a failed check: the culprit, a reproducer, and what is left of the pass."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import onnx_ir as ir

from onnx_passes.configs.resolve import PassStep
from onnx_passes.model.walk import node_count, weight_bytes
from onnx_passes.passes.base import Pass
from onnx_passes.passes.context import Application
from onnx_passes.pipeline.culprit import (
    CulpritSearch,
    Judgement,
    WrongPart,
    find_culprits,
    pairs_around,
)
from onnx_passes.pipeline.engine_check import held_by_type
from onnx_passes.pipeline.gate import AMPLIFIED, Gate
from onnx_passes.pipeline.pass_execution import LEAST_RUNS, Attempt, Attempts
from onnx_passes.pipeline.reproducer import Failure, leave_reproducer
from onnx_passes.pipeline.run_state import RunState, rewrite_summary
from onnx_passes.pipeline.state import Checked, Kept
from onnx_passes.report.run_report import PassReport
from onnx_passes.verify.evidence import ENGINE, EXECUTED, LEVEL, Check, Verdict
from onnx_passes.verify.shrink import Case
from onnx_passes.verify.snapshot import Change, Snapshot

SEARCH_SECONDS = 300.0
"""Time after which no further culprits of one pass are looked for."""


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
        return Judgement.of(self.gate, checks, self.pass_.contracts(), self.step.tolerance)

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
        right = search.rest.model if search.rest is not None else self.before.model
        place = report.index, report.name
        report.blame = self.judgement.blame(search.culprits, right, self.after, place)
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
        traced = self.state.trace(self.report.checks, name, error, kept, self.step.text)
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
