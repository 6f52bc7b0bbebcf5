"""A saved check under other thresholds, as far as its numbers decide."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

from onnx_passes.report import margins
from onnx_passes.report.text import number
from onnx_passes.verify.result import BudgetShare, Check, MetricCheck, OutputCheck, Verdict

_UNDECIDED = "cannot be decided without inference"


@dataclass
class OtherThresholds:
    """Limits in place of those of a run, and what they leave open.

    Attributes:
        rtol: Relative tolerance of every float output under a tolerance; None keeps its own.
        atol: Absolute tolerance, likewise.
        ranges: Least and greatest value accepted, by the name of a metric.
        samples: Number of samples of the run.
        undecided: What the saved numbers do not decide, a sentence each.
    """

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

    def budget(self, check: Check) -> tuple[BudgetShare, ...]:
        """Return what is spent of new limits, where the old shares say it."""
        limits = {output.output: output for output in check.outputs}
        found: list[BudgetShare] = []
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
    expected, actual = margins.element(output.expected), margins.element(output.actual)
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
