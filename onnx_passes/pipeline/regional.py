"""Check only what a pass changed, on recorded values: the gate at the price of a few nodes."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field, replace

import onnx_ir as ir

from onnx_passes import risky_runs
from onnx_passes.contracts import Tolerance
from onnx_passes.errors import EngineError
from onnx_passes.passes.context import Application
from onnx_passes.pipeline.allowance import Allowance
from onnx_passes.pipeline.baseline import Baseline
from onnx_passes.pipeline.downstream import nodes_behind
from onnx_passes.pipeline.engine_side import Bench
from onnx_passes.pipeline.recorded_values import Recorded
from onnx_passes.pipeline.recorder import Recorder
from onnx_passes.pipeline.region_conclusion import Conclusion, InBodies, Regional, outer_sample
from onnx_passes.pipeline.region_finding import FoundRegion, calls_of, find_region, look_alike
from onnx_passes.pipeline.region_values import RegionValues, all_passed, any_failed
from onnx_passes.pipeline.weighing import BY_STRUCTURE
from onnx_passes.runtime.engine_base import Data, run_each
from onnx_passes.verify.body_models import changed_bodies, pair_holders
from onnx_passes.verify.evidence import Evidence, Kind
from onnx_passes.verify.judge import Promise
from onnx_passes.verify.obligations import (
    Obligation,
    ObligationPart,
    find_inner,
)
from onnx_passes.verify.recording import inlined, value_names
from onnx_passes.verify.region import Region, boundary_of
from onnx_passes.verify.region_models import region_model
from onnx_passes.verify.result import Check, OutputCheck, Verdict

_LARGE = 16
"""A region of at least this part of all nodes costs as much as the whole model."""

_MOVES = frozenset(
    ("Expand", "Flatten", "Reshape", "Shape", "Squeeze", "Transpose", "Unsqueeze")
)
"""Operators that compute no element: where only these are new, no output is likely to move."""


@dataclass
class RegionCheck:
    """The check of one pass on one engine.

    Attributes:
        recorder: Records values on the engine.
        baseline: The samples, and the original.
        before: The model before.
        after: The model after.
        applied: The rewrites that the pass recorded.
        promises: What the pass promises, with its limits for values inside.
        untouched: Whether ``before`` computes what the original does.
        allowance: How many parts may be run on drawn values; None for all.
        samples: For a body, the sample of the model that each of its own is from, by identity.
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

    def run(self, known: Recorded | None) -> Regional | None:
        """Check the region.

        Args:
            known: What is recorded of the model before.

        Returns:
            What was found; None if only a run of the whole model shows it: values cannot be
            matched or recorded.

        Raises:
            EngineError: No engine can run the original.
        """
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
            self.before, self.after, region, recorded, self.bench, self.promises
        )
        checked = self._run_ahead() or self._run_region()
        if checked is None:
            return None
        first = replace(checked.checks[0], seconds=time.perf_counter() - start)
        return replace(checked, checks=[first, *checked.checks[1:]])

    def _unchanged(self, region: Region, known: Recorded | None) -> Regional:
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
        return Regional(checks, evidence, kept)

    def _run_ahead(self) -> Regional | None:
        """Run the whole model at once, where a tolerance pass changed much of it.

        Its outputs have to be followed anyway, and the values inside are held to the same
        limits. What the region before them took is added, so that only a failure has to be
        asked again on recorded values.
        """
        region = self.region
        large = _LARGE * len(region.nodes) > len(self.after.graph)
        large &= any(node.op_type not in _MOVES for node in region.nodes)
        tolerant = all(isinstance(p.contract, Tolerance) for p in self.promises)
        if not (large and tolerant and region.frontier and self.bench.node_by_node):
            return None
        computed = {str(v.name) for node in self.after.graph for v in node.outputs}
        wanted = frozenset({o.new for o in self.required if o.tensor is None} & computed)
        try:
            recorded, outputs = self.recorder.run(self.after, self.baseline.samples, wanted)
        except EngineError:
            return None
        produced: list[Mapping[str, Data]] = [*recorded.samples]
        inner = self._inner(produced)
        results = self.values.compare(produced, [*self.required, *inner])
        results = self.values.arbitrate(produced, results)
        if any(not one.passed for checks in results.values() for one in checks):
            return None
        self.bench.learn(self.whole, self.baseline.samples, outputs)
        made = self._conclude(produced, results, recorded)
        return None if made.failed else replace(made, outputs=outputs)

    def _run_region(self) -> Regional | None:
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
        if self.bench.node_by_node and any_failed(results):
            results = {
                o: self.values.excuse(o, produced, checks) for o, checks in results.items()
            }
        if self.bench.node_by_node:
            results = self.values.arbitrate(produced, results, expected)
        elif expected is not None:
            results = {
                o: self.values.explain_fused(o, expected, produced, found)
                for o, found in results.items()
            }
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
            if self.recorded.holds((one.old,)) and look_alike(old[one.old], new.get(one.new))
        ]

    def _check_bodies(self) -> InBodies:
        """Check the bodies that changed, each as a model of its own."""
        known = self.recorded.samples
        replaced = {o.new: o.old for o in self.required}
        region, found = self.region, InBodies()
        holders = pair_holders(region.removed, region.nodes, known, replaced)
        inside = [application for application in self.applied if not application.outermost]
        for body in changed_bodies(
            self.before, self.after, holders, known, replaced, self.bench.engine
        ):
            bench = Bench(self.bench.engine, self.bench.when)
            check = RegionCheck(
                Recorder(bench, self.recorder.memory_limit),
                Baseline(body.before, [bench], list(body.feeds), ahead=False),
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
                checked = check.run(None)
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
    ) -> Regional:
        conclusion = Conclusion(
            self.values,
            self.baseline,
            self.applied,
            self.required,
            self._proved,
            self._check_bodies(),
            self.samples,
            self.allowance,
        )
        return conclusion.conclude(produced, results, recorded)


@dataclass
class RegionRuns:
    """Runs nodes of both models on recorded values.

    Attributes:
        recorder: Records values on the engine.
        baseline: The samples, and the original.
        models: The model before and after.
        found: What changed.
        recorded: The values of the model before.
        untouched: Whether the model before computes what the original does.
    """

    recorder: Recorder
    baseline: Baseline
    models: tuple[ir.Model, ir.Model]
    found: FoundRegion
    recorded: Recorded
    untouched: bool

    def produce(self, nodes: Sequence[ir.Node]) -> list[Mapping[str, Data]] | None:
        """Run nodes of the model after.

        Args:
            nodes: The nodes, in order.

        Returns:
            Their values by sample; None if a value that they need is not a tensor.
        """
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
        """Record further values of the model before.

        Args:
            names: Their names.
            compared: Names of values that stay recorded for a comparison.

        Returns:
            Whether that can be done.
        """
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
