"""Outputs of two models on one engine, held to what a pass promises."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from onnx_passes.config.sections import OutputTolerance, Verify
from onnx_passes.contracts import Contract, Equality, Metric, Tolerance
from onnx_passes.pipeline import measure
from onnx_passes.pipeline.baseline import Baseline, Bench
from onnx_passes.pipeline.noise import Noise
from onnx_passes.pipeline.spending import Spending
from onnx_passes.pipeline.thresholds import Limits, Thresholds
from onnx_passes.pipeline.truth import Truth
from onnx_passes.runtime.base import Outputs
from onnx_passes.runtime.inputs import name_of
from onnx_passes.verify.compare import compare
from onnx_passes.verify.result import Check, OutputCheck, Verdict
from onnx_passes.verify.snapshot import Snapshot


@dataclass
class Comparing:
    """Puts what two models gave side by side, under the limits of the pipeline.

    Attributes:
        settings: The section ``verify`` of the pipeline.
        baseline: The original on every engine.
        original: The original model.
        labels: Expected outputs or labels of each sample, where the user gave them.
    """

    settings: Verify
    baseline: Baseline
    original: Snapshot
    labels: Sequence[Outputs] | None = None

    def __post_init__(self) -> None:
        """Put the limits together."""
        self.thresholds = Thresholds(self.settings, self.baseline.notes)
        self.noise = Noise(self.baseline)
        self.truth = Truth(self.settings, self.baseline, self.original)
        self.spending = Spending()

    def contract(
        self,
        bench: Bench,
        produced: list[Outputs],
        contract: Contract,
        override: OutputTolerance | None,
    ) -> list[Check]:
        """Hold outputs to a contract, against those of the model accepted last."""
        match contract:
            case Equality():
                return [self.compare("equality", bench, bench.accepted, produced, contract)]
            case Tolerance() if self.truth.wanted and self.truth.usable:
                return [self.truth.judge(bench, produced)]
            case Tolerance():
                limits = self.thresholds.step(contract, override)
                for again in (False, True):
                    raised = self._raised(bench, limits, "tolerance", again=again)
                    step = self.compare("tolerance", bench, bench.accepted, produced, *raised)
                    if step.verdict is not Verdict.FAILED:
                        break
                step = self._excused(bench, produced, step)
                return [*self.truth.missing(bench), step, self.spend(bench, produced)]
            case Metric(names):
                found = self.metrics(bench, produced, names)
                if found:
                    return found
                reason = "the pass promises metrics, and the pipeline has no verify.metrics"
                name = bench.engine.name
                return [Check("metric", Verdict.NOT_VERIFIED, name, reason=reason)]

    def spend(self, bench: Bench, produced: list[Outputs]) -> Check:
        """Charge a pass for what it took of each output's error budget."""
        origin = self.spending.origin(bench)
        for again in (False, True):
            limits = self._raised(bench, self.thresholds.drift(), "drift", again=again)
            drift = self.compare("drift", bench, origin, produced, *limits)
            step = self.compare("drift", bench, bench.accepted, produced, *limits)
            found = self.spending.spend(bench, drift, step)
            if found.verdict is not Verdict.FAILED:
                break
        return self._excused(bench, produced, found)

    def end(self, bench: Bench, produced: list[Outputs]) -> list[Check]:
        """Hold outputs against the original's."""
        metrics = self.metrics(bench, produced, ())
        if self.truth.wanted and self.truth.usable:
            return [self.truth.judge(bench, produced), *metrics]
        limits = self._raised(bench, self.thresholds.drift(), "drift", measure=False)
        drift = self.compare("drift", bench, bench.original, produced, *limits)
        if drift.verdict is Verdict.FAILED and self.noise.asked(bench):
            limits = self._raised(bench, self.thresholds.drift(), "drift", again=True)
            drift = self.compare("drift", bench, bench.original, produced, *limits)
        drift = self._excused(bench, produced, drift)
        return [*self.truth.missing(bench), drift, *metrics]

    def _excused(self, bench: Bench, produced: list[Outputs], check: Check) -> Check:
        """Return a check, passed where half precision rounds in other places only."""
        if check.verdict is not Verdict.FAILED or self.thresholds.given:
            return check
        return self.truth.excuse(bench, produced, check)

    def metrics(
        self, bench: Bench, produced: list[Outputs], names: Sequence[str]
    ) -> list[Check]:
        """Measure those of the pipeline's metrics that have these names, all for none."""
        ranges = self.settings.metrics
        wanted = {n: r for n, r in ranges.items() if not names or n in names}
        if not wanted:
            return []
        # Special values come last; neither labels nor ranges are for them.
        count = sum(name_of(feeds) is None for feeds in self.baseline.samples)
        original, produced = bench.original[:count], produced[:count]
        return [measure.metrics_check(bench, wanted, original, produced, self.labels)]

    def compare(
        self,
        kind: str,
        bench: Bench,
        expected: Sequence[Outputs],
        produced: Sequence[Outputs],
        contract: Equality | Tolerance,
        overrides: dict[str, Tolerance] | None = None,
    ) -> Check:
        """Compare the outputs of all samples; those that are no evidence are left out."""
        worst: dict[str, OutputCheck] = {}
        failed: int | None = None
        stable = self._stable
        if expected and not any(stable(outputs) for outputs in expected):
            unstable = ", ".join(sorted(self.baseline.unstable))
            reason = f"the original gives another result each time: {unstable}"
            return Check(kind, Verdict.NOT_VERIFIED, bench.engine.name, reason=reason)
        for sample, (old, new) in enumerate(zip(expected, produced, strict=True)):
            results = compare(
                stable(old),
                stable(new),
                contract,
                overrides=overrides,
                negative_zero=self.settings.negative_zero,
            )
            for result in results:
                measure.merge(worst, result)
            if failed is None and not all(result.passed for result in results):
                failed = sample
        check = Check(kind, Verdict.PASSED, bench.engine.name, outputs=tuple(worst.values()))
        if failed is None:
            return check
        name = name_of(self.baseline.samples[failed])
        reason = measure.mismatch(kind, worst, failed, name)
        return replace(check, verdict=Verdict.FAILED, reason=reason, sample=failed)

    def _stable(self, outputs: Outputs) -> Outputs:
        return {k: v for k, v in outputs.items() if k not in self.baseline.unstable}

    def _raised(
        self,
        bench: Bench,
        limits: Limits,
        what: str,
        *,
        measure: bool = True,
        again: bool = False,
    ) -> Limits:
        """Raise a default limit above the noise.

        Noise is measured for passes under tolerance, by a second run only where they would
        fail otherwise; the end makes do with what is known.
        """
        noise = self.noise.of(bench, again=again) if measure else self.noise.known(bench)
        return self.thresholds.above(limits, noise, self.baseline.unstable, what)
