"""The error budget: what passes under tolerance have taken of the way to the drift limit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from onnx_passes.plain import PlainDict, PlainMapping
from onnx_passes.report.text import number, percent
from onnx_passes.runtime.engine_base import Outputs
from onnx_passes.verify.judge import describe
from onnx_passes.verify.result import BudgetShare, Check, OutputCheck, Verdict


@dataclass(frozen=True)
class Budget:
    """The error budget of each output on one engine; shares of the limit, 1 being all of it.

    Attributes:
        total: How far each output was from the original after the last accepted pass.
        summed: Sum of the steps of the passes so far.
        origin: Outputs that distances are measured from, by sample; None for the original's.
        carried: What was spent when ``origin`` was taken.
        moved: Whether a pass that is not charged for it has moved the outputs since.
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
        """Charge a pass, without accepting it yet.

        Args:
            drift: The outputs after the pass against :attr:`origin`, under the drift limit.
            step: The same outputs against those before the pass, under the same limit.

        Returns:
            The check with what was spent, failed where a budget is exceeded.
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
        before = self.total.get(worst.output, 0.0)
        return (
            f"{worst.output} too far from the original, its error budget is exceeded: "
            f"{percent(before)} of it was spent before, this pass spent "
            f"{percent(worst.step)} and makes that {percent(worst.total)}; the limit is "
            f"{number(worst.limit)} (rtol {number(output.rtol)}, atol {number(output.atol)}): "
            f"{describe(output)}"
        )

    def charged(self, spent: Sequence[BudgetShare], *, moved: bool = False) -> Budget:
        """Return the budget after a pass.

        Args:
            spent: What it spent.
            moved: Whether it moved the outputs without being charged for it.
        """
        return replace(
            self,
            total={**self.total, **{one.output: one.total for one in spent}},
            summed={**self.summed, **{one.output: one.summed for one in spent}},
            moved=self.moved or moved,
        )

    def remember(self) -> PlainDict:
        """Return what was spent, as JSON has it."""
        moved = self.moved or self.origin is not None
        return {"total": dict(self.total), "summed": dict(self.summed), "moved": moved}

    @classmethod
    def recall(cls, remembered: PlainMapping) -> Budget:
        """Return the budget that was remembered."""
        total, summed = (
            {k: float(v) for k, v in remembered[key].items()} for key in ("total", "summed")
        )
        return cls(total, summed, moved=bool(remembered["moved"]))


def budget_spent(checks: Sequence[Check]) -> float | None:
    """Return the largest share that is spent after a pass; None where it spent nothing."""
    return max((spent.total for check in checks for spent in check.budget), default=None)


def _exceeded(output: OutputCheck, spent: BudgetShare) -> OutputCheck:
    reason = f"the error budget is exceeded: {percent(spent.total)} of it is spent"
    return replace(output, passed=False, reason=reason)
