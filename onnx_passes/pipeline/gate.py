"""The gate after every pass: structure, interface, then numbers on every engine."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import onnx_ir as ir

from onnx_passes.config.sections import OutputTolerance, Verify
from onnx_passes.contracts import Contract, Equality, Metric, Tolerance
from onnx_passes.errors import EngineError, ReferenceDataError
from onnx_passes.passes.base import Pass
from onnx_passes.pipeline import measure
from onnx_passes.pipeline.baseline import Baseline, Bench
from onnx_passes.pipeline.budget import Budget
from onnx_passes.pipeline.levels import Levels
from onnx_passes.pipeline.noise import Noise
from onnx_passes.pipeline.regional import Regional
from onnx_passes.pipeline.thresholds import Limits, Thresholds
from onnx_passes.pipeline.translated import Untranslated, translate
from onnx_passes.pipeline.truth import Truth
from onnx_passes.runtime.base import Feeds, Outputs
from onnx_passes.runtime.inputs import generate, name_of
from onnx_passes.verify.compare import compare
from onnx_passes.verify.feeds import check_feeds
from onnx_passes.verify.interface import Interface, compare_interfaces, interface_of
from onnx_passes.verify.region import changed_region
from onnx_passes.verify.result import Check, OutputCheck, Spent, Verdict
from onnx_passes.verify.snapshot import Change, Snapshot
from onnx_passes.verify.structure import check_structure


@dataclass
class Gate:
    """Holds a model against the one before it, and against the original.

    Attributes:
        settings: The section ``verify`` of the pipeline.
        baseline: The original on every engine.
        original: The original model.
        labels: Expected outputs or labels of each sample, where the user gave them.
        faults: What was wrong with the structure of the model before the first pass.
        levels: The engines that compile and do not execute.
    """

    settings: Verify
    baseline: Baseline
    original: Snapshot
    labels: Sequence[Outputs] | None = None
    faults: frozenset[str] = frozenset()
    levels: Levels = field(default_factory=Levels)
    _pending: dict[int, list[Outputs]] = field(default_factory=dict)
    _budgets: dict[str, Budget] = field(default_factory=dict)
    _spent: dict[str, Sequence[Spent]] = field(default_factory=dict)
    _charged: bool = True
    _regions: dict[int, Regional] = field(default_factory=dict)
    # What the model checked last differs in, and whether any accepted one computes something
    # else than the original.
    _change: Change = Change.NONE
    _moved: bool = False
    # Where the gate goes back to if a pass that changed the interface is not kept.
    _untranslated: Untranslated | None = None

    def __post_init__(self) -> None:
        """Put the limits together."""
        self.thresholds = Thresholds(self.settings, self.baseline.notes)
        self.noise = Noise(self.baseline)
        self.truth = Truth(self.settings, self.baseline, self.original)

    def check(
        self,
        pass_: Pass,
        before: Snapshot,
        model: ir.Model,
        change: Change,
        override: OutputTolerance | None = None,
    ) -> list[Check]:
        """Put all questions that a pass must answer, the cheapest first.

        Numbers are only compared where the structure is sound.
        """
        self._untranslate()
        self._pending.clear()
        self._spent.clear()
        self._change = change
        old = interface_of(before.model)
        promises = (Equality, Tolerance)
        self._charged = any(isinstance(c, promises) for c in pass_.contracts())
        checks = [self.structure(model), self.interface(pass_, old, interface_of(model))]
        if any(check.verdict is Verdict.FAILED for check in checks):
            return checks
        changed = bool(pass_.interface_changes) and interface_of(model) != old
        if change is Change.NAMES and not changed:
            if self._regions and not _named_as(before.model, model):
                self._regions.clear()
            reason = "only names, order or metadata changed: the canonical hash is the same"
            return [*checks, Check("equality", Verdict.PASSED, reason=reason)]
        if changed:
            self._follow_interface(pass_, before.model, model)
            self._regions.clear()
            self._charged = False
        if sum(bench.when == "each" for bench in self.baseline.benches) > 1:
            self._ready("each")  # one engine may leave out samples that others would record
        for index, bench in enumerate(self.baseline.benches):
            if bench.when == "each":
                found = None
                if self._untranslated is None:  # the model before takes other samples
                    found = self._regional(index, bench, before.model, model, pass_, override)
                if found is None:
                    found = self._whole(index, bench, before.model, model, pass_, override)
                checks += found
        return [*checks, *self.levels.check(before.model, model, "each")]

    def _regional(
        self,
        index: int,
        bench: Bench,
        before: ir.Model,
        model: ir.Model,
        pass_: Pass,
        override: OutputTolerance | None,
    ) -> list[Check] | None:
        """Check the region that changed, where that is enough and asked for."""
        contracts = pass_.contracts()
        promises = [c for c in contracts if isinstance(c, Equality | Tolerance)]
        if (
            self.settings.scope == "model"
            or (self.truth.wanted and any(isinstance(c, Tolerance) for c in promises))
            or not promises
            or len(promises) < len(contracts)
            or not self.baseline.deterministic
            or not self.baseline.samples
        ):
            return None
        region = self._regions.setdefault(index, Regional(self.settings.memory_limit))
        found = region.check(
            bench,
            self.baseline,
            before,
            model,
            promises,
            lambda contract: self.thresholds.step(contract, override),
            untouched=not self._moved,
        )
        if not region.moved or found is None:
            return found
        if any(check.verdict is Verdict.FAILED for check in found):
            return found
        start = time.perf_counter()
        drift = self._follow(index, bench, region, before, model)
        return [*found, replace(drift, seconds=time.perf_counter() - start)]

    def _follow(
        self, index: int, bench: Bench, region: Regional, before: ir.Model, model: ir.Model
    ) -> Check:
        """Find out what became of the outputs, where inner values are not what they were."""
        self._ready(bench.when)
        try:
            self._refresh(bench, before)
            produced = region.follow(bench, model, self.baseline.samples)
        except EngineError as error:
            reason = f"the result does not run: {error.message}"
            return Check("drift", Verdict.FAILED, bench.engine.name, reason=reason)
        self._pending[index] = produced
        return self._spend(bench, produced)

    def _refresh(self, bench: Bench, before: ir.Model) -> None:
        """Run the model before, where what it gives is not known.

        Raises:
            EngineError: It does not run.
        """
        budget = self._budget(bench)
        if bench.stale and budget.unsure:
            bench.accepted, bench.stale = bench.run(before, self.baseline.samples), False
        budget.unsure = False

    def _budget(self, bench: Bench) -> Budget:
        return self._budgets.setdefault(bench.key, Budget())

    def _spend(self, bench: Bench, produced: list[Outputs]) -> Check:
        """Charge a pass for what it took of each output's error budget."""
        budget = self._budget(bench)
        if budget.moved:
            budget.start_from(bench.accepted)
        limits = self._raised(bench, self.thresholds.drift(), "drift")
        origin = bench.original if budget.origin is None else budget.origin
        drift = self._drift(bench, produced, limits, origin)
        step = self._drift(bench, produced, limits, bench.accepted)
        found = budget.spend(drift, step.outputs)
        self._spent[bench.key] = found.budget
        return found

    def _whole(
        self,
        index: int,
        bench: Bench,
        before: ir.Model,
        model: ir.Model,
        pass_: Pass,
        override: OutputTolerance | None,
    ) -> list[Check]:
        """Check the whole model, against a run of the one before where that is missing."""
        if index in self._regions:
            self._regions[index].forget()
        self._ready(bench.when)
        if bench.stale:
            try:
                bench.accepted, bench.stale = bench.run(before, self.baseline.samples), False
            except EngineError as error:
                # A warning was its price; this pass is not to blame.
                kind = _kind(pass_.contracts())
                reason = f"the model before the pass does not run: {error.message}"
                name = bench.engine.name
                return [Check(kind, Verdict.NOT_VERIFIED, name, reason=reason)]
        self._budget(bench).unsure = False
        return self.numbers(index, bench, model, pass_.contracts(), override)

    def _ready(self, *moments: str) -> None:
        """Run the original on the engines of some moments, where that was not done."""
        count = len(self.baseline.samples)
        self.baseline.ready(*moments)
        if len(self.baseline.samples) < count:
            self._regions.clear()  # they have recorded the samples that are left out

    def structure(self, model: ir.Model) -> Check:
        """Ask whether the model is valid, apart from what was wrong with it before."""
        start = time.perf_counter()
        faults = [fault for fault in check_structure(model) if fault not in self.faults]
        return Check(
            "structure",
            Verdict.FAILED if faults else Verdict.PASSED,
            reason="; ".join(faults) or None,
            seconds=time.perf_counter() - start,
        )

    def interface(self, pass_: Pass, old: Interface, new: Interface) -> Check:
        """Ask whether the model is called as before, apart from what the pass declares."""
        changes = compare_interfaces(old, new, pass_.interface_changes)
        verdict = Verdict.FAILED if changes else Verdict.PASSED
        return Check("interface", verdict, reason="; ".join(changes) or None)

    def numbers(
        self,
        index: int,
        bench: Bench,
        model: ir.Model,
        contracts: Sequence[Contract],
        override: OutputTolerance | None = None,
    ) -> list[Check]:
        """Run the model on one engine, and hold its outputs to each contract."""
        start = time.perf_counter()
        kind = _kind(contracts)
        if not self.baseline.samples:
            reason = "there are no reference samples"
            return [Check(kind, Verdict.NOT_VERIFIED, bench.engine.name, reason=reason)]
        try:
            produced = bench.run(model, self.baseline.samples)
        except EngineError as error:
            reason = f"the result does not run: {error.message}"
            seconds = time.perf_counter() - start
            return [
                Check(kind, Verdict.FAILED, bench.engine.name, reason=reason, seconds=seconds)
            ]
        self._pending[index] = produced
        checks = [
            check
            for contract in contracts
            for check in self._contract(bench, produced, contract, override)
        ]
        if not contracts:
            reason = "the pass declares no contract"
            checks = [Check("none", Verdict.NOT_VERIFIED, bench.engine.name, reason=reason)]
        return [replace(checks[0], seconds=time.perf_counter() - start), *checks[1:]]

    def accept(self) -> None:
        """Make the model checked last the one that the next pass is held against."""
        self._untranslated = None
        for region in self._regions.values():
            region.accept()
        for index, bench in enumerate(self.baseline.benches):
            if index in self._pending:
                bench.accepted, bench.stale = self._pending[index], False
            elif bench.when == "each" and self._change is Change.COMPUTATION:
                bench.stale = True
        self._moved |= self._change is Change.COMPUTATION
        self._pending.clear()
        for bench in self.baseline.benches:
            self._budget(bench).accept(self._spent.get(bench.key, ()))
            self._budget(bench).moved |= not self._charged
        self._spent.clear()

    def distrust(self, checks: Sequence[Check] = ()) -> None:
        """Take a model that failed for the one that the next pass is held against.

        Args:
            checks: Its checks. What it spent of error budgets stays spent; a failure of
                another kind is not charged to the passes that follow.
        """
        self._untranslated = None
        charged = {check.engine: check.budget for check in checks if check.budget}
        for bench in self.baseline.benches:
            budget = self._budget(bench)
            budget.accept(charged.get(bench.engine.name, ()))
            budget.moved |= bench.engine.name not in charged
            budget.unsure = True
        self._pending.clear()
        self._spent.clear()
        self._regions.clear()
        self._moved = True
        for bench in self.baseline.benches:
            bench.stale = True

    def against_original(self, model: ir.Model, moments: Sequence[str]) -> list[Check]:
        """Hold a whole model against the original, on the engines of the given moments.

        Nothing is run where every pass left alone what is computed.
        """
        self._untranslate()
        if not self._moved:
            reason = "not run: no pass changed what is computed"
            return [
                Check("drift", Verdict.UNCHANGED, bench.engine.name, reason=reason)
                for bench in self.baseline.benches
                if bench.when in moments
            ]
        self._ready(*moments)
        checks: list[Check] = []
        for index, bench in enumerate(self.baseline.benches):
            if bench.when in moments:
                found = self.numbers(index, bench, model, [Equality()])
                if index in self._pending and self.truth.wanted and self.truth.usable:
                    metric = self._metrics(bench, self._pending[index], ())
                    found = [self.truth.judge(bench, self._pending[index]), *metric]
                elif index in self._pending and self.baseline.samples:
                    seconds = found[0].seconds
                    limits = self.thresholds.drift()
                    limits = self._raised(bench, limits, "drift", measure=False)
                    drift = self._drift(bench, self._pending[index], limits, bench.original)
                    metric = self._metrics(bench, self._pending[index], ())
                    missing = self.truth.missing(bench)
                    found = [*missing, replace(drift, seconds=seconds), *metric]
                checks += found
        return checks

    def _contract(
        self,
        bench: Bench,
        produced: list[Outputs],
        contract: Contract,
        override: OutputTolerance | None,
    ) -> list[Check]:
        match contract:
            case Equality():
                return [self._compare("equality", bench, bench.accepted, produced, contract)]
            case Tolerance() if self.truth.wanted and self.truth.usable:
                return [self.truth.judge(bench, produced)]
            case Tolerance():
                limits = self.thresholds.step(contract, override)
                limit, outputs = self._raised(bench, limits, "tolerance")
                step = self._compare(
                    "tolerance", bench, bench.accepted, produced, limit, outputs
                )
                return [*self.truth.missing(bench), step, self._spend(bench, produced)]
            case Metric(names):
                found = self._metrics(bench, produced, names)
                if not found:
                    reason = (
                        "the pass promises metrics, and the pipeline has no verify.metrics"
                    )
                    found = [
                        Check("metric", Verdict.NOT_VERIFIED, bench.engine.name, reason=reason)
                    ]
                return found

    def local_limit(
        self, kind: str, contracts: Sequence[Contract], override: OutputTolerance | None
    ) -> tuple[Equality | Tolerance, dict[str, Tolerance]]:
        """Return what inner values are held to where a check of some kind failed."""
        return self.thresholds.local(kind, contracts, override)

    def _drift(
        self, bench: Bench, produced: list[Outputs], limits: Limits, origin: list[Outputs]
    ) -> Check:
        limit, outputs = limits
        return self._compare("drift", bench, origin, produced, limit, outputs)

    def _raised(
        self, bench: Bench, limits: Limits, what: str, *, measure: bool = True
    ) -> Limits:
        """Raise a default limit above the noise.

        Noise is measured for passes under tolerance; the end makes do with what is known.
        """
        noise = self.noise.of(bench) if measure else self.noise.known(bench)
        return self.thresholds.above(limits, noise, self.baseline.unstable, what)

    def _compare(
        self,
        kind: str,
        bench: Bench,
        expected: Sequence[Outputs],
        produced: Sequence[Outputs],
        contract: Equality | Tolerance,
        overrides: dict[str, Tolerance] | None = None,
    ) -> Check:
        worst: dict[str, OutputCheck] = {}
        failed: int | None = None
        stable = self._stable
        if not any(stable(outputs) for outputs in expected):
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
        return Check(
            kind,
            Verdict.PASSED if failed is None else Verdict.FAILED,
            bench.engine.name,
            reason=None if failed is None else self._mismatch(kind, worst, failed),
            sample=failed,
            outputs=tuple(worst.values()),
        )

    def _mismatch(self, kind: str, worst: dict[str, OutputCheck], sample: int) -> str:
        return measure.mismatch(kind, worst, sample, name_of(self.baseline.samples[sample]))

    def _stable(self, outputs: Outputs) -> Outputs:
        return {k: v for k, v in outputs.items() if k not in self.baseline.unstable}

    def _metrics(
        self, bench: Bench, produced: list[Outputs], names: Sequence[str]
    ) -> list[Check]:
        ranges = self.settings.metrics
        wanted = {n: r for n, r in ranges.items() if not names or n in names}
        if not wanted:
            return []
        # Special values come last; neither labels nor ranges are for them.
        count = sum(name_of(feeds) is None for feeds in self.baseline.samples)
        original, produced = bench.original[:count], produced[:count]
        return [measure.metrics_check(bench, wanted, original, produced, self.labels)]

    def check_original(self) -> None:
        """Ask whether the original itself keeps the metrics' ranges.

        Raises:
            ReferenceDataError: It does not, so that no pass could.
        """
        if self.settings.metrics:
            self._ready("each", "checkpoint", "end")
        for bench in self.baseline.benches:
            for check in self._metrics(bench, bench.original, ()):
                for metric in check.metrics:
                    if not metric.passed:
                        raise ReferenceDataError(
                            f"the original itself has {metric.name} {metric.value:g} on "
                            f"{bench.engine.name}, not in [{metric.low:g}, {metric.high:g}]",
                            help="correct verify.metrics, or the reference data",
                        )

    def check_thresholds(
        self, steps: Sequence[tuple[str, str | None, OutputTolerance]] = ()
    ) -> None:
        """Ask whether the limits that the user gave stand above the noise.

        Args:
            steps: The passes with a tolerance of their own: name, place, tolerance.

        Raises:
            ConfigError: One does not.
        """
        if not (self.thresholds.given or steps) or not self.baseline.samples:
            return
        self._ready("each", "checkpoint", "end")
        for bench in list(self.baseline.benches):
            if bench.ran:
                noise = self.noise.of(bench)
                self.thresholds.refuse(noise, self.baseline.unstable, steps)

    def remember(self) -> dict[str, Any]:
        """Return what was spent of error budgets, as JSON has it."""
        return {key: budget.remember() for key, budget in self._budgets.items()}

    def recall(self, remembered: dict[str, Any]) -> None:
        """Take it for what was spent by the passes so far."""
        for key, one in remembered.items():
            budget = self._budgets.setdefault(key, Budget())
            budget.recall(one)
            budget.unsure = True

    def _untranslate(self) -> None:
        """Go back to the old interface where the pass that changed it was not kept."""
        if self._untranslated is not None:
            self._untranslated.restore(self)
            self._untranslated = None

    def _follow_interface(self, pass_: Pass, before: ir.Model, model: ir.Model) -> None:
        """Translate the samples, or keep those that the interface admits, or make new ones."""
        mapped = pass_.interface_map(before)
        if mapped is not None:
            self._untranslated = translate(self, mapped, before)
            return
        kept: list[int] = []
        for index, feeds in enumerate(self.baseline.samples):
            try:
                check_feeds(feeds, model, {}, allow_nan=True)
            except ReferenceDataError:
                continue
            kept.append(index)
        if len(kept) == len(self.baseline.samples):
            return
        started = [bench for bench in self.baseline.benches if bench.ran]
        if kept:
            self.baseline.keep(kept)
            labels = self.labels
            self.labels = labels and [labels[i] for i in kept if i < len(labels)]
            return
        samples: list[Feeds] = generate(model)
        self.baseline.samples, self.labels = samples, None
        self.baseline.notes.append(
            "the reference samples do not fit the interface that the pass gave the model; "
            "new ones were generated"
        )
        for bench in started:
            bench.original = bench.run(self.original.model, samples)
            bench.accepted = bench.run(before, samples)


def _named_as(before: ir.Model, model: ir.Model) -> bool:
    """Whether each value has the name that it had."""
    region = changed_region(before, model)
    return region is not None and not region.nodes


def _kind(contracts: Sequence[Contract]) -> str:
    return str(contracts[0]).partition("(")[0] if contracts else "none"
