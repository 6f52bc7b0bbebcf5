"""One engine's say on a pass: the region that changed, or the whole model."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from onnx_passes.configs.sections import Verify
from onnx_passes.contracts import Equality, Tolerance
from onnx_passes.errors import EngineError
from onnx_passes.pipeline.allowance import Allowance
from onnx_passes.pipeline.budget import Budget
from onnx_passes.pipeline.engine_side import Bench
from onnx_passes.pipeline.recorded_values import Recorded
from onnx_passes.pipeline.recorder import Recorder
from onnx_passes.pipeline.region_conclusion import Regional
from onnx_passes.pipeline.regional import RegionCheck
from onnx_passes.pipeline.sight import can_see
from onnx_passes.pipeline.state import State
from onnx_passes.pipeline.step import EngineFinding, Step, does_not_run, with_sight
from onnx_passes.pipeline.weighing import BY_STRUCTURE
from onnx_passes.runtime.engine_base import Outputs
from onnx_passes.verify.alike import compute_alike
from onnx_passes.verify.evidence import Evidence, Kind, vouches
from onnx_passes.verify.recording import inlined
from onnx_passes.verify.result import Check, Verdict


@dataclass
class EngineCheck:
    """Checks passes on an engine that executes.

    Attributes:
        settings: The section ``verify`` of the pipeline.
        allowance: How many parts may be run on drawn values.
        recorders: What records the values inside a model, by the engine.
    """

    settings: Verify
    allowance: Allowance
    recorders: dict[int, Recorder] = field(default_factory=dict)

    def check(self, index: int, bench: Bench, state: State, step: Step) -> EngineFinding:
        """Return what one engine says of a pass; of the region that changed, if it can.

        Args:
            index: Number of the engine.
            bench: The engine.
            state: What is known of the model before.
            step: The pass, with both models.
        """
        found = self._regional(index, bench, state, step)
        if found is not None and not is_in_doubt(state, bench, found.checks):
            return found
        found = self.whole(index, bench, state, step)
        if is_in_doubt(state, bench, found.checks):
            return self.whole(index, bench, state, step)
        return found

    def recorder(self, bench: Bench) -> Recorder:
        """Return the recorder of an engine, which keeps what it knows of the model."""
        return self.recorders.setdefault(
            id(bench), Recorder(bench, self.settings.memory_limit)
        )

    def _regional(
        self, index: int, bench: Bench, state: State, step: Step
    ) -> EngineFinding | None:
        """Check the region that changed, where that is enough and asked for."""
        comparing, contracts = state.comparing, step.pass_.contracts()
        if (
            self.settings.scope == "model"
            or step.translated
            or not step.promises
            or not state.baseline.samples
        ):
            return None
        if any(isinstance(c, Tolerance) for c in step.promises):
            state.baseline.begin("end")  # which shows the noise
        check = RegionCheck(
            self.recorder(bench),
            state.baseline,
            step.before,
            step.model,
            step.applied,
            [comparing.inside(c, step.override) for c in step.promises],
            untouched=not state.moved,
            allowance=self.allowance,
        )
        region = check.run(state.of(index).recorded)
        if region is None:
            return None
        if region.inputs is not None and state.baseline.add(region.inputs):
            return self._regional(index, bench, state, step)
        known = replace(state.of(index), recorded=region.recorded)
        if region.failed:
            growth = comparing.truth.wanted and not any(
                isinstance(c, Equality) for c in step.promises
            )
            if growth:
                return None
            return EngineFinding(region.checks, region.evidence, known, region.certain)
        if not region.moved and len(step.promises) == len(contracts):
            return EngineFinding(region.checks, region.evidence, known)
        return self._follow(index, bench, state, step, region)

    def _follow(
        self, index: int, bench: Bench, state: State, step: Step, region: Regional
    ) -> EngineFinding:
        """Find out what became of the outputs, where inner values are not what they were."""
        start = time.perf_counter()
        known = replace(state.of(index), recorded=region.recorded, untouched=False)
        state.baseline.ready(bench.when)
        try:
            accepted, budget = self._accepted(index, bench, state, step)
            produced = region.outputs
            if produced is None and bench.node_by_node:
                again = self._run_recorded(bench, state, step)
                if again is not None:
                    produced = again[1]
                    known = replace(known, recorded=again[0])
            if produced is None:
                produced = bench.run(step.model, state.baseline.samples)
        except EngineError as error:
            kind = "drift" if not region.differs else "equality"
            failed = does_not_run(kind, bench, error)
            return EngineFinding([*region.checks, failed], region.evidence, known)
        known = replace(known, accepted=produced, budget=budget)
        checks, evidence = list(region.checks), region.evidence
        for contract in step.pass_.contracts():
            if isinstance(contract, Tolerance) and not state.comparing.truth.wanted:
                vouched = state.vouched and step.by_type and vouches(evidence)
                checks.append(
                    state.comparing.spend(
                        bench, accepted, produced, budget, step.model, vouched=vouched
                    )
                )
            else:
                checks += state.comparing.contract(
                    bench, accepted, produced, contract, step.override, budget, step.model
                )
        if region.differs is not None:
            evidence = self._outputs_only(bench, state, step, region.differs)
        at = len(region.checks)
        if len(checks) > at:
            checks[at] = replace(checks[at], seconds=time.perf_counter() - start)
        return EngineFinding(checks, evidence, known)

    def _run_recorded(
        self, bench: Bench, state: State, step: Step
    ) -> tuple[Recorded, list[Outputs]] | None:
        """Run the model with its values inside, which are known from then on."""
        try:
            recorded, outputs = self.recorder(bench).run(
                inlined(step.model), state.baseline.samples
            )
        except EngineError:
            return None
        bench.learn(step.model, state.baseline.samples, outputs)
        return recorded, outputs

    def _accepted(
        self, index: int, bench: Bench, state: State, step: Step
    ) -> tuple[list[Outputs], Budget]:
        """Return the outputs of the model before, and the budget as it is measured from there.

        Raises:
            EngineError: The model before does not run.
        """
        known = state.of(index)
        accepted = known.accepted
        if accepted is None:
            accepted = bench.run(step.before, state.baseline.samples)
        return accepted, known.budget.measured_from(accepted)

    def whole(self, index: int, bench: Bench, state: State, step: Step) -> EngineFinding:
        """Check the whole model, against a run of the one before where that is missing.

        Args:
            index: Number of the engine.
            bench: The engine.
            state: What is known of the model before.
            step: The pass, with both models.
        """
        state.baseline.ready(bench.when)
        contracts, samples = step.pass_.contracts(), state.baseline.samples
        kind = str(contracts[0]).partition("(")[0] if contracts else "none"
        known = replace(state.of(index), recorded=None, accepted=None, untouched=False)
        name = bench.engine.name

        def unknown(reason: str) -> EngineFinding:
            check = Check(kind, Verdict.NOT_VERIFIED, name, reason=reason)
            nothing = Evidence(step.label, Kind.NOTHING, step.numbers, reason=reason)
            return EngineFinding([check], [nothing], known)

        if not samples:
            return unknown("there are no reference samples")
        try:
            accepted, budget = self._accepted(index, bench, state, step)
        except EngineError as error:
            # A warning was its price; this pass is not to blame.
            return unknown(f"the model before the pass does not run: {error.message}")
        start = time.perf_counter()
        try:
            produced = bench.run(step.model, samples)
        except EngineError as error:
            failed = replace(
                does_not_run(kind, bench, error), seconds=time.perf_counter() - start
            )
            return EngineFinding([failed], [], known)
        checks = [
            check
            for contract in contracts
            for check in state.comparing.contract(
                bench, accepted, produced, contract, step.override, budget, step.model
            )
        ]
        if not contracts:
            reason = step.pass_.lacks_contract()
            checks = [Check("none", Verdict.NOT_VERIFIED, name, reason=reason)]
        checks[0] = replace(checks[0], seconds=time.perf_counter() - start)
        known = replace(known, accepted=produced, budget=budget)
        found = EngineFinding(checks, [], known)
        if found.failed or any(c.verdict is Verdict.NOT_VERIFIED for c in checks):
            return found
        why = "values inside could not be compared"
        return replace(found, evidence=self._outputs_only(bench, state, step, why))

    def _outputs_only(
        self, bench: Bench, state: State, step: Step, why: str
    ) -> list[Evidence]:
        """Ask whether the outputs, which are all that vouches for a change, can see it."""
        sees = None
        if not step.translated:
            if compute_alike(step.before, step.model):
                return [Evidence(step.label, Kind.PROVED, step.numbers, reason=BY_STRUCTURE)]
            sample = state.baseline.samples[0]
            sees = can_see(
                bench.engine, step.before, step.model, sample, state.baseline.unstable
            )
        found = Evidence(step.label, Kind.OUTPUTS_ONLY, step.numbers, reason=why)
        return [with_sight(found, sees)]


def is_in_doubt(state: State, bench: Bench, found: Sequence[Check]) -> bool:
    """Whether checks failed, and the original turns out not to repeat itself.

    Args:
        state: What is known of the original.
        bench: The engine.
        found: Its checks.
    """
    if all(check.verdict is not Verdict.FAILED for check in found):
        return False
    try:
        return state.baseline.doubt(bench)
    except EngineError:
        return False
