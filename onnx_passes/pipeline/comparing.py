"""Outputs of two models on one engine, held to what a pass promises."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

import onnx_ir as ir

from onnx_passes.configs.sections import OutputTolerance, Verify
from onnx_passes.contracts import Contract, Equality, Metric, Tolerance
from onnx_passes.errors import EngineError
from onnx_passes.pipeline.baseline import Baseline
from onnx_passes.pipeline.budget import Budget
from onnx_passes.pipeline.derived import excuse_by_cause
from onnx_passes.pipeline.engine_noise import Noise
from onnx_passes.pipeline.engine_side import Bench
from onnx_passes.pipeline.measure import metrics_check
from onnx_passes.pipeline.output_limits import Limits, Thresholds
from onnx_passes.pipeline.rounding_checks import excuse_outputs
from onnx_passes.pipeline.truth import Truth
from onnx_passes.runtime.engine_base import Outputs
from onnx_passes.runtime.inputs import name_of
from onnx_passes.verify.judge import Promise, judge, on_engine
from onnx_passes.verify.low_precision import low_tolerances
from onnx_passes.verify.result import Check, Verdict
from onnx_passes.verify.sensitivity import makes_any_steps
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
        self.thresholds = Thresholds(self.settings, self.baseline.notes, lambda: self.low)
        self.noise = Noise(self.baseline)
        self.truth = Truth(self.settings, self.baseline, self.original)

    @cached_property
    def low(self) -> dict[str, Tolerance]:
        """Default limits of the outputs that come by way of values below float32."""
        return low_tolerances(self.original.model)

    def inside(self, contract: Contract, override: OutputTolerance | None) -> Promise:
        """Return what values inside a model are held to by a contract.

        Args:
            contract: Equality or a tolerance.
            override: Limits of this use of the pass; None for none.
        """
        assert not isinstance(contract, Metric)
        if isinstance(contract, Equality):
            return Promise(contract, inside=True, negative_zero=self.settings.negative_zero)
        limit, overrides = self.thresholds.step(contract, override)
        derived = self.settings.derives_limits
        return Promise(contract, limit, overrides, inside=True, derived=derived)

    def contract(
        self,
        bench: Bench,
        accepted: list[Outputs],
        produced: list[Outputs],
        contract: Contract,
        override: OutputTolerance | None,
        budget: Budget,
        model: ir.Model,
    ) -> list[Check]:
        """Hold outputs to a contract, against those of the model accepted last.

        Args:
            bench: The engine.
            accepted: Outputs of the model accepted last, by sample.
            produced: Those of the model in question.
            contract: What the pass promises.
            override: Tolerances of this use of it.
            budget: What is left of each output's error budget.
            model: The model in question.
        """
        match contract:
            case Equality():
                return [self.compare("equality", bench, accepted, produced, contract)]
            case Tolerance() if self.truth.wanted and self.truth.usable:
                return [self.truth.judge(bench, produced)]
            case Tolerance():
                limits = self.thresholds.step(contract, override)
                for again in (False, True):
                    raised = self._raised(bench, limits, "tolerance", again=again)
                    step = self.compare("tolerance", bench, accepted, produced, *raised)
                    if step.verdict is not Verdict.FAILED:
                        break
                step = self.excused(bench, produced, step, model, accepted)
                spent = self.spend(bench, accepted, produced, budget, model)
                return [*self.truth.missing(bench), step, spent]
            case Metric(names):
                found = self.metrics(bench, produced, names)
                if found:
                    return found
                reason = "the pass promises metrics, and the pipeline has no verify.metrics"
                name = bench.engine.name
                return [Check("metric", Verdict.NOT_VERIFIED, name, reason=reason)]

    def spend(
        self,
        bench: Bench,
        accepted: list[Outputs],
        produced: list[Outputs],
        budget: Budget,
        model: ir.Model,
        *,
        vouched: bool = False,
    ) -> Check:
        """Charge a pass for what it took of each output's error budget.

        Args:
            bench: The engine, as for :meth:`contract`, like the others.
            accepted: Outputs of the model accepted last.
            produced: Those of the model in question.
            budget: What is left.
            model: The model in question.
            vouched: Whether each change up to it agrees by itself.
        """
        origin = bench.original if budget.origin is None else budget.origin
        for again in (False, True):
            limits = self._raised(bench, self.thresholds.drift(), "drift", again=again)
            drift = self.compare("drift", bench, origin, produced, *limits)
            step = self.compare("drift", bench, accepted, produced, *limits)
            found = budget.spend(drift, step.outputs)
            if found.verdict is not Verdict.FAILED:
                break
        if budget.origin is not None:
            return self._or_noise(found, bench, origin, produced)
        return self.excused(bench, produced, found, model, vouched=vouched)

    def excused(
        self,
        bench: Bench,
        produced: list[Outputs],
        check: Check,
        model: ir.Model,
        accepted: Sequence[Outputs] | None = None,
        *,
        vouched: bool = False,
    ) -> Check:
        """Return a failed check as passed where rounding is all there is.

        Limits that somebody gave hold. Where neither rounding nor another function is seen, it
        is not judged if noise may be all there is.

        Args:
            bench: The engine.
            produced: Outputs of the model in question.
            check: What was found of them.
            model: The model in question.
            accepted: What they were compared with; None for the original's.
            vouched: Whether each change up to the model agrees by itself.
        """
        wrong = {o.output for o in check.outputs if not o.passed}
        holds = self.thresholds.holds(check.kind)
        if check.verdict is not Verdict.FAILED or holds or not wrong:
            return check
        settled = self._settled(check, bench, produced) if vouched else None
        if settled is not None:
            return settled
        compared = bench.original if accepted is None else accepted
        otherwise = self._or_noise(check, bench, compared, produced)
        if {name.partition("[")[0] for name in wrong} <= self.low.keys():
            if not self.truth.usable:
                return otherwise
            right, limit = self.truth.outputs, self.settings.growth
            found = excuse_outputs(check, bench.original, produced, right, limit)
            return otherwise if found.verdict is Verdict.FAILED else found
        if not self.settings.derives_limits:
            return otherwise
        models = self.original.model, model
        rows = list(zip(bench.original, produced, strict=True))
        samples = self.baseline.samples
        return excuse_by_cause(check, models, samples, rows, compared, otherwise)

    def _settled(self, check: Check, bench: Bench, produced: list[Outputs]) -> Check | None:
        """Return a check of drift as passed where rounding moves the original as far."""
        try:
            found = self.noise.settle_drift(check, bench, produced)
        except EngineError:
            return None
        if found is not None and found.verdict is not Verdict.PASSED:
            # Elements that lie at a step are looked at one by one.
            return None if makes_any_steps(self.original.model) else found
        if found is not None:
            note, notes = f"drift on {check.engine}: {found.reason}", self.baseline.notes
            notes += [note] if note not in notes else []
        return found

    def _or_noise(
        self, check: Check, bench: Bench, expected: Sequence[Outputs], produced: list[Outputs]
    ) -> Check:
        again = partial(self.compare, check.kind, bench, expected, produced, Tolerance())
        return self.thresholds.or_noise(check, again)

    def end(
        self,
        bench: Bench,
        origin: list[Outputs] | None,
        produced: list[Outputs],
        model: ir.Model,
        *,
        vouched: bool = False,
    ) -> list[Check]:
        """Hold outputs against the original's.

        Args:
            bench: The engine.
            origin: Outputs of the last model that a metric kept, from which drift is measured;
                None for the original's.
            produced: The outputs of the result.
            model: The result.
            vouched: Whether each change agrees by itself.
        """
        metrics = self.metrics(bench, produced, ())
        expected = bench.original if origin is None else origin
        if origin is None and self.truth.wanted and self.truth.usable:
            return [self.truth.judge(bench, produced), *metrics]
        limits = self._raised(bench, self.thresholds.drift(), "drift", measure=False)
        drift = self.compare("drift", bench, expected, produced, *limits)
        if drift.verdict is Verdict.FAILED and self.noise.asked(bench):
            limits = self._raised(bench, self.thresholds.drift(), "drift", again=True)
            drift = self.compare("drift", bench, expected, produced, *limits)
        if origin is None:
            drift = self.excused(bench, produced, drift, model, vouched=vouched)
        else:
            drift = self._or_noise(drift, bench, expected, produced)
        return [*self.truth.missing(bench), drift, *metrics]

    def metrics(
        self, bench: Bench, produced: list[Outputs], names: Sequence[str]
    ) -> list[Check]:
        """Measure those of the pipeline's metrics that have these names, all for none.

        Args:
            bench: The engine.
            produced: Outputs of the result, one mapping a sample.
            names: Names of the metrics; empty for all.
        """
        ranges = self.settings.metrics
        wanted = {n: r for n, r in ranges.items() if not names or n in names}
        if not wanted:
            return []
        # Special values come last; neither labels nor ranges are for them.
        count = sum(name_of(feeds) is None for feeds in self.baseline.samples)
        original, produced = bench.original[:count], produced[:count]
        return [metrics_check(bench, wanted, original, produced, self.labels)]

    def compare(
        self,
        kind: str,
        bench: Bench,
        expected: Sequence[Outputs],
        produced: Sequence[Outputs],
        contract: Equality | Tolerance,
        overrides: dict[str, Tolerance] | None = None,
    ) -> Check:
        """Compare the outputs of all samples but those that do not count as evidence.

        Args:
            kind: The kind of the check.
            bench: The engine.
            expected: Outputs of the original, one mapping a sample.
            produced: Outputs of the result, one mapping a sample.
            contract: Equality, or the limits.
            overrides: Limits of single outputs by name; None for none.
        """
        low = frozenset(self.low) - self.settings.tolerance.outputs.keys()
        promise = Promise(
            contract,
            overrides=overrides or {},
            low=low if contract == Tolerance() else frozenset(),
            negative_zero=self.settings.negative_zero,
            kind=kind,
        )
        names = [name_of(feeds) for feeds in self.baseline.samples]
        unstable = self.baseline.unstable
        check = judge(expected, produced, promise, ignored=unstable, names=names)
        return on_engine(check, bench.engine.name)

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

    def moved_to(
        self, baseline: Baseline, original: Snapshot, labels: Sequence[Outputs] | None
    ) -> Comparing:
        """Return the same for another interface; notes go to the same list.

        Args:
            baseline: The original with its results, called through the new interface.
            original: The original.
            labels: Labels by name, one mapping a sample; None for none.
        """
        moved = replace(self, baseline=baseline, original=original, labels=labels)
        moved.thresholds.lifted |= self.thresholds.lifted
        return moved
