"""The gate after every pass: structure, interface, then numbers on every engine."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import onnx_ir as ir

from onnx_passes.config.sections import OutputTolerance, Verify
from onnx_passes.contracts import Contract, Equality, Tolerance
from onnx_passes.errors import EngineError, ReferenceDataError
from onnx_passes.passes.base import Pass
from onnx_passes.pipeline.baseline import Baseline, Bench
from onnx_passes.pipeline.comparing import Comparing
from onnx_passes.pipeline.following import follow_interface
from onnx_passes.pipeline.levels import Levels
from onnx_passes.pipeline.noise import Noise
from onnx_passes.pipeline.regional import Regional
from onnx_passes.pipeline.translated import Untranslated, translate
from onnx_passes.runtime.base import Outputs
from onnx_passes.verify.interface import Interface, compare_interfaces, interface_of
from onnx_passes.verify.region import changed_region
from onnx_passes.verify.result import Check, Verdict
from onnx_passes.verify.snapshot import Change, Snapshot
from onnx_passes.verify.structure import check_structure


@dataclass(frozen=True)
class _Step:
    """A pass that is checked, and the model before and after it."""

    pass_: Pass
    before: ir.Model
    model: ir.Model
    override: OutputTolerance | None


@dataclass
class Gate:
    """Holds a model against the one before it, and against the original.

    Attributes:
        settings: The section ``verify`` of the pipeline.
        baseline: The original on every engine.
        first: The original model, as it is called at first.
        labels: Expected outputs or labels of each sample, where the user gave them.
        faults: What was wrong with the structure of the model before the first pass.
        levels: The engines that compile.
    """

    settings: Verify
    baseline: Baseline
    first: Snapshot
    labels: Sequence[Outputs] | None = None
    faults: frozenset[str] = frozenset()
    levels: Levels = field(default_factory=Levels)
    # By the place of the engine: outputs of the model checked last, and values inside.
    _pending: dict[int, list[Outputs]] = field(default_factory=dict)
    _regions: dict[int, Regional] = field(default_factory=dict)
    # What the model checked last differs in, and whether any accepted one computes something
    # else than the original.
    _change: Change = Change.NONE
    _moved: bool = False
    # Where the gate goes back to if a pass that changed the interface is not kept.
    _untranslated: Untranslated | None = None

    def __post_init__(self) -> None:
        """Put the limits together."""
        self.comparing = Comparing(self.settings, self.baseline, self.first, self.labels)
        self.spending = self.comparing.spending
        self.levels.comparing = self.comparing
        self.baseline.ahead &= self.original.weight_bytes <= self.settings.memory_limit

    @property
    def original(self) -> Snapshot:
        """The original, as it is called through the interface that passes gave the model."""
        return self.comparing.original

    @property
    def noise(self) -> Noise:
        """The engines' own spread."""
        return self.comparing.noise

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
        self._change = change
        old = interface_of(before.model)
        promises = any(isinstance(c, Equality | Tolerance) for c in pass_.contracts())
        self.spending.begin(charged=promises)
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
            mapped = pass_.interface_map(before.model)
            if mapped is None:
                follow_interface(self.comparing, before.model, model)
            else:
                self._untranslated = translate(self.comparing, mapped, before.model)
            self._regions.clear()
            self.spending.begin(charged=False)
        if sum(bench.when == "each" for bench in self.baseline.benches) > 1:
            self._ready("each")  # one engine may leave out samples that others would record
        step = _Step(pass_, before.model, model, override)
        for index, bench in enumerate(self.baseline.benches):
            if bench.when == "each":
                checks += self._numbers(index, bench, step)
        return [*checks, *self.levels.check(before.model, model, "each")]

    def _numbers(self, index: int, bench: Bench, step: _Step) -> list[Check]:
        found = None
        if self._untranslated is None:  # else the model before takes other samples
            found = self._regional(index, bench, step)
        if found is not None and not self._is_in_doubt(bench, found):
            return found
        found = self._whole(index, bench, step)
        if self._is_in_doubt(bench, found):
            return self._whole(index, bench, step)
        region = self._regions.get(index)
        if region is not None and region.differed and found[0].verdict is Verdict.PASSED:
            reason = f"the outputs are equal, and values inside are not: {region.differed}"
            return [replace(found[0], reason=reason), *found[1:]]
        return found

    def _is_in_doubt(self, bench: Bench, found: Sequence[Check]) -> bool:
        """Whether checks failed, and the original turns out not to repeat itself."""
        if all(check.verdict is not Verdict.FAILED for check in found):
            return False
        try:
            doubted = self.baseline.doubt(bench)
        except EngineError:
            return False
        if doubted:
            self._regions.clear()
        return doubted

    def _regional(self, index: int, bench: Bench, step: _Step) -> list[Check] | None:
        """Check the region that changed, where that is enough and asked for."""
        contracts = step.pass_.contracts()
        promises = [c for c in contracts if isinstance(c, Equality | Tolerance)]
        tolerant = any(isinstance(c, Tolerance) for c in promises)
        if (
            self.settings.scope == "model"
            or (self.comparing.truth.wanted and tolerant)
            or not promises
            or len(promises) < len(contracts)
            or not self.baseline.deterministic
            or not self.baseline.samples
        ):
            return None
        if tolerant:
            self.baseline.begin("end")  # which tells the noise
        region = self._regions.setdefault(index, Regional(self.settings.memory_limit))
        found = region.check(
            bench,
            self.baseline,
            step.before,
            step.model,
            promises,
            lambda contract: self.comparing.thresholds.step(contract, step.override),
            untouched=not self._moved,
        )
        if not region.moved or found is None:
            return found
        if any(check.verdict is Verdict.FAILED for check in found):
            return found
        start = time.perf_counter()
        drift = self._follow(index, bench, region, step)
        return [*found, replace(drift, seconds=time.perf_counter() - start)]

    def _follow(self, index: int, bench: Bench, region: Regional, step: _Step) -> Check:
        """Find out what became of the outputs, where inner values are not what they were."""
        self._ready(bench.when)
        try:
            self._refresh(bench, step.before)
            produced = region.follow(bench, step.model, self.baseline)
        except EngineError as error:
            return _does_not_run("drift", bench, error)
        self._pending[index] = produced
        return self.comparing.spend(bench, produced)

    def _refresh(self, bench: Bench, before: ir.Model) -> None:
        """Run the model before, where what it gives is not known.

        Raises:
            EngineError: It does not run.
        """
        if bench.stale and self.spending.unsure(bench):
            bench.refresh(before, self.baseline.samples)
        self.spending.sure(bench)

    def _whole(self, index: int, bench: Bench, step: _Step) -> list[Check]:
        """Check the whole model, against a run of the one before where that is missing."""
        if index in self._regions:
            self._regions[index].forget()
        self._ready(bench.when)
        contracts = step.pass_.contracts()
        kind = _kind(contracts)
        if bench.stale:
            try:
                bench.refresh(step.before, self.baseline.samples)
            except EngineError as error:
                # A warning was its price; this pass is not to blame.
                reason = f"the model before the pass does not run: {error.message}"
                return [Check(kind, Verdict.NOT_VERIFIED, bench.engine.name, reason=reason)]
        self.spending.sure(bench)
        start = time.perf_counter()
        found = self._produce(index, bench, step.model, kind)
        if found is not None:
            return [found]
        checks = [
            check
            for contract in contracts
            for check in self.comparing.contract(
                bench, self._pending[index], contract, step.override
            )
        ]
        if not contracts:
            reason = "the pass declares no contract"
            checks = [Check("none", Verdict.NOT_VERIFIED, bench.engine.name, reason=reason)]
        return [replace(checks[0], seconds=time.perf_counter() - start), *checks[1:]]

    def _produce(self, index: int, bench: Bench, model: ir.Model, kind: str) -> Check | None:
        """Run a model, for its outputs to be compared; a check says why there are none."""
        if not self.baseline.samples:
            reason = "there are no reference samples"
            return Check(kind, Verdict.NOT_VERIFIED, bench.engine.name, reason=reason)
        start = time.perf_counter()
        try:
            self._pending[index] = bench.run(model, self.baseline.samples)
        except EngineError as error:
            failed = _does_not_run(kind, bench, error)
            return replace(failed, seconds=time.perf_counter() - start)
        return None

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

    def _untranslate(self) -> None:
        """Go back to the old interface where the pass that changed it was not kept."""
        if self._untranslated is not None:
            self._untranslated.restore(self.comparing)
            self._untranslated = None

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
        if self._change is Change.COMPUTATION and not self._moved:
            self._moved = True
            self.baseline.begin("end")  # now the end is going to ask
        self._pending.clear()
        self.spending.accept(self.baseline.benches)

    def distrust(self, checks: Sequence[Check] = ()) -> None:
        """Take a model that failed for the one that the next pass is held against.

        Args:
            checks: Its checks. What it spent of error budgets stays spent; a failure of
                another kind is not charged to the passes that follow.
        """
        self._untranslated = None
        self.spending.distrust(self.baseline.benches, checks)
        self._pending.clear()
        self._regions.clear()
        self._moved = True
        for bench in self.baseline.benches:
            bench.stale = True

    def against_original(self, model: ir.Model, moments: Sequence[str]) -> list[Check]:
        """Hold a whole model against the original, on the engines of the given moments.

        Nothing is run where every pass left alone what is computed.
        """
        self._untranslate()
        places = [i for i, b in enumerate(self.baseline.benches) if b.when in moments]
        if not self._moved:
            reason = "not run: no pass changed what is computed"
            names = [self.baseline.benches[index].engine.name for index in places]
            return [Check("drift", Verdict.UNCHANGED, name, reason=reason) for name in names]
        self._ready(*moments)
        asked = [(i, b) for i, b in enumerate(self.baseline.benches) if b.when in moments]
        for _, bench in asked[1:] if self.baseline.ahead else ():
            bench.begin(model, self.baseline.samples)
        checks: list[Check] = []
        for index, bench in asked:
            found = self._end(index, bench, model)
            again = self._is_in_doubt(bench, found)
            checks += self._end(index, bench, model) if again else found
        return checks

    def _end(self, index: int, bench: Bench, model: ir.Model) -> list[Check]:
        start = time.perf_counter()
        missing = self._produce(index, bench, model, "equality")
        if missing is not None:
            return [missing]
        seconds = time.perf_counter() - start
        checks = self.comparing.end(bench, self._pending[index])
        return [
            replace(check, seconds=check.seconds + (seconds if check is checks[0] else 0.0))
            for check in checks
        ]

    def local_limit(
        self, kind: str, contracts: Sequence[Contract], override: OutputTolerance | None
    ) -> tuple[Equality | Tolerance, dict[str, Tolerance]]:
        """Return what inner values are held to where a check of some kind failed."""
        return self.comparing.thresholds.local(kind, contracts, override)

    def check_original(self) -> None:
        """Ask whether the original itself keeps the metrics' ranges.

        Raises:
            ReferenceDataError: It does not, so that no pass could.
        """
        if self.settings.metrics:
            self._ready("each", "checkpoint", "end")
        for bench in self.baseline.benches:
            for check in self.comparing.metrics(bench, bench.original, ()):
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
        thresholds = self.comparing.thresholds
        if not (thresholds.given or steps) or not self.baseline.samples:
            return
        self._ready("each", "checkpoint", "end")
        for bench in list(self.baseline.benches):
            if bench.ran:
                noise = self.noise.of(bench)
                thresholds.refuse(noise, self.baseline.unstable, steps)

    def remember(self) -> dict[str, Any]:
        """Return what was spent of error budgets, as JSON has it."""
        return self.spending.remember()

    def recall(self, remembered: dict[str, Any]) -> None:
        """Take it for what was spent by the passes so far."""
        self.spending.recall(remembered)


def _named_as(before: ir.Model, model: ir.Model) -> bool:
    """Whether each value has the name that it had."""
    region = changed_region(before, model)
    return region is not None and not region.nodes


def _kind(contracts: Sequence[Contract]) -> str:
    return str(contracts[0]).partition("(")[0] if contracts else "none"


def _does_not_run(kind: str, bench: Bench, error: EngineError) -> Check:
    reason = f"the result does not run: {error.message}"
    return Check(kind, Verdict.FAILED, bench.engine.name, reason=reason)
