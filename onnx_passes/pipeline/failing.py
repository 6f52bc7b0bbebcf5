"""What follows a failed check: who is guilty, a reproducer, and what is left of the pass."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import onnx_ir as ir

from onnx_passes.config.resolve import PassStep
from onnx_passes.config.schema import PipelineConfig
from onnx_passes.errors import OnnxPassesError
from onnx_passes.passes.base import Pass
from onnx_passes.passes.context import Application, PassContext
from onnx_passes.pipeline.culprit import find_culprit
from onnx_passes.pipeline.execute import execute
from onnx_passes.pipeline.gate import Gate
from onnx_passes.pipeline.reproduce import Failure, reproduce
from onnx_passes.pipeline.summary import rewrite_summary
from onnx_passes.pipeline.undo import Rest, undo_culprits
from onnx_passes.report.model import PassReport, RunReport
from onnx_passes.surgery.walk import node_count, weight_bytes
from onnx_passes.verify.result import Check, Checks, Verdict
from onnx_passes.verify.snapshot import Change, Snapshot


@dataclass(frozen=True)
class FailedCheck:
    """A pass whose check failed.

    Attributes:
        pass_: The pass.
        step: How it was asked for.
        make: Creates it anew.
        report: What is reported of it.
        before: The model before it.
        after: The model that it made.
        first: Position in the record of rewrites at which it began; None for a sequence of
            passes, which have each been looked into already.
        gate: What checked it.
        context: What it shares with the pipeline, the record of rewrites among it.
        config: The pipeline.
        run: The report of the whole run.
    """

    pass_: Pass
    step: PassStep
    make: Callable[[], Pass]
    report: PassReport
    before: Snapshot
    after: ir.Model
    first: int | None
    gate: Gate
    context: PassContext
    config: PipelineConfig
    run: RunReport

    @property
    def applied(self) -> list[Application]:
        """The rewrites that the pass made."""
        return [] if self.first is None else self.context.rewrites.applied[self.first :]

    def explain(self, change: Change) -> Application | None:
        """Name the guilty rewrite where there is one, and leave a reproducer."""
        skip = self.context.rewrites.skip
        culprit = self._culprit(self.applied, skip, change)
        if culprit is not None:
            self.report.culprits = [culprit.number]
        if self.config.reproducers:
            self._reproduce(culprit)
        return culprit

    def undo(self, culprit: Application | None) -> Rest | None:
        """Leave out the wrong rewrites, where one is known and the policy says so."""
        policy = self.step.on_failure or self.config.on_failure
        if (
            culprit is None
            or self.first is None
            or policy != "rollback"
            or self.config.granularity != "application"
        ):
            return None

        def run() -> ir.Model:
            again = self.make()
            again.context = self.context
            model = self.before.restore()
            return execute(again, model, self.config.limits.pass_seconds).model

        return undo_culprits(
            self.before,
            self.context.rewrites,
            self.first,
            culprit,
            run,
            self._check,
            lambda applied, skip: self._culprit(applied, skip, Change.COMPUTATION),
        )

    def tell(self, rest: Rest, message: str) -> None:
        """Report the pass as what is left of it."""
        report = self.report
        report.rewrites = [rewrite_summary(a) for a in self.applied]
        report.checks, report.culprits, report.error = rest.checks, [], None
        report.verdict = Checks(tuple(rest.checks)).verdict
        report.nodes_after = node_count(rest.model)
        report.bytes_after = weight_bytes(rest.model)
        for index, rewrite in enumerate(rest.undone):
            what = f"rewrite {rewrite.number} ({rewrite.rule}: {'; '.join(rewrite.nodes)})"
            why = f" was undone: {message}" if index == 0 else " was undone as well"
            report.notes.append(what + why)
        numbers = ", ".join(str(rewrite.number) for rewrite in rest.undone)
        where = f"; reproducer in {report.reproducer}" if report.reproducer else ""
        self.run.notes.append(f"{report.name}: wrong and undone: rewrite {numbers}{where}")

    def _check(self, model: ir.Model, change: Change) -> list[Check]:
        return self.gate.check(self.pass_, self.before, model, change, self.step.tolerance)

    def _culprit(
        self, applied: Sequence[Application], skip: frozenset[str], change: Change
    ) -> Application | None:
        def fails(model: ir.Model) -> bool:
            return Checks(tuple(self._check(model, change))).verdict is Verdict.FAILED

        return find_culprit(self.make, self.before.restore, applied, fails, skip)

    def _reproduce(self, culprit: Application | None) -> None:
        failure = Failure(
            self.step,
            self.make,
            self.report,
            self.before,
            self.after,
            self.applied,
            culprit,
            self.context.rewrites.skip,
        )
        try:
            folder = reproduce(failure, self.gate, self.config, self.run)
        except OnnxPassesError as error:
            self.report.notes.append(f"no reproducer: {error.message}")
        except Exception as error:
            # It explains a failure that is already certain, and must not replace it.
            self.report.notes.append(f"no reproducer: {type(error).__name__}: {error}")
        else:
            self.report.reproducer = str(folder)
