"""Check a pass on one engine: the region that changed, or the whole model.

A step is a pass that is being checked. The region is found first and is run on recorded
values. The whole model runs if the region cannot be checked or leaves doubt.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field, replace

import numpy as np
import onnx_ir as ir

from onnx_passes import risky_runs
from onnx_passes.configs.sections import OutputTolerance, Verify
from onnx_passes.contracts import Contract, Equality, Metric, Tolerance
from onnx_passes.errors import EngineError
from onnx_passes.model.walk import all_nodes, captured_values
from onnx_passes.passes.base import Pass
from onnx_passes.passes.context import Application
from onnx_passes.pipeline.baseline import Baseline, EngineBaseline
from onnx_passes.pipeline.observability import can_see, nodes_behind
from onnx_passes.pipeline.policy import Budget
from onnx_passes.pipeline.random_values import Allowance
from onnx_passes.pipeline.recorder import Recorder
from onnx_passes.pipeline.region_evidence import (
    Conclusion,
    InBodies,
    RegionFinding,
    outer_sample,
)
from onnx_passes.pipeline.region_values import RegionValues, all_passed, any_failed
from onnx_passes.pipeline.state import EngineState, State
from onnx_passes.runtime.engine_base import Data, Outputs, run_each
from onnx_passes.runtime.inputs import held_on, is_empty
from onnx_passes.verify.bodies import changed_bodies, holds_bodies, pair_holders
from onnx_passes.verify.evidence import (
    BY_STRUCTURE,
    Check,
    Evidence,
    Kind,
    OutputCheck,
    Verdict,
    each_application_executed,
)
from onnx_passes.verify.judge import Promise, identical
from onnx_passes.verify.node_equality import FoldedConstants, constant_tensor
from onnx_passes.verify.obligations import (
    Obligation,
    ObligationPart,
    compute_alike,
    find_inner,
    find_obligations,
    find_proved,
)
from onnx_passes.verify.recording import Recorded, inlined, value_names
from onnx_passes.verify.region import Region, boundary_of, changed_region, region_model

_SIGHT = {
    True: "the outputs agree, and can see the change",
    False: "the outputs agree, and cannot see the change",
    None: "the outputs agree; whether they can see the change was not asked",
}


@dataclass(frozen=True)
class Step:
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

    @property
    def by_type(self) -> bool:
        """Whether its promises hold values to no more than their types allow."""
        return held_by_type(self.promises, self.override)

    @property
    def numbers(self) -> tuple[int, ...]:
        return tuple(application.number for application in self.applied)

    @property
    def label(self) -> str:
        """The rules that fired, or the pass."""
        return ", ".join(dict.fromkeys(a.rule for a in self.applied)) or self.pass_.name


def held_by_type(contracts: Sequence[Contract], override: OutputTolerance | None) -> bool:
    """Whether contracts leave limits to the types of values."""
    limits = [contract for contract in contracts if isinstance(contract, Tolerance)]
    return all(t.rtol is None and t.atol is None for t in limits) and override is None


@dataclass(frozen=True)
class EngineFinding:
    """What one engine says of a pass."""

    checks: list[Check]
    evidence: list[Evidence]
    known: EngineState
    certain: bool = False

    @property
    def failed(self) -> bool:
        return any(check.verdict is Verdict.FAILED for check in self.checks)


def with_observability(one: Evidence, sees: bool | None) -> Evidence:
    """Return evidence of outputs only, with whether these see the change; None: unknown."""
    kind = Kind.BLIND if sees is False else Kind.OUTPUTS_ONLY
    return replace(one, kind=kind, reason=f"{_SIGHT[sees]} ({one.reason})")


def does_not_run(kind: str, bench: EngineBaseline, error: EngineError) -> Check:
    """Return the check of a result that an engine refuses, which fails."""
    aside = f" ({error.help})" if error.help else ""
    reason = f"the result does not run: {error.message}{aside}"
    return Check(kind, Verdict.FAILED, bench.engine.name, reason=reason)


@dataclass(frozen=True)
class FoundRegion:
    """The nodes that a pass changed, and the values that they are compared on.

    ``recorded`` are the values of the model before that they read and are compared with; None
    if everything is proved. Of the ``required`` values those in ``proved`` are computed alike.
    ``needed`` stay recorded.
    """

    region: Region
    recorded: Recorded | None
    required: Sequence[Obligation]
    proved: set[Obligation]
    needed: AbstractSet[str] = frozenset()


def find_region(
    recorder: Recorder,
    baseline: Baseline,
    models: tuple[ir.Model, ir.Model],
    applied: Sequence[Application],
    known: Recorded | None,
    *,
    untouched: bool,
) -> FoundRegion | None:
    """Find what changed, with the values recorded that it is held against.

    A constant that replaces a value of the engine is compared with that value. If they are
    equal bit for bit, its readers are unchanged; else these are part of the region. With
    ``untouched`` the model before computes what the original does. None if values cannot be
    matched or recorded.
    """
    before, after = models
    folded = FoldedConstants()
    while (region := changed_region(before, after, folded)) is not None:
        required = find_obligations(region, before, after, applied)
        proved = find_proved(region, before, after, required)
        if len(proved) == len(required):
            return FoundRegion(region, known, required, proved)
        if not baseline.deterministic and any(
            map(baseline.is_random, (*region.nodes, *region.removed))
        ):
            return None
        needed = region.needed | {o.old for o in required}
        needed |= _read_by_bodies(region.removed)  # they are run
        needed |= {o.new for o in required if o.tensor is None} & set(value_names(before)) - {
            str(v.name) for node in region.nodes for v in node.outputs
        }
        known = recorder.obtain(known, before, baseline, needed, untouched=untouched)
        if known is None or not known.holds(region.needed):
            return None
        wrong = {n for n, t in region.folded.items() if not _holds(known, n, t)}
        if not wrong:
            return FoundRegion(region, known, required, proved, needed)
        folded = FoldedConstants(refused=folded.refused | wrong)
    return None


def _holds(known: Recorded, name: str, tensor: ir.TensorProtocol) -> bool:
    """Whether a value was, on every sample, what a constant is, bit for bit."""
    return all(
        name in recording and identical(recording[name], tensor.numpy())
        for recording in known.samples
    )


def _read_by_bodies(nodes: Sequence[ir.Node]) -> set[str]:
    """Return the names of what nodes with bodies read, constants aside."""
    holders = filter(holds_bodies, nodes)
    values = (v for node in holders for v in (*node.inputs, *captured_values(node)))
    return {str(v.name) for v in values if v is not None and constant_tensor(v) is None}


def calls_of(model: ir.Model) -> dict[ir.OperatorIdentifier, int]:
    """Count the calls of each function."""
    found: dict[ir.OperatorIdentifier, int] = {}
    for node in all_nodes(model) if model.functions else ():
        key = node.op_identifier()
        if key in model.functions:
            found[key] = found.get(key, 0) + 1
    return found


def have_same_type_and_shape(old: Data, new: Data) -> bool:
    """Whether two values are tensors of one type and shape."""
    arrays = isinstance(old, np.ndarray) and isinstance(new, np.ndarray)
    return arrays and old.dtype == new.dtype and old.shape == new.shape  # type: ignore[union-attr]


@dataclass
class RegionCheck:
    """The check of one pass on one engine.

    With ``untouched`` the model before computes what the original does. Without an
    ``allowance``, any number of parts may run on random values. For a body, ``samples`` maps
    its samples to those of the model, by identity.
    """

    recorder: Recorder
    baseline: Baseline
    before: ir.Model
    after: ir.Model
    applied: Sequence[Application]
    promises: Sequence[Promise]
    untouched: bool = False
    allowance: Allowance | None = None
    samples: Mapping[int, int] | None = None
    _proved: set[Obligation] = field(default_factory=set)

    def __post_init__(self) -> None:
        """Put the bodies of functions in place, unless the pass itself did so."""
        self.bench = self.recorder.bench
        self.whole = self.after
        if calls_of(self.before) == calls_of(self.after):
            self.before, self.after = inlined(self.before), inlined(self.after)

    def run(self, known: Recorded | None) -> RegionFinding | None:
        """Check the region; None if only a run of the whole model can show its effect."""
        start = time.perf_counter()
        models = self.before, self.after
        found = find_region(
            self.recorder, self.baseline, models, self.applied, known, untouched=self.untouched
        )
        if found is None:
            return None
        region, recorded = found.region, found.recorded
        self.required, self._proved = found.required, found.proved
        if len(self._proved) == len(self.required):
            return self._unchanged(region, known)
        assert recorded is not None
        self.region, self.recorded = region, recorded
        self.runs = RegionRuns(
            self.recorder, self.baseline, models, found, recorded, self.untouched
        )
        self.values = RegionValues(
            self.before,
            self.after,
            region,
            recorded,
            self.bench,
            self.promises,
            not self.bench.node_by_node,
            [held_on(feeds) for feeds in self.baseline.samples],
        )
        checked = self._run_region()
        if checked is None:
            return None
        first = replace(checked.checks[0], seconds=time.perf_counter() - start)
        return replace(checked, checks=[first, *checked.checks[1:]])

    def _unchanged(self, region: Region, known: Recorded | None) -> RegionFinding:
        """Say that nothing that reaches an output is computed differently."""
        reason = "nothing that reaches an output is computed differently"
        name = self.bench.engine.name
        checks = [Check(p.kind, Verdict.PASSED, name, "region", reason) for p in self.promises]
        numbers = tuple(application.number for application in self.applied)
        rules = dict.fromkeys(application.rule for application in self.applied)
        what = (
            ", ".join(rules) or ObligationPart(list(region.nodes), list(region.removed)).text
        )
        evidence = [Evidence(what, Kind.PROVED, numbers, reason=BY_STRUCTURE)]
        same = {one.new for one in self._proved if one.old == one.new}
        made = {str(v.name) for node in region.nodes for v in node.outputs}
        names = set(value_names(self.after)) - (made - same)
        kept = known and known.following([{} for _ in known.samples], names)
        return RegionFinding(checks, evidence, kept)

    def _run_region(self) -> RegionFinding | None:
        """Run the region on the recorded values, and what follows a value that differs."""
        region = self.region
        produced = self.runs.produce(region.nodes)
        if produced is None:
            return None
        expected: Recorded | None = None
        if not self.bench.node_by_node and (expected := self.runs.old_side()) is None:
            return None
        inner = self._inner(produced)
        results = self.values.compare(produced, [*self.required, *inner], expected)
        if self.bench.node_by_node and any_failed(results):
            # Recorded by a run of another form: ask both sides in one.
            expected = self.runs.old_side()
            if expected is not None:
                results = self.values.compare(produced, [*self.required, *inner], expected)
        results = self.values.explain(produced, results, expected)
        nodes = list(region.nodes)
        if any_failed(results):
            names = {o.new for o, checks in results.items() if not all_passed(checks)}
            behind = [n for n in nodes_behind(self.after, names) if n not in set(nodes)]
            nodes = [n for n in self.after.graph if n in {*nodes, *behind}]
            longer = self.runs.produce(nodes) if behind else produced
            produced = longer if longer is not None else produced
            compared = {one.old for one in results}
            self.values.settle(
                produced, nodes, results, lambda names: self.runs.fill(names, compared)
            )
        learned = self._learn(produced, results)
        names = set(value_names(self.after))
        return self._conclude(produced, results, self.recorded.following(learned, names))

    def _inner(self, produced: Sequence[Mapping[str, Data]]) -> list[Obligation]:
        """Return the values of old names that were computed anew and look alike."""
        known = {o.old for o in self.required}
        old, new = self.recorded.samples[0], produced[0]
        return [
            one
            for one in find_inner(self.region, self.before, known)
            if self.recorded.holds((one.old,))
            and have_same_type_and_shape(old[one.old], new.get(one.new))
        ]

    def _check_bodies(self, results: Mapping[Obligation, list[OutputCheck]]) -> InBodies:
        """Check the bodies that changed, each as a model of its own."""
        known = self.recorded.samples
        replaced = {o.new: o.old for o in self.required}
        region, found = self.region, InBodies()
        moved = {o.old for o in self.required if o.old != o.new}
        moved |= {o.new for o, checks in results.items() if not all_passed(checks)}
        holders = pair_holders(region.removed, region.nodes, known, replaced, moved)
        inside = [application for application in self.applied if not application.outermost]
        for body in changed_bodies(
            self.before, self.after, holders, known, replaced, self.bench.engine
        ):
            bench = EngineBaseline(self.bench.engine, self.bench.when)
            recorder = Recorder(bench, self.recorder.memory_limit)
            check = RegionCheck(
                recorder,
                Baseline(body.before, [bench], list(body.feeds)),
                body.before,
                body.after,
                inside,
                self.promises,
                untouched=True,
                allowance=self.allowance,
                samples={
                    id(feeds): outer_sample(place, self.baseline, self.samples)
                    for feeds, place in zip(body.feeds, body.samples, strict=True)
                },
            )
            checked = None
            # Nobody has run it yet: it may take all memory, or never end.
            where = f"{body.name} of {body.holder.outputs[0].name}"
            label, taken = risky_runs.label(risky_runs.DRAWN, where), body.is_entered(known)
            if not taken and (risky_runs.avoided(label) or not body.fits_memory):
                continue
            with suppress(EngineError), nullcontext() if taken else risky_runs.running(label):
                # What the region reads takes fewer nodes than the whole body.
                checked = check.run(recorder.inputs(body.feeds))
            if checked is not None and (body.certain or not checked.failed):
                numbers = {n for one in checked.evidence for n in one.numbers}
                inside = [a for a in inside if a.number not in numbers]
                found.add(body, checked)
        paired = {pair.new for pair in holders}
        found.find_idle(
            (*region.removed, *(n for n in region.nodes if n not in paired)), known
        )
        return found

    def _learn(
        self,
        produced: Sequence[Mapping[str, Data]],
        results: Mapping[Obligation, list[OutputCheck]],
    ) -> list[dict[str, Data]]:
        """Return the new values; of the frontier those that what follows did not see."""
        # What is downstream was computed from the old frontier, so that is what stays.
        kept = {
            o.new for o, checks in results.items() if o.old == o.new and all_passed(checks)
        }
        kept &= set(self.region.frontier)
        return [{k: v for k, v in found.items() if k not in kept} for found in produced]

    def _conclude(
        self,
        produced: Sequence[Mapping[str, Data]],
        results: Mapping[Obligation, list[OutputCheck]],
        recorded: Recorded,
    ) -> RegionFinding:
        conclusion = Conclusion(
            self.values,
            self.baseline,
            self.applied,
            self.required,
            self._proved,
            self._check_bodies(results),
            self.samples,
            self.allowance,
        )
        return conclusion.conclude(produced, results, recorded)


@dataclass
class RegionRuns:
    """Runs nodes of both models on recorded values."""

    recorder: Recorder
    baseline: Baseline
    models: tuple[ir.Model, ir.Model]
    found: FoundRegion
    recorded: Recorded
    untouched: bool

    def produce(self, nodes: Sequence[ir.Node]) -> list[Mapping[str, Data]] | None:
        """Run nodes of the model after; None if a value that they need is not a tensor."""
        if not nodes:
            return [{} for _ in self.recorded.samples]
        region = Region(tuple(nodes), boundary_of(nodes), self.found.region.frontier)
        needed = frozenset(region.boundary)
        if not self.recorder.obtain(
            self.recorded,
            self.models[0],
            self.baseline,
            needed | self.found.needed,  # what is asked for no more is dropped
            untouched=self.untouched,
        ):
            return None
        if not self.recorded.holds(needed):
            return None
        wanted = {o.new for o in self.found.required} | set(region.frontier)
        hidden = self.recorder.hidden(self.models[1], self.baseline.samples, wanted)
        return self._session(self.models[1], region, hidden)

    def fill(self, names: frozenset[str], compared: set[str]) -> bool:
        """Record more values of the model before; return whether that can be done."""
        obtained = self.recorder.obtain(
            self.recorded,
            self.models[0],
            self.baseline,
            names | compared | self.found.needed,
            untouched=self.untouched,
        )
        return obtained is self.recorded and self.recorded.holds(names)

    def old_side(self) -> Recorded | None:
        """Run what was removed, in the form in which the new nodes are run."""
        nodes = self.found.region.removed
        region = Region(nodes, boundary_of(nodes), ())
        if not nodes or not self.recorded.holds(region.boundary):
            return None
        wanted = {o.old for o in self.found.required}
        hidden = self.recorder.hidden(self.models[0], self.baseline.samples, wanted)
        found = self._session(self.models[0], region, hidden)
        names = set(value_names(self.models[0]))
        return None if found is None else self.recorded.following(found, names)

    def _session(
        self, model: ir.Model, region: Region, hidden: set[str]
    ) -> list[Mapping[str, Data]] | None:
        try:
            part = region_model(model, region, self.recorded.samples, hidden)
            feeds = [values.row(region.boundary) for values in self.recorded.samples]
            with self.recorder.bench.engine.prepare(part) as session:
                return list(run_each(self.recorder.bench.engine, session, feeds))
        except EngineError:
            return None


@dataclass
class EngineCheck:
    """Checks passes on an engine that executes; recorders are by the ``id`` of a bench."""

    settings: Verify
    allowance: Allowance
    recorders: dict[int, Recorder] = field(default_factory=dict)

    def check(
        self, index: int, bench: EngineBaseline, state: State, step: Step
    ) -> EngineFinding:
        """Return the finding of one engine, on the region that changed if it can be run."""
        found = self._regional(index, bench, state, step)
        if found is not None and not is_in_doubt(state, bench, found.checks):
            said = self._fails_if_empty(found, state)
            if said and state.baseline.leave_out_empty(bench, step.model, said):
                return self.check(index, bench, state, step)
            return found
        found = self.whole(index, bench, state, step)
        if is_in_doubt(state, bench, found.checks):
            return self.whole(index, bench, state, step)
        return found

    @staticmethod
    def _fails_if_empty(found: EngineFinding, state: State) -> str:
        """Return what is wrong, where it is for samples that hold nothing alone."""
        wrong = [check for check in found.checks if check.verdict is Verdict.FAILED]
        samples = state.baseline.samples
        if any(c.sample is None or not is_empty(samples[c.sample]) for c in wrong):
            return ""
        return wrong[0].reason or "it differs" if wrong else ""

    def recorder(self, bench: EngineBaseline) -> Recorder:
        """Return the recorder of an engine, which keeps what it knows of the model."""
        return self.recorders.setdefault(
            id(bench), Recorder(bench, self.settings.memory_limit)
        )

    def _regional(
        self, index: int, bench: EngineBaseline, state: State, step: Step
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
        self,
        index: int,
        bench: EngineBaseline,
        state: State,
        step: Step,
        region: RegionFinding,
    ) -> EngineFinding | None:
        """Find out what became of the outputs, where inner values are not what they were."""
        start, samples = time.perf_counter(), state.baseline.samples
        known = replace(state.of(index), recorded=region.recorded, untouched=False)
        state.baseline.ready(bench.when)
        if state.baseline.samples is not samples:  # another engine does not run on some
            return self._regional(index, bench, state, step)
        try:
            accepted, budget = self._accepted(index, bench, state, step)
            produced = None
            if bench.node_by_node:
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
        vouched = state.vouched and step.by_type and each_application_executed(evidence)
        for contract in step.pass_.contracts():
            if isinstance(contract, Tolerance) and not state.comparing.truth.wanted:
                checks.append(
                    state.comparing.spend(
                        bench, accepted, produced, budget, step.model, vouched=vouched
                    )
                )
                continue
            found = state.comparing.contract(
                bench,
                accepted,
                produced,
                contract,
                step.override,
                budget,
                step.model,
                vouched=vouched,
            )
            equal = isinstance(contract, Equality) and region.differs is None
            if equal and each_application_executed(evidence):
                rows = accepted, produced
                found = [state.comparing.context_noise(c, bench, *rows) for c in found]
            checks += found
        if region.differs is not None:
            evidence = self._outputs_only(bench, state, step, region.differs)
        at = len(region.checks)
        if len(checks) > at:
            checks[at] = replace(checks[at], seconds=time.perf_counter() - start)
        return EngineFinding(checks, evidence, known)

    def _run_recorded(
        self, bench: EngineBaseline, state: State, step: Step
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
        self, index: int, bench: EngineBaseline, state: State, step: Step
    ) -> tuple[list[Outputs], Budget]:
        """Return the outputs of the model before, and the budget measured from there."""
        known = state.of(index)
        accepted = known.accepted
        if accepted is None:
            accepted = bench.run(step.before, state.baseline.samples)
        return accepted, known.budget.measured_from(accepted)

    def whole(
        self, index: int, bench: EngineBaseline, state: State, step: Step
    ) -> EngineFinding:
        """Check the whole model, against a run of the one before where that is missing."""
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
            # An earlier pass, kept with a warning, is the culprit.
            return unknown(f"the model before the pass does not run: {error.message}")
        start = time.perf_counter()
        try:
            produced = bench.run(step.model, samples)
        except EngineError as error:
            failed = does_not_run(kind, bench, error)
            if state.baseline.leave_out_empty(bench, step.model, str(failed.reason)):
                return self.check(index, bench, state, step)
            failed = replace(failed, seconds=time.perf_counter() - start)
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
        self, bench: EngineBaseline, state: State, step: Step, why: str
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
        return [with_observability(found, sees)]


def is_in_doubt(state: State, bench: EngineBaseline, found: Sequence[Check]) -> bool:
    """Whether checks failed, and the original turns out not to repeat itself."""
    if all(check.verdict is not Verdict.FAILED for check in found):
        return False
    try:
        return state.baseline.doubt(bench)
    except EngineError:
        return False
