"""The pass manager: run the steps of a pipeline in order; keep or undo each pass.

A pass is executed, measured and checked. After a failed check the other rewrites may be kept.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import TYPE_CHECKING

from onnx_passes.configs.resolve import CheckpointStep, GroupStep, PassStep, ResolvedStep
from onnx_passes.configs.steps import Repeat
from onnx_passes.errors import (
    FixpointError,
    LostWeightsError,
    OnnxPassesError,
    PassError,
    VerificationError,
)
from onnx_passes.model.copy import header_difference
from onnx_passes.model.walk import all_graphs, node_count, topological_order, weight_bytes
from onnx_passes.passes.base import Analysis, Pass, is_shipped
from onnx_passes.passes.compose import MAX_ROUNDS, ComposePass
from onnx_passes.passes.context import Application
from onnx_passes.passes.options import validate_options
from onnx_passes.passes.registry import collect
from onnx_passes.passes.replace import reserve_names
from onnx_passes.pipeline.garbage_collection import collect_young
from onnx_passes.pipeline.pass_execution import Attempt, Attempts, complaint, execute
from onnx_passes.pipeline.policy import budget_spent, waive_failure
from onnx_passes.pipeline.run_state import RunState, Stopped, reason_of, rewrite_summary
from onnx_passes.pipeline.state import Checked, Kept
from onnx_passes.report.run_report import PassReport
from onnx_passes.verify.evidence import Checks, Verdict
from onnx_passes.verify.snapshot import Change, Snapshot

if TYPE_CHECKING:
    from onnx_passes.pipeline.gate import Gate
    from onnx_passes.pipeline.objective import ProfitabilityFilter


@dataclass
class PassRun:
    """One run of one pass.

    ``first`` is the position in the record of rewrites at which it began; None for a sequence
    of passes, which were each judged already.
    """

    state: RunState
    pass_: Pass
    step: PassStep
    report: PassReport
    before: Snapshot
    first: int | None

    @classmethod
    def begin(cls, state: RunState, step: PassStep, group: str) -> PassRun:
        pass_, before = step.make(state.plain, state.state), state.snapshot
        report = state.add_report(step.text, pass_.promise(), group)
        return cls(state, pass_, step, report, before, len(state.rewrites.applied))

    @property
    def composed(self) -> bool:
        return self.first is None

    @property
    def applied(self) -> list[Application]:
        return [] if self.first is None else self.state.rewrites.applied[self.first :]

    @property
    def policy(self) -> str:
        return self.step.on_failure or self.state.config.on_failure

    def make(self) -> Pass:
        return self.step.make(self.state.plain, dict(self.state.state))

    def execute(self) -> bool:
        """Run and judge the pass; return whether the model differs, or raise Stopped."""
        state, pass_, report = self.state, self.pass_, self.report
        pass_.context = state.context
        state.context.notes = []
        for instrument in state.instruments:
            instrument.before_pass(pass_, state.model, report)
        said = state.skipping.notes(pass_, self.step, self.before)
        if said is not None:
            report.notes += said
            self._note_in_history()
            state.valid[pass_.name] = type(pass_)
            self._finish()
            return False
        if self._may_undo():
            self.before.hold()
        else:
            self.before.let_go()
        start, failure = time.perf_counter(), None
        try:
            result = execute(pass_, state.model, state.config.limits.pass_seconds)
            report.claimed = bool(result.modified)
            state.model = result.model
        except OnnxPassesError as error:
            failure = error
        report.pass_seconds = time.perf_counter() - start
        report.notes += state.context.notes
        if failure is None and report.claimed:
            self._keep_nodes()
            if state.paying is not None:
                self._undo_what_does_not_pay(state.paying)
        report.rewrites = [rewrite_summary(a) for a in self.applied]
        self._note_in_history()
        if failure is None:
            return self.judge()
        report.verdict = Verdict.FAILED
        failure.where = failure.where or self.step.where
        self._fail(failure, f"{type(failure).__name__}: {failure}")
        self._finish()
        return False

    def judge(self) -> bool:
        """Measure what changed, check it, keep or undo it, and return whether it is kept."""
        start, state, report = time.perf_counter(), self.state, self.report
        try:
            change = self._change()
        except OnnxPassesError as broken:  # a cycle, for one: the model has no hash any more
            report.changed, report.verdict = True, Verdict.FAILED
            error = VerificationError(broken.message, where=self.step.where)
            self._fail(error, _failed(self.pass_, broken.message))
            self._finish()
            return False
        report.changed = change is not Change.NONE
        after = self._measure()
        wrong = complaint(self.pass_, change)
        if wrong is not None:
            report.verdict = Verdict.FAILED
            self._fail(PassError(wrong), f"PassError: {wrong}")
        elif report.changed and (gate := state.gate) is not None:
            self._note_lost_header()
            with gate.running(f"the check of pass {self.pass_.name!r}"):
                self._verify(gate, change, start)
        elif report.changed:
            report.verdict = Verdict.NOT_VERIFIED
        if report.verdict is not Verdict.FAILED:
            report.verify_seconds = time.perf_counter() - start
        report.budget_spent = budget_spent(report.checks)
        kept = report.changed and report.action != "rolled back"
        if kept:
            self._keep(after)
        if report.verdict is not Verdict.FAILED:
            state.valid[self.pass_.name] = type(self.pass_)
        self._finish()
        return kept

    def _note_lost_header(self) -> None:
        """Report what the model no longer says of itself, unless the pass declares that."""
        lost = header_difference(self.before.model, self.state.model)
        if lost and "metadata" not in self.pass_.interface_changes:
            self.state.report.notes.append(f"pass {self.pass_.name!r}: {', '.join(lost)}")

    def _measure(self) -> Snapshot | None:
        """Report the size of the result; return its snapshot if nothing is checked."""
        state, report = self.state, self.report
        if not report.changed:
            if not self.composed:
                state.skipping.note(self.step, self.before, report.notes)
            return None
        after = None
        if state.gate is None:
            after = Snapshot(state.model, after=self.before, hold=False, untouched=True)
            report.nodes_after, report.bytes_after = after.nodes, after.weight_bytes
        else:
            report.nodes_after = node_count(state.model)
            report.bytes_after = weight_bytes(state.model)
        if not report.claimed and not self.composed:
            report.notes.append("the pass changed the model and said that it did not")
        return after

    def _keep(self, after: Snapshot | None) -> None:
        state = self.state
        if self.first is not None:
            applied, skip = tuple(self.applied), state.rewrites.skip
            state.kept.append(Kept(self.step, self.report.index, self.first, applied, skip))
        if state.snapshot is self.before or self.composed:
            state.snapshot = after or Snapshot(state.model, after=self.before, untouched=True)
        if self.pass_.settled and not self.composed:
            state.skipping.note(self.step, state.snapshot, [])
        state.invalidate(self.pass_, self.applied)

    def _keep_nodes(self) -> None:
        keep = self.state.staying
        if not (lost := keep.lost_in(self.state.model)):
            return
        rest, skip = keep.restore(self.before.model, self._made)
        self._take(rest, skip)
        if rest is None:
            note = f"pass {self.pass_.name!r} was left out, to keep {', '.join(lost)}"
            self.state.report.notes.append(note)
        else:
            rewrites = "1 rewrite" if len(skip) == 1 else f"{len(skip)} rewrites"
            self.report.notes.append(f"left out {rewrites}, to keep {', '.join(lost)}")

    def _undo_what_does_not_pay(self, paying: ProfitabilityFilter) -> None:
        """Leave out the rewrites that cost more than they save, before anything is checked."""
        report, made = self.report, self._made
        chosen = paying.choose(self.pass_, made.attempts, made)
        report.pays, report.notes = chosen.reports, [*report.notes, *chosen.notes]
        if chosen.undone:
            self._take(chosen.rest, chosen.skip)

    @property
    def _made(self) -> Attempt:
        """What the pass made, not checked yet."""
        state = self.state
        attempts = Attempts(
            self.make,
            self.before,
            state.context,
            self.first or 0,
            lambda *_: Checked(),
            state.config.limits.pass_seconds,
        )
        return Attempt(attempts, state.model, list(self.applied))

    def _take(self, rest: Attempt | None, skip: AbstractSet[str]) -> None:
        """Go on with what the pass makes without some rewrites; None undoes all of it."""
        rewrites = self.state.rewrites
        self.state.model = self.before.restore() if rest is None else rest.model
        rewrites.applied[self.first or 0 :] = [] if rest is None else rest.applied
        rewrites.skip |= skip

    def _may_undo(self) -> bool:
        """Whether the model before a pass may be needed once it has run.

        Copies take a tenth of a run's time. Where nothing is checked and a failure ends the
        run, only an analysis is held against the model that it was given.
        """
        state = self.state
        needed = state.gate is not None or state.paying is not None
        needed |= bool(state.staying.operators)
        return needed or self.policy != "stop" or isinstance(self.pass_, Analysis)

    def _change(self) -> Change:
        """Return what a pass changed, in kind only if that is of use; may raise ModelError."""
        model = self.state.model
        if self._may_undo():
            return self.before.change(model)
        shipped = is_shipped(type(self.pass_))
        if shipped and not self.composed and not self.report.claimed:
            self.before.is_still(model)  # the library's passes are held to what they claim
            return Change.NONE
        if not self.before.differs(model):
            return Change.NONE
        if not shipped:
            for graph in all_graphs(model):
                topological_order(graph)
        return Change.COMPUTATION

    def _verify(self, gate: Gate, change: Change, start: float) -> None:
        state, step, report = self.state, self.step, self.report
        checked = gate.check(
            self.pass_, self.before, state.model, change, step.tolerance, self.applied
        )
        collect_young()
        report.checks, report.evidence = checked.checks, checked.evidence
        report.verify_seconds = time.perf_counter() - start
        report.budget_spent = budget_spent(report.checks)
        report.verdict = checked.verdict
        if report.verdict is not Verdict.FAILED:
            gate.keep(checked)
            return
        message = reason_of(report.checks)
        report.error = _failed(self.pass_, message)
        from onnx_passes.pipeline.failure import FailedCheck  # slow to import

        failed = FailedCheck(
            state, gate, self.pass_, step, self.make, report, self.before, self.first, checked
        )
        search, begun = failed.explain(change), start + report.verify_seconds
        state.report.move_time(time.perf_counter() - begun, "passes", "cause")
        if waive_failure(state.config, state.report, report):
            gate.keep(checked)
            return
        rest = failed.undo(search)
        if rest is not None:
            failed.tell(rest, search, message)
            state.model = rest.model
            gate.keep(rest.checked)
            return
        self._fail(VerificationError(message, where=step.where), report.error)
        if report.action == "warned":
            gate.keep(checked)

    def _fail(self, error: OnnxPassesError, text: str) -> None:
        report = self.report
        report.error = text
        raised = not isinstance(error, VerificationError)
        if self.policy == "stop" or isinstance(error, LostWeightsError):
            report.action = "stopped"
            self._finish()
            raise Stopped(error)
        if self.policy == "rollback" or raised:
            # What a pass that raised has left behind is not a model to continue with.
            report.action = "rolled back"
            self.state.model = self.before.restore()
            self.state.snapshot = self.before
            report.nodes_after, report.bytes_after = report.nodes_before, report.bytes_before
        else:
            report.action = "warned"

    def _note_in_history(self) -> None:
        self.state.state["counter"] += 1
        self.state.state["history"].append(type(self.pass_))

    def _finish(self) -> None:
        for instrument in self.state.instruments:
            instrument.after_pass(self.pass_, self.state.model, self.report)


def _failed(pass_: Pass, message: str) -> str:
    """Word a failure as onnx-ir words a failed post-condition."""
    return (
        f"PostconditionError: Post-condition for pass '{type(pass_).__name__}' failed\n"
        f"VerificationError: {message}"
    )


class PassManager(RunState):
    """Runs the steps of a pipeline over a model."""

    def run(self, steps: Sequence[ResolvedStep]) -> None:
        """Run all steps; raise Stopped if a pass failed and the policy is to stop."""
        for step in steps:
            self._step(step, "")
            self.done += 1

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
        changing = [p.name for p in self.report.passes[first:] if p.changed]
        raise Stopped(
            FixpointError(
                f"group {step.name!r} still changes the model after {step.limit} rounds: "
                f"{', '.join(dict.fromkeys(changing))}",
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
        report = self.add_report(step.text, composed.promise(), group, before)
        PassRun(self, composed, step, report, before, None).judge()

    def _checkpoint(self, step: CheckpointStep, group: str) -> None:
        report = self.add_report(step.name, "drift", group)
        if self.gate is not None:
            self._hold_against_original(self.gate, step, report)

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
            message = f"checkpoint {step.name!r}: {reason_of(report.checks)}"
            report.error = f"VerificationError: {message}"
            traced, begun = None, start + report.verify_seconds
            if small is Verdict.FAILED:
                from onnx_passes.pipeline.failure import trace

                name = f"{report.index:04d}-{step.name}"
                traced = trace(self, report.checks, name, message)
            elif self.whole is not None:
                report.reproducer = self.whole.reproducer
            self.report.move_time(time.perf_counter() - begun, "passes", "cause")
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
        wanted = step.cls.needed_opset(step.options)
        if self.model.graph.opset_imports.get("", wanted) < wanted:
            note = f"{step.cls.name} needs opset {wanted}: raise-opset ran before it"
            self.report.notes.append(note)
            (cls,) = collect(["raise-opset"])
            raising = _implied(cls, step, version=wanted)
            self._with_dependencies(raising, group, (*above, step.cls))
        if PassRun.begin(self, step, group).execute():
            for cls in collect(step.cls.followed_by):
                self._with_dependencies(_implied(cls, step), group, (*above, step.cls))


def _implied(cls: type[Pass], by: PassStep, **options: int) -> PassStep:
    """Return the step of a pass that another one requires or is followed by."""
    return PassStep(cls, validate_options(cls, options), by.on_failure, None, by.where)
