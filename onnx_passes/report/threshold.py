"""Apply other thresholds to a saved run, as far as the numbers in its report decide.

A report keeps, for each output, the largest errors and the worst element of the worst sample.
From these follows, for new limits ``atol + rtol * |expected|``:

* looser in both: what passed passes; tighter in both: what failed fails;
* the worst element lies outside: it fails;
* the only sample's largest error is at most ``atol``: it passes.

Everything else cannot be decided without inference, and is reported so. Equality has no
threshold, nor have integers, booleans and strings: their verdicts stay.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping

from onnx_passes.errors import UnknownMetricError, UsageError
from onnx_passes.report import margins, summary
from onnx_passes.report.other_thresholds import OtherThresholds
from onnx_passes.report.pass_report import PassReport
from onnx_passes.report.run_report import RunReport
from onnx_passes.report.text import number
from onnx_passes.verify.result import Check, Checks, Verdict


def reapply(
    report: RunReport,
    rtol: float | None = None,
    atol: float | None = None,
    metrics: Mapping[str, tuple[float, float]] | None = None,
) -> RunReport:
    """Return the report of a run as other thresholds would have judged it.

    Args:
        report: A saved run, which is not changed.
        rtol: Relative tolerance of every float output under a tolerance; None keeps its own.
        atol: Absolute tolerance, likewise.
        metrics: Least and greatest value accepted, by the name of a metric.

    Returns:
        A copy with new verdicts, errors and exit code. Verdicts that the saved numbers do not
        decide are "not verified" and listed in ``not_verified``. What the run did after a
        verdict is history and stays: a pass that was rolled back is not applied again.

    Raises:
        UsageError: A tolerance is negative or NaN, or a range is empty.
        UnknownMetricError: A metric was not measured in the run.
    """
    ranges = dict(metrics or {})
    _check_limits(rtol, atol, ranges)
    _check_measured(report, ranges)
    result = copy.deepcopy(report)
    samples = report.reference.samples if report.reference else 0
    judge = OtherThresholds(rtol, atol, ranges, samples)
    for done in result.passes:
        _rejudge(done, judge)
    result.final = [judge.check(check, "the end result") for check in result.final]
    result.not_verified += judge.undecided
    result.notes.append(f"Thresholds were applied again to a saved run: {judge}.")
    _conclude(result, report)
    return result


def _rejudge(done: PassReport, judge: OtherThresholds) -> None:
    if done.verdict in (Verdict.UNCHANGED, Verdict.NOT_VERIFIED) and not done.checks:
        return
    before = done.checks
    done.checks = [judge.check(check, done.name) for check in before]
    if done.checks == before:
        return
    _tell_budget(done, before)
    was, done.verdict = done.verdict, Checks(tuple(done.checks)).verdict
    if was is Verdict.FAILED and done.verdict is not Verdict.FAILED:
        done.error = None
        done.notes.append(f"It failed in the saved run, and was {_HISTORY[done.action]}.")
    if was is not Verdict.FAILED and done.verdict is Verdict.FAILED:
        why = summary.verdict_words(done).why
        done.error = f"VerificationError: {done.name} fails the new thresholds: {why}"


def _tell_budget(done: PassReport, before: list[Check]) -> None:
    shares = [spent.total for check in done.checks for spent in check.budget]
    done.budget_spent = max(shares, default=None)
    if sum(len(check.budget) for check in before) > len(shares):
        done.notes.append(
            "What is spent of some error budget under these thresholds is not known: rtol and "
            "atol did not change by the same factor."
        )


_HISTORY = {
    "kept": "kept",
    "warned": "kept with a warning",
    "waived": "kept by a waiver",
    "rolled back": "rolled back, so what followed ran without it",
    "stopped": "where the run stopped, so what would have followed never ran",
}


def _conclude(result: RunReport, saved: RunReport) -> None:
    if saved.error is not None and summary.run_error(saved) is None:
        failing = [p for p in result.passes if p.verdict is Verdict.FAILED]
        if not failing:
            result.error = None
            result.not_verified.append(
                f"The saved run stopped at {saved.passes[-1].name}; what would have followed "
                "was not run."
            )
    failed = any(
        p.verdict is Verdict.FAILED and p.action not in ("rolled back", "waived")
        for p in result.passes
    ) or any(c.verdict is Verdict.FAILED for c in result.final)
    if failed:
        result.exit_code = 1
    elif result.error is None and result.exit_code == 1:
        result.exit_code = 0


def _check_limits(
    rtol: float | None, atol: float | None, ranges: Mapping[str, tuple[float, float]]
) -> None:
    for name, limit in (("rtol", rtol), ("atol", atol)):
        if limit is not None and not limit >= 0:
            raise UsageError(f"{name} is {number(limit)}", help="give a number of 0 or more")
    for name, (low, high) in ranges.items():
        if not low <= high:
            raise UsageError(
                f"no value of {name} lies in [{number(low)}, {number(high)}]",
                help="give the least value first, then the greatest",
            )


def _check_measured(report: RunReport, ranges: Mapping[str, object]) -> None:
    measured = {m.name for c in margins.all_checks(report) for m in c.metrics}
    for name in ranges:
        if name not in measured:
            known = ", ".join(sorted(measured)) or "none"
            raise UnknownMetricError(
                f"the saved run did not measure {name!r}",
                help=f"measured were: {known}; others need a run",
            )
