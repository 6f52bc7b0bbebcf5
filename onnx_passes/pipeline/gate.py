"""The gate after every pass: structure, interface, then evidence for each application."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import onnx_ir as ir

from onnx_passes.configs.sections import OutputTolerance, Verify
from onnx_passes.contracts import Contract, Equality, Metric, Tolerance
from onnx_passes.errors import EngineError, ReferenceDataError
from onnx_passes.model.walk import all_nodes
from onnx_passes.ops.randomness import may_draw
from onnx_passes.passes.base import Pass
from onnx_passes.passes.context import Application
from onnx_passes.pipeline.allowance import Allowance
from onnx_passes.pipeline.arbitration import Arbiter, is_foreign
from onnx_passes.pipeline.baseline import Baseline, Bench
from onnx_passes.pipeline.budget import Budget
from onnx_passes.pipeline.comparing import Comparing
from onnx_passes.pipeline.interfaces import (
    follow_interface,
    translate,
    with_fixed_defaults,
)
from onnx_passes.pipeline.levels import Levels
from onnx_passes.pipeline.noise import Noise
from onnx_passes.pipeline.recompute import run_nodes
from onnx_passes.pipeline.recorder import Recorded, Recorder
from onnx_passes.pipeline.region_pairs import unkept
from onnx_passes.pipeline.regional import Regional, RegionCheck
from onnx_passes.pipeline.sight import can_see
from onnx_passes.pipeline.state import Checked, Known, State
from onnx_passes.pipeline.weighing import BY_STRUCTURE
from onnx_passes.runtime.base import Outputs
from onnx_passes.runtime.ort import OnnxRuntimeEngine
from onnx_passes.runtime.reference import ReferenceEngine
from onnx_passes.verify.alike import compute_alike
from onnx_passes.verify.annotations import find_wrong_annotations
from onnx_passes.verify.evidence import Evidence, Kind
from onnx_passes.verify.interface import Interface, compare_interfaces, interface_of
from onnx_passes.verify.recording import inlined
from onnx_passes.verify.region import changed_region
from onnx_passes.verify.result import Check, Verdict
from onnx_passes.verify.snapshot import Change, Snapshot
from onnx_passes.verify.structure import check_structure

_ONLY_NAMES = "only names, order or metadata changed"
_SIGHT = {
    True: "the outputs agree, and can see the change",
    False: "the outputs agree, and cannot see the change",
    None: "the outputs agree; whether they can see the change was not asked",
}
_DEFAULTS_FIXED = "inputs that had defaults are weights of the same content"


@dataclass(frozen=True)
class _Step:
    """A pass that is checked, and the model before and after it."""

    pass_: Pass
    before: ir.Model
    model: ir.Model
    override: OutputTolerance | None
    applied: Sequence[Application]
    translated: bool = False

    @property
    def promises(self) -> list[Contract]:
        """The contracts that values inside the model can keep."""
        return [c for c in self.pass_.contracts() if not isinstance(c, Metric)]


@dataclass(frozen=True)
class _Found:
    """What one engine says of a pass."""

    checks: list[Check]
    evidence: list[Evidence]
    known: Known
    certain: bool = False

    @property
    def failed(self) -> bool:
        return any(check.verdict is Verdict.FAILED for check in self.checks)


@dataclass
class _Opinion:
    """What an engine that runs node by node says of a pass; it is asked at most once.

    Attributes:
        ask: Asks it.
    """

    ask: Callable[[], tuple[Bench, Regional | None]]

    @cached_property
    def _found(self) -> tuple[Bench, Regional | None]:
        return self.ask()

    @property
    def confirms(self) -> bool:
        """Whether it finds values inside that differ, too."""
        found = self._found[1]
        return found is not None and found.failed

    @property
    def contradicts(self) -> Bench | None:
        """The engine, where it runs what changed before and after, and finds it right."""
        bench, found = self._found
        agrees = found is not None and not found.failed and found.differs is None
        return bench if agrees else None


@dataclass
class Gate:
    """Holds a model against the one before it, and against the original.

    Attributes:
        settings: The section ``verify`` of the pipeline.
        state: What is known of the model that was accepted last.
        faults: What was wrong with the structure of the model before the first pass.
        levels: The engines that compile.
        allowance: The time for drawn values.
    """

    settings: Verify
    state: State
    faults: frozenset[str] = frozenset()
    levels: Levels = field(default_factory=Levels)
    allowance: Allowance = field(init=False)
    _recorders: dict[int, Recorder] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Start the clock."""
        self.allowance = Allowance(self.settings.drawn_share)

    @classmethod
    def begin(
        cls,
        settings: Verify,
        baseline: Baseline,
        original: Snapshot,
        labels: Sequence[Outputs] | None = None,
        faults: frozenset[str] = frozenset(),
        levels: Levels | None = None,
    ) -> Gate:
        """Return the gate of a run whose original has not been touched yet."""
        comparing = Comparing(settings, baseline, original, labels)
        baseline.ahead &= original.weight_bytes <= settings.memory_limit
        levels = levels or Levels()
        levels.comparing = comparing
        state = State(comparing, tuple(Known() for _ in baseline.benches))
        return cls(settings, state, faults, levels)

    @property
    def baseline(self) -> Baseline:
        """The original on every engine."""
        return self.state.baseline

    @property
    def original(self) -> Snapshot:
        """The original, as it is called through the interface that passes gave the model."""
        return self.state.original

    @property
    def labels(self) -> Sequence[Outputs] | None:
        """Expected outputs or labels of each sample, where the user gave them."""
        return self.state.labels

    @property
    def noise(self) -> Noise:
        """The engines' own spread."""
        return self.state.comparing.noise

    def keep(self, checked: Checked) -> None:
        """Hold the next pass against the model that was checked."""
        assert checked.state is not None, "this gate checked it"
        self.state = checked.state

    def check(
        self,
        pass_: Pass,
        before: Snapshot,
        model: ir.Model,
        change: Change,
        override: OutputTolerance | None = None,
        applied: Sequence[Application] = (),
    ) -> Checked:
        """Put all questions that a pass must answer, the cheapest first.

        Numbers are only compared where the structure is sound. Nothing is kept by this.

        Args:
            pass_: The pass.
            before: The model before it.
            model: The model that it made.
            change: How the two differ.
            override: Tolerances of this use of the pass.
            applied: The rewrites that it recorded.
        """
        state = self.state
        if state.at_origin:
            state = replace(state, origin=before, at_origin=False)
        old, new = interface_of(before.model), interface_of(model)
        checks = [self.structure(model), self.interface(pass_, old, new)]
        if any(check.verdict is Verdict.FAILED for check in checks):
            return Checked(checks, [], _distrusted(state, checks))
        # A pass may also give inputs another meaning under the same names, types and shapes.
        mapped = pass_.interface_map(before.model) if pass_.interface_changes else None
        called = mapped is not None or (bool(pass_.interface_changes) and new != old)
        step = _Step(pass_, before.model, model, override, applied)
        if change is Change.NAMES and not called and compute_alike(before.model, model):
            return self._renamed(state, step, checks)
        charged = bool(step.promises)
        if called:
            charged = False
            if mapped is None:
                state = follow_interface(state, before.model, model)
                step = replace(step, before=with_fixed_defaults(before.model, model))
                if step.before is not before.model and compute_alike(step.before, model):
                    return self._renamed(state, step, checks, _DEFAULTS_FIXED)
            else:
                state = translate(state, mapped, before.model)
                step = replace(step, translated=True)
        if sum(bench.when == "each" for bench in state.baseline.benches) > 1:
            state.baseline.ready("each")  # one may leave out samples that others would record
        if _draws(before.model) != _draws(model):
            state.baseline.distrust_random(before.model, model)
        evidence: list[Evidence] = []
        certain: set[str] = set()
        for index, bench in enumerate(state.baseline.benches):
            if bench.when == "each":
                found = self._numbers(index, bench, state, step)
                certain |= {bench.engine.name} if found.certain else set()
                checks += found.checks
                evidence = evidence or found.evidence
                state = state.knowing(index, found.known)
        if not called:
            checks = self._arbitrated(state, step, checks, certain)
        checks += self.levels.check(before.model, model, "each")
        if not called and all(check.verdict is not Verdict.FAILED for check in checks):
            state, regions, known = self._by_region(state, step)
            checks += regions
            evidence = evidence or self._with_sight(known, state, step)
        if change is Change.ANNOTATIONS and not called:
            check, state = self._annotations(state, before.model, model)
            checks.append(check)
        return self._concluded(state, step, checks, evidence, change, charged=charged)

    def _by_region(
        self, state: State, step: _Step
    ) -> tuple[State, list[Check], list[Evidence]]:
        """Run what the pass changed on engines that compile, now or when they are asked."""
        if self.settings.scope == "model":
            return state, [], []
        promises = [state.comparing.inside(c, step.override) for c in step.promises]
        models = step.before, step.model
        engine = next((b.engine for b in state.baseline.benches if b.node_by_node), None)
        batch = self.levels.change(
            step.pass_.name, models, step.applied, promises, engine or OnnxRuntimeEngine()
        )
        if batch is None:
            return state, [], []
        changes = self.levels.later(state.changes, batch, self.settings.memory_limit)
        state = replace(state, changes=changes)
        return state, *self.levels.by_region([batch], "each")

    def _with_sight(self, known: list[Evidence], state: State, step: _Step) -> list[Evidence]:
        """Ask whether the outputs can see what no region vouches for; any engine tells."""
        if all(one.kind is not Kind.OUTPUTS_ONLY for one in known):
            return known
        sample, unstable = state.baseline.samples[0], state.baseline.unstable
        sees = can_see(OnnxRuntimeEngine(), step.before, step.model, sample, unstable)
        return [_seen(one, sees) if one.kind is Kind.OUTPUTS_ONLY else one for one in known]

    def _arbitrated(
        self, state: State, step: _Step, checks: list[Check], certain: Collection[str]
    ) -> list[Check]:
        """Tell what an engine that rewrites graphs does from what the pass did.

        Args:
            state: What is known of the model before.
            step: The pass.
            checks: Its checks.
            certain: Engines on which a value inside differs by more than rounding can do.
        """
        asked = [b for b in state.baseline.benches if b.when == "each"]
        opinion = _Opinion(lambda: self._ask_node_by_node(state, step))
        for index, bench in enumerate(state.baseline.benches):
            # Values inside a model are no evidence of how an engine rounds the whole.
            inside = [
                c for c in checks if c.engine == bench.engine.name and c.scope == "region"
            ]
            failed = any(c.verdict is Verdict.FAILED for c in inside)
            failed &= bench in asked and not bench.node_by_node
            failed &= bench.engine.name not in certain
            if failed and not (is_foreign(bench.engine) and opinion.confirms):
                whole = self._whole(index, bench, state, step).checks
                checks = [c for c in checks if c not in inside] + whole
        arbiter = Arbiter(state, step.before, step.model, asked, lambda: opinion.contradicts)
        return arbiter.after_pass(checks, step.pass_.contracts(), step.override)

    def _ask_node_by_node(self, state: State, step: _Step) -> tuple[Bench, Regional | None]:
        """Ask an engine that runs node by node about what changed, with all its values inside.

        Returns:
            The engine, and what it found; None where it does not run the region.
        """
        comparing, bench = state.comparing, Bench(OnnxRuntimeEngine(), "never")
        check = RegionCheck(
            Recorder(bench, self.settings.memory_limit),
            Baseline(step.before, [bench], list(state.baseline.samples), ahead=False),
            step.before,
            step.model,
            step.applied,
            [comparing.inside(c, step.override) for c in step.promises],
            untouched=True,
        )
        try:
            return bench, check.run(None) if step.promises else None
        except EngineError:
            return bench, None

    def _renamed(
        self, state: State, step: _Step, checks: list[Check], what: str = _ONLY_NAMES
    ) -> Checked:
        """Say that nothing changed that is computed, so that nothing has to be run."""
        region = changed_region(step.before, step.model)
        if region is None or region.nodes:
            state = state.without_recordings()  # values have other names
        reason = f"{what}: nothing was run"
        numbers = tuple(application.number for application in step.applied)
        evidence = [Evidence(step.pass_.name, Kind.PROVED, numbers, reason=BY_STRUCTURE)]
        found = Check("equality", Verdict.PASSED, scope="structure", reason=reason)
        return Checked([*checks, found], evidence, state)

    def _concluded(
        self,
        state: State,
        step: _Step,
        checks: list[Check],
        evidence: list[Evidence],
        change: Change,
        *,
        charged: bool,
    ) -> Checked:
        """Return what follows, with the state in which the model is the accepted one."""
        if any(check.verdict is Verdict.FAILED for check in checks):
            return Checked(checks, evidence, _distrusted(state, checks))
        spent = {check.engine: check.budget for check in checks}
        known = tuple(
            replace(
                k, budget=k.budget.charged(spent.get(b.engine.name, ()), moved=not charged)
            )
            for b, k in state.pairs()
        )
        moves = change is Change.COMPUTATION
        if moves and not state.moved:
            state.baseline.begin("end")  # now the end is going to ask
        by_metric = any(isinstance(c, Metric) for c in step.pass_.contracts())
        measured = by_metric and any(check.metrics for check in checks)
        state = replace(
            state,
            known=known,
            moved=state.moved or moves,
            at_origin=measured and not step.promises,
        )
        return Checked(checks, evidence, state)

    def _numbers(self, index: int, bench: Bench, state: State, step: _Step) -> _Found:
        found = self._regional(index, bench, state, step)
        if found is not None and not self._is_in_doubt(state, bench, found.checks):
            return found
        found = self._whole(index, bench, state, step)
        if self._is_in_doubt(state, bench, found.checks):
            return self._whole(index, bench, state, step)
        return found

    def _is_in_doubt(self, state: State, bench: Bench, found: Sequence[Check]) -> bool:
        """Whether checks failed, and the original turns out not to repeat itself."""
        if all(check.verdict is not Verdict.FAILED for check in found):
            return False
        try:
            return state.baseline.doubt(bench)
        except EngineError:
            return False

    def _recorder(self, bench: Bench) -> Recorder:
        return self._recorders.setdefault(
            id(bench), Recorder(bench, self.settings.memory_limit)
        )

    def _regional(self, index: int, bench: Bench, state: State, step: _Step) -> _Found | None:
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
            state.baseline.begin("end")  # which tells the noise
        check = RegionCheck(
            self._recorder(bench),
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
            return _Found(region.checks, region.evidence, known, region.certain)
        if not region.moved and len(step.promises) == len(contracts):
            return _Found(region.checks, region.evidence, known)
        return self._follow(index, bench, state, step, region)

    def _follow(
        self, index: int, bench: Bench, state: State, step: _Step, region: Regional
    ) -> _Found:
        """Find out what became of the outputs, where inner values are not what they were."""
        start = time.perf_counter()
        known = replace(state.of(index), recorded=region.recorded)
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
            failed = _does_not_run(kind, bench, error)
            return _Found([*region.checks, failed], region.evidence, known)
        known = replace(known, accepted=produced, budget=budget)
        checks, evidence = list(region.checks), region.evidence
        for contract in step.pass_.contracts():
            if isinstance(contract, Tolerance) and not state.comparing.truth.wanted:
                checks.append(
                    state.comparing.spend(bench, accepted, produced, budget, step.model)
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
        return _Found(checks, evidence, known)

    def _run_recorded(
        self, bench: Bench, state: State, step: _Step
    ) -> tuple[Recorded, list[Outputs]] | None:
        """Run the model with its values inside, which are known from then on."""
        try:
            recorded, outputs = self._recorder(bench).run(
                inlined(step.model), state.baseline.samples
            )
        except EngineError:
            return None
        bench.learn(step.model, state.baseline.samples, outputs)
        return recorded, outputs

    def _accepted(
        self, index: int, bench: Bench, state: State, step: _Step
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

    def _whole(self, index: int, bench: Bench, state: State, step: _Step) -> _Found:
        """Check the whole model, against a run of the one before where that is missing."""
        state.baseline.ready(bench.when)
        contracts, samples = step.pass_.contracts(), state.baseline.samples
        kind = str(contracts[0]).partition("(")[0] if contracts else "none"
        known = replace(state.of(index), recorded=None, accepted=None)
        name, numbers = bench.engine.name, tuple(a.number for a in step.applied)
        what = ", ".join(dict.fromkeys(a.rule for a in step.applied)) or step.pass_.name

        def unknown(reason: str) -> _Found:
            check = Check(kind, Verdict.NOT_VERIFIED, name, reason=reason)
            nothing = Evidence(what, Kind.NOTHING, numbers, reason=reason)
            return _Found([check], [nothing], known)

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
                _does_not_run(kind, bench, error), seconds=time.perf_counter() - start
            )
            return _Found([failed], [], known)
        checks = [
            check
            for contract in contracts
            for check in state.comparing.contract(
                bench, accepted, produced, contract, step.override, budget, step.model
            )
        ]
        if not contracts:
            reason = "the pass declares no contract"
            checks = [Check("none", Verdict.NOT_VERIFIED, name, reason=reason)]
        checks[0] = replace(checks[0], seconds=time.perf_counter() - start)
        known = replace(known, accepted=produced, budget=budget)
        found = _Found(checks, [], known)
        if found.failed or any(c.verdict is Verdict.NOT_VERIFIED for c in checks):
            return found
        why = "values inside could not be compared"
        return replace(found, evidence=self._outputs_only(bench, state, step, why))

    def _outputs_only(
        self, bench: Bench, state: State, step: _Step, why: str
    ) -> list[Evidence]:
        """Ask whether the outputs, which are all that vouches for a change, can see it."""
        numbers = tuple(a.number for a in step.applied)
        what = ", ".join(dict.fromkeys(a.rule for a in step.applied)) or step.pass_.name
        sees = None
        if not step.translated:
            if compute_alike(step.before, step.model):
                return [Evidence(what, Kind.PROVED, numbers, reason=BY_STRUCTURE)]
            sample = state.baseline.samples[0]
            sees = can_see(
                bench.engine, step.before, step.model, sample, state.baseline.unstable
            )
        return [_seen(Evidence(what, Kind.OUTPUTS_ONLY, numbers, reason=why), sees)]

    def _annotations(
        self, state: State, before: ir.Model, model: ir.Model
    ) -> tuple[Check, State]:
        """Hold the types and shapes that a pass noted against the values that were seen.

        Values that are recorded for this are those of the next passes, too.
        """
        start = time.perf_counter()
        index = next(
            (i for i, b in enumerate(state.baseline.benches) if b.when == "each"), None
        )
        recorded = None if index is None else state.of(index).recorded
        if index is not None and recorded is None and state.baseline.samples:
            recorder = self._recorder(state.baseline.benches[index])
            recorded = recorder.obtain(
                None, inlined(model), state.baseline, frozenset(), untouched=not state.moved
            )
            state = state.knowing(index, replace(state.of(index), recorded=recorded))
        wrong: list[str] = []
        if recorded is not None:
            wrong = find_wrong_annotations(
                before,
                model,
                recorded.samples,
                lambda node, row: run_nodes(ReferenceEngine(), model, [node], [row])[0],
            )
        verdict = Verdict.FAILED if wrong else Verdict.PASSED
        reason = "; ".join(wrong[:3]) or None
        if recorded is None:
            reason = "types and shapes were not held against values: none were recorded"
        check = Check(
            "annotations", verdict, reason=reason, seconds=time.perf_counter() - start
        )
        return check, state

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

    def against_original(self, model: ir.Model, moments: Sequence[str]) -> list[Check]:
        """Hold a whole model against the original, on the engines of the given moments.

        Nothing is run where every pass left alone what is computed.
        """
        state = self.state
        asked = [b for b in state.baseline.benches if b.when in moments]
        if not state.moved:
            reason = "not run: no pass changed what is computed"
            names = [bench.engine.name for bench in asked]
            return [Check("drift", Verdict.UNCHANGED, name, reason=reason) for name in names]
        state.baseline.ready(*moments)
        asked = [b for b in state.baseline.benches if b.when in moments]
        for bench in asked[1:] if state.baseline.ahead else ():
            bench.begin(model, state.baseline.samples)
        checks: list[Check] = []
        for bench in asked:
            found = self._end(bench, state, model)
            again = self._is_in_doubt(state, bench, found)
            checks += self._end(bench, state, model) if again else found
        if state.at_origin or state.origin is not None:
            return checks
        return Arbiter(state, state.original.model, model, asked).at_end(checks)

    def _end(self, bench: Bench, state: State, model: ir.Model) -> list[Check]:
        name, samples = bench.engine.name, state.baseline.samples
        if not samples:
            reason = "there are no reference samples"
            return [Check("equality", Verdict.NOT_VERIFIED, name, reason=reason)]
        start = time.perf_counter()
        try:
            produced = bench.run(model, samples)
            origin = None
            if state.at_origin:
                origin = produced
            elif state.origin is not None:
                origin = bench.run(state.origin.model, samples)
        except EngineError as error:
            failed = _does_not_run("equality", bench, error)
            return [replace(failed, seconds=time.perf_counter() - start)]
        seconds = time.perf_counter() - start
        checks = state.comparing.end(bench, origin, produced, model)
        checks[0] = replace(checks[0], seconds=checks[0].seconds + seconds)
        return checks

    def local_limit(
        self, kind: str, contracts: Sequence[Contract], override: OutputTolerance | None
    ) -> tuple[Equality | Tolerance, dict[str, Tolerance]]:
        """Return what inner values are held to where a check of some kind failed."""
        return self.state.comparing.thresholds.local(kind, contracts, override)

    def check_original(self) -> None:
        """Ask whether the original itself keeps the metrics' ranges.

        Raises:
            ReferenceDataError: It does not, so that no pass could.
        """
        if self.settings.metrics:
            self.baseline.ready("each", "checkpoint", "end")
        for bench in self.baseline.benches:
            for check in self.state.comparing.metrics(bench, bench.original, ()):
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
        thresholds = self.state.comparing.thresholds
        if not (thresholds.given or steps) or not self.baseline.samples:
            return
        self.baseline.ready("each", "checkpoint", "end")
        for bench in list(self.baseline.benches):
            if bench.ran:
                thresholds.refuse(self.noise.of(bench), self.baseline.unstable, steps)

    def remember(self) -> dict[str, Any]:
        """Return what was spent of error budgets, as JSON has it."""
        return {bench.key: known.budget.remember() for bench, known in self.state.pairs()}

    def recall(self, remembered: dict[str, Any]) -> None:
        """Go on from a model that another run accepted, and what was spent by then."""
        known = tuple(
            Known(budget=Budget.recall(remembered[b.key]) if b.key in remembered else Budget())
            for b in self.baseline.benches
        )
        changes = self.levels.later((), unkept("passes before --resume"), 0)
        self.state = replace(self.state, known=known, moved=True, changes=changes)


def _seen(one: Evidence, sees: bool | None) -> Evidence:
    """Return evidence of outputs only, with what the outputs can see of the change."""
    kind = Kind.BLIND if sees is False else Kind.OUTPUTS_ONLY
    return replace(one, kind=kind, reason=f"{_SIGHT[sees]} ({one.reason})")


def _distrusted(state: State, checks: Sequence[Check]) -> State:
    """Return the state in which a model that failed is gone on with.

    What it spent of error budgets stays spent; a failure of another kind is not charged to the
    passes that follow.
    """
    charged = {check.engine: check.budget for check in checks if check.budget}
    known = tuple(
        Known(
            budget=k.budget.charged(
                charged.get(b.engine.name, ()), moved=b.engine.name not in charged
            )
        )
        for b, k in state.pairs()
    )
    return replace(state, known=known, moved=True)


def _draws(model: ir.Model) -> frozenset[tuple[str, str]]:
    """Return the random nodes of a model, by operator and the value that gives their seed."""
    return frozenset(
        (node.op_type, str(node.outputs[0].name))
        for node in all_nodes(model)
        if may_draw(node) and node.op_type != "Dropout"
    )


def _does_not_run(kind: str, bench: Bench, error: EngineError) -> Check:
    aside = f" ({error.help})" if error.help else ""
    reason = f"the result does not run: {error.message}{aside}"
    return Check(kind, Verdict.FAILED, bench.engine.name, reason=reason)
