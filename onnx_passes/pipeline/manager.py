"""The pass manager: each pass is run, measured, checked, and then kept or undone."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import onnx_ir as ir

from onnx_passes.configs.resolved import CheckpointStep, GroupStep, PassStep, ResolvedStep
from onnx_passes.configs.schema import PipelineConfig
from onnx_passes.configs.steps import Repeat
from onnx_passes.errors import FixpointError, OnnxPassesError, PassError, VerificationError
from onnx_passes.model.walk import (
    all_graphs,
    node_count,
    topological_order,
    ungrown_bytes,
    weight_bytes,
)
from onnx_passes.passes.base import ALL, Analysis, Pass, is_shipped
from onnx_passes.passes.compose import MAX_ROUNDS, ComposePass
from onnx_passes.passes.context import PassContext, Rewrites
from onnx_passes.passes.options import validate_options
from onnx_passes.passes.registry import collect
from onnx_passes.passes.replace import reserve_names
from onnx_passes.pipeline.attempt import Attempt, Attempts
from onnx_passes.pipeline.budget import budget_spent
from onnx_passes.pipeline.execute import complaint, execute
from onnx_passes.pipeline.idle import Idle
from onnx_passes.pipeline.instruments import Instrument
from onnx_passes.pipeline.state import Checked, Kept
from onnx_passes.pipeline.summary import rewrite_summary
from onnx_passes.pipeline.waiving import waive_failure
from onnx_passes.report.model import RunReport
from onnx_passes.report.pass_report import PassReport
from onnx_passes.verify.result import Check, Checks, Verdict
from onnx_passes.verify.snapshot import Change, Snapshot

if TYPE_CHECKING:
    from onnx_passes.pipeline.drifting import Traced
    from onnx_passes.pipeline.gate import Gate
    from onnx_passes.pipeline.paying import Paying
    from onnx_passes.pipeline.whole_data import WholeData


class Stopped(Exception):  # noqa: N818 - control flow, not an error of its own
    """A pass failed, and the pipeline stops there."""

    def __init__(self, cause: OnnxPassesError) -> None:
        super().__init__(str(cause))
        self.cause = cause


@dataclass
class PassManager:
    """Runs the steps of a pipeline over a model.

    Attributes:
        model: The model; replaced as passes are kept or undone.
        snapshot: The model before the pass at work.
        config: The pipeline file.
        report: Filled during the run.
        gate: What checks; None where verification is off.
        instruments: Who looks on.
        rewrites: Budget and record of rewrites over the whole run.
        whole: Compares models over the data set of the pipeline; None without one.
        paying: Undoes rewrites that do not pay; None without an objective.
        after_step: Called after each step at top level that did not stop the run.
    """

    model: ir.Model
    snapshot: Snapshot
    config: PipelineConfig
    report: RunReport
    gate: Gate | None = None
    instruments: Sequence[Instrument] = ()
    rewrites: Rewrites = field(default_factory=Rewrites)
    whole: WholeData | None = None
    paying: Paying | None = None
    after_step: Callable[[], object] | None = None

    def __post_init__(self) -> None:
        self.plain = self.config.plain()
        self.file_bytes = ungrown_bytes(self.model)
        self.state: dict[str, Any] = {"counter": 0, "history": []}
        given = self.gate is not None and self.gate.baseline.given
        self.context = PassContext(
            rewrites=self.rewrites,
            file_bytes=self.file_bytes,
            samples=self.gate.baseline.samples if self.gate is not None and given else (),
        )
        self.valid: set[str] = set()
        self.idle = Idle()
        self.kept: list[Kept] = []

    def run(self, steps: Sequence[ResolvedStep]) -> None:
        """Run all steps.

        Raises:
            Stopped: A pass failed, and the policy is to stop.
        """
        for step in steps:
            self._step(step, "")
            if self.after_step is not None:
                self.after_step()

    def _step(self, step: ResolvedStep, group: str) -> None:
        match step:
            case GroupStep():
                self._group(step, group)
            case CheckpointStep():
                self._checkpoint(step, group)
            case PassStep() if issubclass(step.cls, ComposePass):
                self._compose(step, group)
            case PassStep():
                self._with_dependencies(step, group, ())

    def _group(self, step: GroupStep, group: str) -> None:
        path = f"{group}/{step.name}" if group else step.name
        if step.repeat == "once":
            for inner in step.steps:
                self._step(inner, path)
            return
        seen = [self._settled()]
        for turn in range(1, step.limit + 1):
            first = len(self.report.passes)
            for inner in step.steps:
                self._step(inner, f"{path}#{turn}")
            now = self._settled()
            if any(now is state or now.is_alike(state) for state in seen):
                return
            seen.append(now)
        restless = [p.name for p in self.report.passes[first:] if p.changed]
        raise Stopped(
            FixpointError(
                f"group {step.name!r} still changes the model after {step.limit} rounds: "
                f"{', '.join(dict.fromkeys(restless))}",
                where=step.where,
                help="raise its limit, or take out a pass that undoes another",
            )
        )

    def _settled(self) -> Snapshot:
        """Return the model between rounds, with its counts where it will be lost."""
        if self.gate is None:
            self.snapshot.count()
        return self.snapshot

    def _compose(self, step: PassStep, group: str) -> None:
        """Run a composed pass: each pass of its sequence is checked, then the whole."""
        composed = step.make(self.plain, self.state)
        assert isinstance(composed, ComposePass)
        before = self.snapshot
        steps = tuple(
            PassStep(type(p), p.options, step.on_failure, step.tolerance, step.where)
            for p in composed.passes()
        )
        repeat: Repeat = "fixpoint" if composed.__exhaustive__ else "once"
        inner = GroupStep(step.text, steps, repeat, MAX_ROUNDS, step.where)
        with reserve_names(self.model):
            self._group(inner, group)
        report = self._new_report(composed, step, group, before)
        self._judge(composed, step, report, before)

    def _checkpoint(self, step: CheckpointStep, group: str) -> None:
        report = PassReport(len(self.report.passes), step.name, "drift", group=group)
        _measure(report, self.snapshot)
        self.report.passes.append(report)
        if self.gate is not None:
            self._hold_against_original(self.gate, step, report)

    def trace(self, checks: Sequence[Check], name: str, error: str) -> Traced:
        """Find out what took the model too far from the original.

        Args:
            checks: The checks of it against the original, some of them failed.
            name: Names the folder of the reproducer.
            error: The error, as text.
        """
        from onnx_passes.pipeline.drifting import Drifted, Traced, trace_drift

        if self.gate is None:
            return Traced()
        drifted = Drifted(
            self.gate.original,
            self.model,
            self.kept,
            checks,
            self.gate,
            self.config,
            self.plain,
            self.report,
            name,
            ", ".join(dict.fromkeys(kept.step.text for kept in self.kept)),
        )
        return trace_drift(drifted, error)

    def _hold_against_original(
        self, gate: Gate, step: CheckpointStep, report: PassReport
    ) -> None:
        start = time.perf_counter()
        report.checks = gate.against_original(self.model, ("each", "checkpoint"))
        levels, original = gate.levels, gate.original.model
        report.checks += levels.check(original, self.model, "each", "checkpoint")
        report.checks += levels.by_region(gate.state.changes, "checkpoint")[0]
        small = Checks(tuple(report.checks)).verdict
        if self.whole is not None and small is not Verdict.FAILED:
            report.checks += self.whole.check(
                self.model, ("each", "checkpoint"), report.checks
            )
        report.verify_seconds = time.perf_counter() - start
        report.verdict = Checks(tuple(report.checks)).verdict
        if report.verdict is Verdict.FAILED:
            message = f"checkpoint {step.name!r}: {_reason(report.checks)}"
            report.error = f"VerificationError: {message}"
            traced = None
            if small is Verdict.FAILED:
                traced = self.trace(report.checks, f"{report.index:04d}-{step.name}", message)
            elif self.whole is not None:
                report.reproducer = self.whole.reproducer
            if traced is not None:
                report.notes += traced.notes
                report.blame = traced.blame
                report.reproducer = traced.folder or report.reproducer
            report.action = "stopped" if self.config.on_failure == "stop" else "warned"
            if report.action == "stopped":
                raise Stopped(VerificationError(message, where=step.where))

    def _with_dependencies(
        self, step: PassStep, group: str, above: tuple[type[Pass], ...]
    ) -> None:
        if step.cls in above:
            names = " -> ".join(c.name for c in (*above, step.cls))
            raise Stopped(PassError(f"passes require each other: {names}", where=step.where))
        for cls in collect(step.cls.required_passes):
            if cls.name not in self.valid:
                self._with_dependencies(_implied(cls, step), group, (*above, step.cls))
        changed = self._pass(step, group)
        if changed:
            for cls in collect(step.cls.followed_by):
                self._with_dependencies(_implied(cls, step), group, (*above, step.cls))

    def _new_report(
        self, pass_: Pass, step: PassStep, group: str, before: Snapshot
    ) -> PassReport:
        report = PassReport(len(self.report.passes), step.text, pass_.promise(), group=group)
        _measure(report, before)
        self.report.passes.append(report)
        return report

    def _pass(self, step: PassStep, group: str) -> bool:
        """Run one pass, and return whether the model differs afterwards."""
        pass_ = step.make(self.plain, self.state)
        pass_.context = self.context
        self.context.notes = []
        before, first = self.snapshot, len(self.rewrites.applied)
        report = self._new_report(pass_, step, group, before)
        for instrument in self.instruments:
            instrument.before_pass(pass_, self.model, report)
        idle = self.idle.notes(pass_, step, before)
        if idle is not None:
            report.notes += idle
            self.state["counter"] += 1
            self.state["history"].append(type(pass_))
            self.valid.add(pass_.name)
            self._finish(pass_, report)
            return False
        if self._may_undo(pass_, step):
            before.hold()
        else:
            before.let_go()
        start, failure = time.perf_counter(), None
        try:
            result = execute(pass_, self.model, self.config.limits.pass_seconds)
            report.claimed = bool(result.modified)
            self.model = result.model
        except OnnxPassesError as error:
            failure = error
        report.pass_seconds = time.perf_counter() - start
        report.notes += self.context.notes
        if failure is None and self.paying is not None and report.claimed:
            self._undo_what_does_not_pay(self.paying, pass_, step, report, first)
        report.rewrites = [rewrite_summary(a) for a in self.rewrites.applied[first:]]
        self.state["counter"] += 1
        self.state["history"].append(type(pass_))
        if failure is None:
            return self._judge(pass_, step, report, before, first)
        report.verdict = Verdict.FAILED
        failure.where = failure.where or step.where
        text = f"{type(failure).__name__}: {failure}"
        self._fail(pass_, step, report, before, failure, text)
        self._finish(pass_, report)
        return False

    def _judge(
        self,
        pass_: Pass,
        step: PassStep,
        report: PassReport,
        before: Snapshot,
        first: int | None = None,
    ) -> bool:
        """Measure what changed, check it, and keep or undo it."""
        start = time.perf_counter()
        try:
            change = self._change(pass_, step, report, before, first)
        except OnnxPassesError as broken:  # a cycle, for one: the model has no hash any more
            report.changed, report.verdict = True, Verdict.FAILED
            error = VerificationError(broken.message, where=step.where)
            self._fail(pass_, step, report, before, error, _failed(pass_, broken.message))
            self._finish(pass_, report)
            return False
        report.changed = change is not Change.NONE
        if not report.changed and not isinstance(pass_, ComposePass):
            self.idle.note(step, before, report.notes)
        after = before
        if report.changed and self.gate is None:
            after = Snapshot(self.model, after=before, hold=False, untouched=True)
            report.nodes_after, report.bytes_after = after.nodes, after.weight_bytes
        elif report.changed:
            report.nodes_after = node_count(self.model)
            report.bytes_after = weight_bytes(self.model)
        if report.changed and not report.claimed and not isinstance(pass_, ComposePass):
            report.notes.append("the pass changed the model and said that it did not")
        wrong = complaint(pass_, change)
        if wrong is not None:
            report.verdict = Verdict.FAILED
            report.error = f"PassError: {wrong}"
            self._fail(pass_, step, report, before, PassError(wrong), report.error)
        elif change is not Change.NONE:
            self._verify(pass_, step, report, before, change, first)
        report.verify_seconds = time.perf_counter() - start
        report.budget_spent = budget_spent(report.checks)
        kept = report.changed and report.action != "rolled back"
        if kept:
            if first is not None:
                applied = tuple(self.rewrites.applied[first:])
                skip = self.rewrites.skip
                self.kept.append(Kept(step, report.index, first, applied, skip))
            if self.snapshot is before or isinstance(pass_, ComposePass):
                if after is before:
                    after = Snapshot(self.model, after=before)
                self.snapshot = after
            self._invalidate(pass_)
        if report.verdict is not Verdict.FAILED:
            self.valid.add(pass_.name)
        self._finish(pass_, report)
        return kept

    def _undo_what_does_not_pay(
        self, paying: Paying, pass_: Pass, step: PassStep, report: PassReport, first: int
    ) -> None:
        """Leave out the rewrites that cost more than they save, before anything is checked."""
        rewrites, before = self.rewrites, self.snapshot
        attempts = Attempts(
            lambda: step.make(self.plain, dict(self.state)),
            before,
            self.context,
            first,
            lambda *_: Checked(),
            self.config.limits.pass_seconds,
        )
        made = Attempt(attempts, self.model, list(rewrites.applied[first:]))
        chosen = paying.choose(pass_, attempts, made)
        report.pays, report.notes = chosen.reports, [*report.notes, *chosen.notes]
        if not chosen.undone:
            return
        rest = chosen.rest
        self.model = before.restore() if rest is None else rest.model
        rewrites.applied[first:] = [] if rest is None else rest.applied
        rewrites.skip |= chosen.skip

    def _may_undo(self, pass_: Pass, step: PassStep) -> bool:
        """Whether the model before a pass may be needed once it has run.

        Copies take a tenth of a run's time. Where nothing is checked and a failure ends the
        run, only an analysis is held against the model that it was given.
        """
        stops = (step.on_failure or self.config.on_failure) == "stop"
        needed = self.gate is not None or self.paying is not None
        return needed or not stops or isinstance(pass_, Analysis)

    def _change(
        self,
        pass_: Pass,
        step: PassStep,
        report: PassReport,
        before: Snapshot,
        first: int | None,
    ) -> Change:
        """Say what a pass has changed, in kind only where that is of use.

        Raises:
            ModelError: The graph has a cycle, or weights cannot be read.
        """
        if self._may_undo(pass_, step):
            return before.change(self.model)
        if is_shipped(type(pass_)) and first is not None and not report.claimed:
            before.is_still(self.model)  # the library's passes are held to what they claim
            return Change.NONE
        if not before.differs(self.model):
            return Change.NONE
        if not is_shipped(type(pass_)):
            for graph in all_graphs(self.model):
                topological_order(graph)
        return Change.COMPUTATION

    def recovered(self, original: Snapshot) -> Snapshot:
        """Return the last state that can be had again: after a failure, the original at worst.

        Args:
            original: A snapshot that was held from the start.
        """
        return original if self.snapshot.lost else self.snapshot

    def _verify(
        self,
        pass_: Pass,
        step: PassStep,
        report: PassReport,
        before: Snapshot,
        change: Change,
        first: int | None,
    ) -> None:
        if self.gate is None:
            report.verdict = Verdict.NOT_VERIFIED
            return
        applied = () if first is None else self.rewrites.applied[first:]
        checked = self.gate.check(pass_, before, self.model, change, step.tolerance, applied)
        report.checks, report.evidence = checked.checks, checked.evidence
        report.verify_seconds = sum(check.seconds for check in report.checks)
        report.budget_spent = budget_spent(report.checks)
        report.verdict = checked.verdict
        if report.verdict is not Verdict.FAILED:
            self.gate.keep(checked)
            return
        message = _reason(report.checks)
        report.error = _failed(pass_, message)
        from onnx_passes.pipeline.failing import FailedCheck  # slow to import

        failed = FailedCheck(
            pass_,
            step,
            lambda: step.make(self.plain, dict(self.state)),
            report,
            before,
            self.model,
            first,
            checked,
            self.gate,
            self.context,
            self.config,
            self.report,
            self.kept,
        )
        search = failed.explain(change)
        if waive_failure(self.config, self.report, report):
            self.gate.keep(checked)
            return
        rest = failed.undo(search)
        if rest is not None:
            failed.tell(rest, search, message)
            self.model = rest.model
            self.gate.keep(rest.checked)
            return
        error = VerificationError(message, where=step.where)
        self._fail(pass_, step, report, before, error, report.error)
        if report.action == "warned":
            self.gate.keep(checked)

    def _fail(
        self,
        pass_: Pass,
        step: PassStep,
        report: PassReport,
        before: Snapshot,
        error: OnnxPassesError,
        text: str,
    ) -> None:
        """Do what the policy says of a failed pass."""
        policy = step.on_failure or self.config.on_failure
        report.error = text
        raised = not isinstance(error, VerificationError)
        if policy == "stop":
            report.action = "stopped"
            self._finish(pass_, report)
            raise Stopped(error)
        if policy == "rollback" or raised:
            # What a pass that raised has left behind is not a model to continue with.
            report.action = "rolled back"
            self.model = before.restore()
            self.snapshot = before
            report.nodes_after, report.bytes_after = report.nodes_before, report.bytes_before
        else:
            report.action = "warned"

    def _invalidate(self, pass_: Pass) -> None:
        if ALL in (pass_.preserves, *pass_.preserves):
            return
        self.valid &= set(pass_.preserves)
        for name in [n for n in self.context.analyses if n not in self.valid]:
            del self.context.analyses[name]

    def _finish(self, pass_: Pass, report: PassReport) -> None:
        for instrument in self.instruments:
            instrument.after_pass(pass_, self.model, report)


def _implied(cls: type[Pass], by: PassStep) -> PassStep:
    """Return the step of a pass that another one requires or is followed by."""
    return PassStep(cls, validate_options(cls, {}), by.on_failure, None, by.where)


def _measure(report: PassReport, snapshot: Snapshot) -> None:
    report.nodes_before = report.nodes_after = snapshot.nodes
    report.bytes_before = report.bytes_after = snapshot.weight_bytes


def _failed(pass_: Pass, message: str) -> str:
    """Word a failure as onnx-ir words a failed post-condition."""
    name = type(pass_).__name__
    return (
        f"PostconditionError: Post-condition for pass '{name}' failed\n"
        f"VerificationError: {message}"
    )


def _reason(checks: Sequence[Check]) -> str:
    failed = [c for c in checks if c.verdict is Verdict.FAILED]
    first = failed[0]
    engine = f" on {first.engine}" if first.engine else ""
    return f"{first.reason or first.kind + ' failed'}{engine}"
