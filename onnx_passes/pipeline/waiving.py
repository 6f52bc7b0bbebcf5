"""Waivers at work: which failures they accept, and what the report says of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import date

from onnx_passes.configs.schema import PipelineConfig
from onnx_passes.configs.sections import Waiver, find_waivers
from onnx_passes.report.run_report import Blame, PassReport, RunReport, WaiverReport
from onnx_passes.verify.result import Check, Verdict

_NEVER = ("structure", "interface")
"""Kinds of checks without which a model cannot be used."""


_WAIVED = "failed, and waived: "


def list_waivers(config: PipelineConfig, today: date) -> list[WaiverReport]:
    """Return what a report says of the waivers of a pipeline before they are used.

    Args:
        config: The pipeline file.
        today: The day, for waivers that expire.
    """
    return [
        WaiverReport(
            str(waiver),
            waiver.model,
            waiver.reason,
            waiver.expires.isoformat() if waiver.expires else None,
            expired=waiver.has_expired(today),
        )
        for waiver in _waivers(config)
    ]


def waive_failure(config: PipelineConfig, run: RunReport, done: PassReport) -> bool:
    """Accept a failed pass if there are waivers for all that is to blame.

    The pass is kept, with its failure in the report.

    Args:
        config: The pipeline.
        run: The report of the run.
        done: The pass whose check failed, after the search for what is to blame.
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

    Args:
        config: The pipeline file.
        run: The report of the run; its checks are changed.
    """
    reasons = _accept(config, run, [(b.name, _rules(b, run)) for b in run.blame])
    if reasons is None:
        return False
    run.final = [_waived(c, reasons) if c.verdict is Verdict.FAILED else c for c in run.final]
    return True


def waive_gaps(config: PipelineConfig, run: RunReport, done: PassReport) -> str | None:
    """Return why what is not verified of a pass is accepted; None if it is not.

    Args:
        config: The pipeline file.
        run: The report of the run.
        done: The report of the pass.
    """
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
    known, today = _waivers(config), date.today()
    used: list[Waiver] = []
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
    if blame.step is None or blame.step >= len(run.passes):
        return []
    return [rewrite.rule for rewrite in run.passes[blame.step].rewrites]


def _waivers(config: PipelineConfig) -> list[Waiver]:
    return [section.waiver() for section in config.waivers]
