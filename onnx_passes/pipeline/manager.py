"""The pass manager: the steps of a pipeline in their order, groups, and dependencies."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from onnx_passes.configs.resolve import CheckpointStep, GroupStep, PassStep, ResolvedStep
from onnx_passes.configs.steps import Repeat
from onnx_passes.errors import FixpointError, PassError, VerificationError
from onnx_passes.passes.base import Pass
from onnx_passes.passes.compose import MAX_ROUNDS, ComposePass
from onnx_passes.passes.options import validate_options
from onnx_passes.passes.registry import collect
from onnx_passes.passes.replace import reserve_names
from onnx_passes.pipeline.pass_run import PassRun
from onnx_passes.pipeline.run_state import RunState, Stopped, reason_of
from onnx_passes.report.run_report import PassReport
from onnx_passes.verify.result import Checks, Verdict
from onnx_passes.verify.snapshot import Snapshot

if TYPE_CHECKING:
    from onnx_passes.pipeline.gate import Gate


class PassManager(RunState):
    """Runs the steps of a pipeline over a model."""

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
                traced = self.trace(report.checks, f"{report.index:04d}-{step.name}", message)
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
