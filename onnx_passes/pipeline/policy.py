"""What a run tolerates: an error budget, waivers, and what was not verified.

The budget says how much of the allowed drift the accepted passes have used. A waiver is a
failure that the user accepts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date

import onnx_ir as ir

from onnx_passes.configs.schema import PipelineConfig
from onnx_passes.configs.sections import WaiverSection, find_waivers
from onnx_passes.report.run_report import Blame, PassReport, RunReport, WaiverReport
from onnx_passes.report.text import number, percent
from onnx_passes.runtime.engine_base import Feeds, Outputs
from onnx_passes.verify.evidence import (
    BudgetShare,
    Check,
    Evidence,
    Kind,
    OutputCheck,
    Verdict,
)


@dataclass(frozen=True)
class Budget:
    """The error budget of each output on one engine; shares of the limit, 1 being all of it.

    ``total`` is the distance from the original after the last accepted pass, ``summed`` the
    sum of the steps so far. Distances are measured from ``origin``, by sample; None for the
    original's outputs. ``carried`` was spent when that was recorded. ``moved`` says that a
    pass that is not charged has moved the outputs since.
    """

    total: Mapping[str, float] = field(default_factory=dict)
    summed: Mapping[str, float] = field(default_factory=dict)
    origin: list[Outputs] | None = None
    carried: Mapping[str, float] = field(default_factory=dict)
    moved: bool = False

    def measured_from(self, accepted: list[Outputs]) -> Budget:
        """Measure from the accepted outputs, where an uncharged pass has moved them."""
        if not self.moved:
            return self
        return replace(self, origin=list(accepted), carried=dict(self.total), moved=False)

    def spend(self, drift: Check, step: Sequence[OutputCheck]) -> Check:
        """Charge a pass, without accepting it yet; the check fails if a budget is exceeded.

        ``drift`` is measured from :attr:`origin`, ``step`` from the outputs before the pass.
        """
        moved = {output.output: output.share or 0.0 for output in step}
        spent: list[BudgetShare] = []
        for output in drift.outputs:
            if output.share is None or output.limit is None:
                continue
            name = output.output
            part = moved.get(name, 0.0)
            total = self.carried.get(name, 0.0) + output.share
            summed = self.summed.get(name, 0.0) + part
            spent.append(BudgetShare(name, part, total, summed, output.limit))
        over = [s for s in spent if s.total > 1 and s.total > self.total.get(s.output, 0.0)]
        drift = replace(drift, budget=tuple(spent))
        unmeasured = [o for o in drift.outputs if not o.passed and o.share is None]
        if unmeasured:
            return drift
        if not over:
            # It may be too far off, but another pass was blamed already.
            outputs = tuple(replace(o, passed=True, reason=None) for o in drift.outputs)
            return replace(
                drift, verdict=Verdict.PASSED, reason=None, sample=None, outputs=outputs
            )
        worst = max(over, key=lambda s: s.total)
        outputs = tuple(
            o if not o.passed or o.output != worst.output else _exceeded(o, worst)
            for o in drift.outputs
        )
        return replace(
            drift,
            verdict=Verdict.FAILED,
            reason=self._reason(worst, next(o for o in outputs if o.output == worst.output)),
            sample=drift.sample or 0,
            outputs=outputs,
        )

    def _reason(self, worst: BudgetShare, output: OutputCheck) -> str:
        from onnx_passes.verify.judge import describe  # unverified runs do without it

        before = self.total.get(worst.output, 0.0)
        return (
            f"{worst.output} too far from the original, its error budget is exceeded: "
            f"{percent(before)} of it was spent before, this pass spent "
            f"{percent(worst.step)} and makes that {percent(worst.total)}; the limit is "
            f"{number(worst.limit)} (rtol {number(output.rtol)}, atol {number(output.atol)}): "
            f"{describe(output)}"
        )

    def charged(self, spent: Sequence[BudgetShare], *, moved: bool = False) -> Budget:
        return replace(
            self,
            total={**self.total, **{one.output: one.total for one in spent}},
            summed={**self.summed, **{one.output: one.summed for one in spent}},
            moved=self.moved or moved,
        )


def budget_spent(checks: Sequence[Check]) -> float | None:
    """Return the largest share that is spent after a pass; None where it spent nothing."""
    return max((spent.total for check in checks for spent in check.budget), default=None)


def _exceeded(output: OutputCheck, spent: BudgetShare) -> OutputCheck:
    reason = f"the error budget is exceeded: {percent(spent.total)} of it is spent"
    return replace(output, passed=False, reason=reason)


_NEVER = ("structure", "interface")
"""Kinds of checks without which a model cannot be used."""


_WAIVED = "failed, and waived: "


def list_waivers(config: PipelineConfig, today: date) -> list[WaiverReport]:
    """Return what a report says of the waivers of a pipeline before they are used."""
    return [
        WaiverReport(
            str(waiver),
            waiver.model,
            waiver.reason,
            waiver.expires.isoformat() if waiver.expires else None,
            expired=waiver.has_expired(today),
        )
        for waiver in config.waivers
    ]


def waive_failure(config: PipelineConfig, run: RunReport, done: PassReport) -> bool:
    """Accept a failed pass if there are waivers for all that is to blame.

    The pass is kept, with its failure in the report.
    """
    failed = [check for check in done.checks if check.verdict is Verdict.FAILED]
    if not failed or any(check.kind in _NEVER for check in failed):
        return False
    blamed = done.blame or [Blame(done.index, done.name, "")]
    reasons = _accept(config, run, [(b.name, _rules(b, run)) for b in blamed])
    if reasons is None:
        return False
    done.action = "waived"
    done.notes.append(f"waived: {reasons}")
    return True


def waive_result(config: PipelineConfig, run: RunReport) -> bool:
    """Accept a result that is too far from the original if all that is to blame is waived.

    Its failed checks become checks that verify nothing, and name the waiver.
    """
    reasons = _accept(config, run, [(b.name, _rules(b, run)) for b in run.blame])
    if reasons is None:
        return False
    run.final = [_waived(c, reasons) if c.verdict is Verdict.FAILED else c for c in run.final]
    return True


def waive_gaps(config: PipelineConfig, run: RunReport, done: PassReport) -> str | None:
    """Return why what is not verified of a pass is accepted; None if it is not."""
    if done.action == "waived":
        return next(n for n in done.notes if n.startswith("waived: ")).removeprefix("waived: ")
    return _accept(config, run, [(done.name, [r.rule for r in done.rewrites])])


def is_waived(check: Check) -> bool:
    """Whether a check of the result failed, and a waiver accepts that."""
    return (check.reason or "").startswith(_WAIVED)


def _waived(check: Check, reasons: str) -> Check:
    reason = f"{_WAIVED}{check.reason or check.kind + ' failed'}; accepted: {reasons}"
    return replace(check, verdict=Verdict.NOT_VERIFIED, reason=reason)


def _accept(
    config: PipelineConfig, run: RunReport, blamed: Sequence[tuple[str, list[str]]]
) -> str | None:
    """Mark the waivers that are needed as used; return their reasons, or None if one lacks."""
    known, today = config.waivers, date.today()
    used: list[WaiverSection] = []
    for name, rules in blamed:
        found = find_waivers(known, name, rules, run.model, today)
        if not found:
            return None
        used += found
    for waiver, told in zip(known, run.waivers, strict=True):
        told.used |= waiver in used
    return "; ".join(dict.fromkeys(waiver.reason for waiver in used)) or None


def _rules(blame: Blame, run: RunReport) -> list[str]:
    """Return the rule that is to blame; if none is named, all that the pass has applied."""
    if blame.rule is not None:
        return [blame.rule]
    found = (done for done in run.passes if done.index == blame.step)
    return [rewrite.rule for done in found for rewrite in done.rewrites]


def list_unverified(report: RunReport, config: PipelineConfig) -> list[str]:
    """Return what of a result was not verified; add what is waived to the report."""
    if not report.verify:
        changed = [p.name for p in report.passes if p.changed]
        return [f"verification is off: {', '.join(changed)} not verified"] if changed else []
    found: list[str] = []
    for done in report.passes:
        if done.action == "rolled back":
            continue
        open_checks = [
            check
            for check in done.checks
            if check.verdict is Verdict.NOT_VERIFIED
            and (check.level is None or done.verdict is Verdict.NOT_VERIFIED)
        ]
        if done.action == "waived":
            open_checks += [c for c in done.checks if c.verdict is Verdict.FAILED]
        reasons = [
            f"{check.reason} ({check.engine})" if check.engine else str(check.reason)
            for check in open_checks
        ]
        told = [f"{done.name}: {reason}" for reason in dict.fromkeys(reasons)]
        if done.verdict is Verdict.NOT_VERIFIED:
            weak = [one for one in done.evidence if not one.kind.verifies]
            parts = dict.fromkeys(f"{_part_text(done, o)}: {o.kind}, {o.reason}" for o in weak)
            told = [*told, *parts]
        why = waive_gaps(config, report, done) if told else None
        if why is not None:
            told = [f"{sentence} (waived: {why})" for sentence in told]
            report.waived += told
        found += told
    found += _by_made_up_inputs(report, config)
    for check in report.final:
        if check.verdict is Verdict.NOT_VERIFIED:
            sentence = f"the result: {check.reason} ({check.engine})"
            found.append(sentence)
            if is_waived(check):
                report.waived.append(sentence)
    return found


def _by_made_up_inputs(report: RunReport, config: PipelineConfig) -> list[str]:
    """Say which passes kept a budget that nobody gave on inputs that nobody gave."""
    data = config.tree.data
    given = isinstance(data, dict) and "metrics" in (data.get("verify") or {})
    source = "" if report.reference is None else report.reference.source
    if given or not source.startswith("generated"):
        return []
    names = [
        done.name
        for done in report.passes
        if done.changed
        and done.verdict is Verdict.PASSED
        and done.action != "rolled back"
        and any(check.metrics for check in done.checks)
    ]
    told = "numbers were held on made-up inputs; give --inputs (reference.inputs)"
    return [f"{', '.join(names)}: {told}"] if names else []


def _part_text(done: PassReport, one: Evidence) -> str:
    """Name a part of what a pass changed, and the pass."""
    same = one.what == done.name or one.what.startswith(f"{done.name}[")
    return one.what if same else f"{done.name}: {one.what}"


def list_sizes(
    report: RunReport,
    config: PipelineConfig,
    samples: Sequence[Feeds],
    models: tuple[ir.Model, ir.Model],
) -> list[str]:
    """Return integers that sizes meet and no sample is beyond, where samples are evidence.

    A waiver of each pass whose evidence they are accepts them.
    """
    executed = [
        done
        for done in report.passes
        if done.changed and done.action != "rolled back"
        if any(one.kind is Kind.EXECUTED for one in done.evidence)
    ]
    if not executed:
        return []
    from onnx_passes.runtime.inputs.size_limits import not_crossed

    told = not_crossed(*models, samples)
    reasons = [waive_gaps(config, report, done) for done in executed] if told else [None]
    accepted = [reason for reason in reasons if reason is not None]
    if len(accepted) == len(reasons):
        why = "; ".join(dict.fromkeys(accepted))
        told = [f"{sentence} (waived: {why})" for sentence in told]
        report.waived += told
    return told


def list_preconditions(report: RunReport, config: PipelineConfig) -> list[str]:
    """Return what kept passes did that holds on the values seen only; note what is waived."""
    found: list[str] = []
    for done in report.passes:
        told = [
            f"{_part_text(done, one)}: {one.unobserved}"
            for one in done.evidence
            if one.unobserved and one.kind.verifies and done.action != "rolled back"
        ]
        why = waive_gaps(config, report, done) if told else None
        if why is not None:
            told = [f"{sentence} (waived: {why})" for sentence in told]
            report.waived += told
        found += told
    return found
