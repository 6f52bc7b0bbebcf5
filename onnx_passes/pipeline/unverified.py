"""What a run did not verify, and what holds on the values seen alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onnx_passes.configs.schema import PipelineConfig
from onnx_passes.pipeline.waiving import is_waived, waive_gaps
from onnx_passes.report.run_report import PassReport, RunReport
from onnx_passes.verify.evidence import Evidence
from onnx_passes.verify.result import Verdict

if TYPE_CHECKING:
    pass


def list_unverified(report: RunReport, config: PipelineConfig) -> list[str]:
    """Return what of a result was not verified, and note what is waived.

    Args:
        report: The report of the run; what is waived is added to it.
        config: The pipeline.
    """
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


def list_preconditions(report: RunReport, config: PipelineConfig) -> list[str]:
    """Return what the kept passes did that holds on the values seen, and not on others.

    Args:
        report: The report of the run; what is waived is added to it.
        config: The pipeline.
    """
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
