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
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from onnx_passes.errors import UnknownMetricError, UsageError
from onnx_passes.report import summary
from onnx_passes.report.model import PassReport, RunReport
from onnx_passes.report.text import number
from onnx_passes.verify.result import Check, Checks, MetricCheck, OutputCheck, Spent, Verdict

_UNDECIDED = "cannot be decided without inference"


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
    judge = _Judge(rtol, atol, ranges, samples)
    for done in result.passes:
        _rejudge(done, judge)
    result.final = [judge.check(check, "the end result") for check in result.final]
    result.not_verified += judge.undecided
    result.notes.append(f"Thresholds were applied again to a saved run: {judge}.")
    _conclude(result, report)
    return result


@dataclass
class _Judge:
    rtol: float | None
    atol: float | None
    ranges: dict[str, tuple[float, float]]
    samples: int
    undecided: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        parts = [f"rtol {number(self.rtol)}"] if self.rtol is not None else []
        parts += [f"atol {number(self.atol)}"] if self.atol is not None else []
        parts += [
            f"{name} in [{number(low)}, {number(high)}]"
            for name, (low, high) in self.ranges.items()
        ]
        return ", ".join(parts) or "none given"

    def check(self, check: Check, subject: str) -> Check:
        if not self.applies(check):
            return check
        outputs = check.outputs
        if check.kind in ("tolerance", "drift"):
            outputs = tuple(self.output(check, output) for output in outputs)
        metrics = tuple(self.metric(metric) for metric in check.metrics)
        budget = self.budget(check)
        open_ones = [o for o in outputs if o.reason and o.reason.startswith(_UNDECIDED)]
        verdict, reason = Verdict.PASSED, None
        if any(not o.passed for o in outputs if o not in open_ones) or any(
            not metric.passed for metric in metrics
        ):
            verdict = Verdict.FAILED
        elif open_ones:
            verdict, reason = (
                Verdict.NOT_VERIFIED,
                f"{open_ones[0].output} {open_ones[0].reason}",
            )
            where = f" on {check.engine}" if check.engine else ""
            self.undecided.append(f"{subject}{where}: {reason}.")
        return replace(
            check,
            outputs=outputs,
            metrics=metrics,
            verdict=verdict,
            reason=reason,
            budget=budget,
        )

    def budget(self, check: Check) -> tuple[Spent, ...]:
        """Return what is spent of new limits, where the old shares say it."""
        limits = {output.output: output for output in check.outputs}
        found: list[Spent] = []
        for spent in check.budget:
            output = limits[spent.output]
            rtol = output.rtol if self.rtol is None else self.rtol
            atol = output.atol if self.atol is None else self.atol
            if factor := _factor(output, rtol, atol):
                found.append(
                    replace(
                        spent,
                        step=spent.step / factor,
                        total=spent.total / factor,
                        summed=spent.summed / factor,
                        limit=spent.limit * factor,
                    )
                )
        return tuple(found)

    def applies(self, check: Check) -> bool:
        if check.verdict is Verdict.FAILED:
            # A check that failed for another reason, a crash say, has no threshold.
            return any(not o.passed for o in check.outputs) or any(
                not metric.passed for metric in check.metrics
            )
        return check.verdict is Verdict.PASSED

    def metric(self, metric: MetricCheck) -> MetricCheck:
        if metric.name not in self.ranges:
            return metric
        low, high = self.ranges[metric.name]
        return replace(metric, low=low, high=high)

    def output(self, check: Check, output: OutputCheck) -> OutputCheck:
        rtol = output.rtol if self.rtol is None else self.rtol
        atol = output.atol if self.atol is None else self.atol
        if (rtol, atol) == (output.rtol, output.atol) or not _has_tolerance(output):
            return output
        tighter = rtol <= output.rtol and atol <= output.atol
        factor = _factor(output, rtol, atol)
        passed = _decide(check, output, rtol, atol, self.samples)
        count = 0
        if passed:
            reason = None
        elif passed is None:
            reason = f"{_UNDECIDED}: {self.missing()}"
        else:
            # Lower bounds: what was outside stays outside a tighter limit.
            count = max(output.mismatched, 1) if tighter else 1
            reason = (
                f"at least {count} of {output.size} elements differ by more than the tolerance"
            )
        return replace(
            output,
            passed=bool(passed),
            reason=reason,
            mismatched=count,
            rtol=rtol,
            atol=atol,
            limit=_scaled(output.limit, factor),
            share=None if factor is None or not output.share else output.share / factor,
        )

    def missing(self) -> str:
        if self.samples == 1:
            return "only the worst element was saved"
        return f"only the worst of {self.samples} samples was saved"


def _decide(
    check: Check, output: OutputCheck, rtol: float, atol: float, samples: int
) -> bool | None:
    factor = _factor(output, rtol, atol)
    if factor and output.share is not None:
        # All limits are so many times what they were, and so is what is left of them.
        return output.share <= factor
    if output.passed and rtol >= output.rtol and atol >= output.atol:
        return True
    if not output.passed and rtol <= output.rtol and atol <= output.atol:
        return False
    expected, actual = summary.element(output.expected), summary.element(output.actual)
    if expected is None or actual is None:
        return None
    if not (math.isfinite(expected) and math.isfinite(actual)):
        # Elements that are not finite come first among the worst, if they disagree.
        return None if str(expected) == str(actual) else False
    # Inside a model the limit may follow the largest element, which was not saved.
    if check.scope == "model" or rtol == 0:
        limit = atol + rtol * abs(expected)
        if abs(actual - expected) > limit:
            return False
    if samples == 1 and output.max_abs is not None and output.max_abs <= atol:
        return True
    return None


def _factor(output: OutputCheck, rtol: float, atol: float) -> float | None:
    """Return how many times wider every limit becomes; None where that differs by element."""
    pairs = [(rtol, output.rtol), (atol, output.atol)]
    if any((new == 0) != (old == 0) for new, old in pairs):
        return None
    ratios = [new / old for new, old in pairs if old]
    return ratios[0] if ratios and math.isclose(ratios[0], ratios[-1]) else None


def _scaled(value: float | None, factor: float | None) -> float | None:
    return None if value is None or factor is None else value * factor


def _has_tolerance(output: OutputCheck) -> bool:
    if output.max_abs is None:
        return False
    # Integers are exact; their texts distinguish them from floats.
    exact = output.expected is not None and output.expected.lstrip("-").isdigit()
    return not (exact and output.rtol == output.atol == 0)


def _rejudge(done: PassReport, judge: _Judge) -> None:
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
    measured = {m.name for c in summary.all_checks(report) for m in c.metrics}
    for name in ranges:
        if name not in measured:
            known = ", ".join(sorted(measured)) or "none"
            raise UnknownMetricError(
                f"the saved run did not measure {name!r}",
                help=f"measured were: {known}; others need a run",
            )
