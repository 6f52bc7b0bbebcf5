"""Check only what a pass changed, on recorded values: the gate at the price of a few nodes."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

import numpy as np
import onnx_ir as ir

from onnx_passes.contracts import Equality, Tolerance
from onnx_passes.errors import EngineError
from onnx_passes.model.walk import all_nodes, captured_values
from onnx_passes.passes.context import Application
from onnx_passes.pipeline.allowance import Allowance
from onnx_passes.pipeline.baseline import Baseline, Bench
from onnx_passes.pipeline.derived import Cause, Finding, find_cause, is_doubtful
from onnx_passes.pipeline.downstream import Agreement, Downstream, nodes_behind
from onnx_passes.pipeline.drawing import new_value
from onnx_passes.pipeline.fused import FUSED, explain
from onnx_passes.pipeline.recorder import Recorded, Recorder
from onnx_passes.pipeline.rounding import ROUNDING, is_rounding
from onnx_passes.pipeline.weighing import BY_STRUCTURE, Weighing, describe_places
from onnx_passes.runtime.base import Data, Feeds, Outputs
from onnx_passes.runtime.inputs import name_of
from onnx_passes.runtime.parallel import run_each
from onnx_passes.verify.alike import find_proved
from onnx_passes.verify.bodies import changed_bodies
from onnx_passes.verify.compare import identical
from onnx_passes.verify.evidence import Evidence, Kind
from onnx_passes.verify.judge import Promise, describe_mismatch, judge
from onnx_passes.verify.node_equality import Folded, constant_tensor
from onnx_passes.verify.obligations import (
    Obligation,
    Part,
    find_inner,
    find_obligations,
)
from onnx_passes.verify.recording import inlined, value_names
from onnx_passes.verify.region import Region, boundary_of, changed_region, region_model
from onnx_passes.verify.result import Check, OutputCheck, Verdict

_LARGE = 16
"""A region of at least this part of all nodes costs as much as the whole model."""

_MOVES = frozenset(
    ("Expand", "Flatten", "Reshape", "Shape", "Squeeze", "Transpose", "Unsqueeze")
)
"""Operators that compute no element: where only these are new, no output is likely to move."""

_ON_PURPOSE = (
    'a pass that means to change values inside declares @passes.verify.equality(at="outputs")'
)


@dataclass(frozen=True)
class Regional:
    """What a check of a region found.

    Attributes:
        checks: One for each promise.
        evidence: One for each connected part of the change.
        recorded: The values of the model after; None where nothing is recorded.
        moved: Whether a value that the region computes for others is another one, bit for
            bit, so that the outputs may be.
        outputs: The outputs of the model after, where it was run as a whole.
        differs: What is not equal, where a pass promises no more than equal outputs.
        certain: Whether a value differs by more than rounding can do, wherever the engine
            rounds: what other runs say does not excuse it.
        inputs: Values of inputs of the model, on which a part differs that agrees on the
            samples.
    """

    checks: list[Check]
    evidence: list[Evidence]
    recorded: Recorded | None
    moved: bool = False
    outputs: list[Outputs] | None = None
    differs: str | None = None
    certain: bool = False
    inputs: Feeds | None = None

    @property
    def failed(self) -> bool:
        """Whether a promise is broken."""
        return any(check.verdict is Verdict.FAILED for check in self.checks)


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
        allowance: The time for drawn values; None for as long as they take.
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
    _settled: dict[Obligation, Agreement] = field(default_factory=dict)
    _bodies: dict[str, list[Regional]] = field(default_factory=dict)
    _rounded: list[Obligation] = field(default_factory=list)
    _fused: dict[Obligation, bool | None] = field(default_factory=dict)
    _causes: dict[Obligation, Finding] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Put the bodies of functions in place, unless the pass itself did so."""
        self.bench = self.recorder.bench
        self.whole = self.after
        if _calls(self.before) == _calls(self.after):
            self.before, self.after = inlined(self.before), inlined(self.after)

    def run(self, known: Recorded | None) -> Regional | None:
        """Check the region.

        Args:
            known: What is recorded of the model before.

        Returns:
            What was found; None where only a run of the whole model tells: values cannot be
            matched or recorded.

        Raises:
            EngineError: No engine can run the original.
        """
        start = time.perf_counter()
        found = self._find_region(known)
        if found is None:
            return None
        region, recorded = found
        if len(self._proved) == len(self.required):
            return self._unchanged(region, known)
        assert recorded is not None
        self.region, self.recorded = region, recorded
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
        what = ", ".join(rules) or Part(list(region.nodes), list(region.removed)).text
        evidence = [Evidence(what, Kind.PROVED, numbers, reason=BY_STRUCTURE)]
        same = {one.new for one in self._proved if one.old == one.new}
        made = {str(v.name) for node in region.nodes for v in node.outputs}
        names = set(value_names(self.after)) - (made - same)
        kept = known and known.following([{} for _ in known.samples], names)
        return Regional(checks, evidence, kept)

    def _find_region(self, known: Recorded | None) -> tuple[Region, Recorded | None] | None:
        """Find what changed, with the values recorded that it is held against.

        A constant in place of a value that the engine computed is compared with that value:
        equal bit for bit, it makes nothing new that reads it. Where one is not, its readers
        are part of the region.
        """
        folded = Folded()
        while (region := changed_region(self.before, self.after, folded)) is not None:
            self.required = find_obligations(region, self.before, self.after, self.applied)
            self._proved = find_proved(region, self.before, self.after, self.required)
            if len(self._proved) == len(self.required):
                return region, known
            if not self.baseline.deterministic and any(
                map(self.baseline.is_random, (*region.nodes, *region.removed))
            ):
                return None
            needed = region.needed | {o.old for o in self.required}
            needed |= _captured_by(region.removed)  # their bodies are run
            needed |= {o.new for o in self.required if o.tensor is None} & set(
                value_names(self.before)
            ) - {str(v.name) for node in region.nodes for v in node.outputs}
            self._needed = needed
            known = self.recorder.obtain(
                known, self.before, self.baseline, needed, untouched=self.untouched
            )
            if known is None or not known.holds(region.needed):
                return None
            wrong = {n for n, t in region.folded.items() if not _holds(known, n, t)}
            if not wrong:
                return region, known
            folded = Folded(refused=folded.refused | wrong)
        return None

    def _run_ahead(self) -> Regional | None:
        """Run the whole model at once, where a tolerance pass changed much of it.

        Its outputs have to be followed anyway, and the values inside are held to the same
        limits: with what the region before them took added, so that only a failure has to be
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
        results = self._compare(produced, [*self.required, *inner])
        results = self._derived(produced, results)
        if any(not one.passed for checks in results.values() for one in checks):
            return None
        self.bench.learn(self.whole, self.baseline.samples, outputs)
        self._bodies = self._check_bodies()
        made = self._conclude(produced, results, recorded)
        return None if made.failed else replace(made, outputs=outputs)

    def _run_region(self) -> Regional | None:
        """Run the region on the recorded values, and what follows a value that differs."""
        region = self.region
        produced = self._produce(region.nodes)
        if produced is None:
            return None
        expected: Recorded | None = None
        if not self.bench.node_by_node and (expected := self._old_side()) is None:
            return None
        inner = self._inner(produced)
        results = self._compare(produced, [*self.required, *inner], expected)
        if self.bench.node_by_node and _any_failed(results):
            # Recorded by a run of another form: ask both sides in one.
            expected = self._old_side()
            if expected is not None:
                results = self._compare(produced, [*self.required, *inner], expected)
        if self.bench.node_by_node and _any_failed(results):
            results = {o: self._excused(o, produced, checks) for o, checks in results.items()}
        if self.bench.node_by_node:
            results = self._derived(produced, results, expected)
        elif expected is not None:
            results = {
                o: self._weighed(o, expected, produced, found) for o, found in results.items()
            }
        nodes = list(region.nodes)
        if _any_failed(results):
            names = {o.new for o, checks in results.items() if not _passed(checks)}
            behind = [n for n in nodes_behind(self.after, names) if n not in set(nodes)]
            nodes = [n for n in self.after.graph if n in {*nodes, *behind}]
            longer = self._produce(nodes) if behind else produced
            produced = longer if longer is not None else produced
            self._settle(produced, nodes, results)
        self._bodies = self._check_bodies()
        learned = self._learn(produced, results)
        names = set(value_names(self.after))
        return self._conclude(produced, results, self.recorded.following(learned, names))

    def _excused(
        self,
        one: Obligation,
        produced: Sequence[Mapping[str, Data]],
        checks: list[OutputCheck],
    ) -> list[OutputCheck]:
        """Return the comparison of a value, passed where it is rounding below float32."""
        tolerant = all(isinstance(p.contract, Tolerance) for p in self.promises)
        if _passed(checks) or not tolerant:
            return checks
        recordings = self.recorded.samples
        new = [new_value(one, o, n) for o, n in zip(recordings, produced, strict=True)]
        if not is_rounding(self.before, self.region.removed, one.old, recordings, new):
            return checks
        self._rounded.append(one)
        return [replace(check, passed=True, reason=ROUNDING) for check in checks]

    def _derived(
        self,
        produced: Sequence[Mapping[str, Data]],
        results: dict[Obligation, list[OutputCheck]],
        expected: Recorded | None = None,
    ) -> dict[Obligation, list[OutputCheck]]:
        """Let double precision decide where the limit of a type does not tell rounding.

        That is where values are beyond it, and where its absolute part alone allows them.
        """
        known = (expected or self.recorded).samples
        sides = (self.before, self.region.removed), (self.after, self.region.nodes)
        found = dict(results)
        for one, checks in results.items():
            passed = _passed(checks)
            if not all(promise.is_derived(one.old) for promise in self.promises):
                continue
            if passed and not any(map(is_doubtful, checks)):
                continue
            rows = zip(known, produced, strict=True)
            pairs = [(old.get(one.old), new_value(one, old, new)) for old, new in rows]
            cause = find_cause(one, *sides, self.recorded.samples, pairs)
            if cause.cause is Cause.FUNCTION:
                tight = [promise.relative() for promise in self.promises]
                again = self._compare(produced, [one], expected, tight)
                found[one] = again.get(one, checks)
            elif not passed and cause.cause is Cause.ROUNDING:
                found[one] = [replace(c, passed=True, reason=cause.text) for c in checks]
            if passed != _passed(found[one]) or not passed:
                self._causes[one] = cause
        return found

    def _weighed(
        self,
        one: Obligation,
        expected: Recorded,
        produced: Sequence[Mapping[str, Data]],
        checks: list[OutputCheck],
    ) -> list[OutputCheck]:
        """Return the comparison of a value, passed where only an engine's rounding differs."""
        if _passed(checks):
            return checks
        rows = zip(expected.samples, produced, strict=True)
        pairs = [(old.get(one.old), new_value(one, old, new)) for old, new in rows]
        sides = (self.before, self.region.removed), (self.after, self.region.nodes)
        self._fused[one] = explain(one, *sides, self.recorded.samples, pairs)
        if self._fused[one] is not True:
            return checks
        return [replace(check, passed=True, reason=FUSED) for check in checks]

    def _produce(self, nodes: Sequence[ir.Node]) -> list[Mapping[str, Data]] | None:
        """Run nodes of the model after; None where a value that they need is no tensor."""
        if not nodes:
            return [{} for _ in self.recorded.samples]
        region = Region(tuple(nodes), boundary_of(nodes), self.region.frontier)
        needed = frozenset(region.boundary)
        if not self.recorder.obtain(
            self.recorded,
            self.before,
            self.baseline,
            needed | self._needed,  # what is asked for no more is dropped
            untouched=self.untouched,
        ):
            return None
        if not self.recorded.holds(needed):
            return None
        wanted = {o.new for o in self.required} | set(region.frontier)
        hidden = self.recorder.hidden(self.after, self.baseline.samples, wanted)
        return self._session(self.after, region, hidden)

    def _old_side(self) -> Recorded | None:
        """Run what was removed, in the form in which the new nodes are run."""
        nodes = self.region.removed
        region = Region(nodes, boundary_of(nodes), ())
        if not nodes or not self.recorded.holds(region.boundary):
            return None
        wanted = {o.old for o in self.required}
        hidden = self.recorder.hidden(self.before, self.baseline.samples, wanted)
        found = self._session(self.before, region, hidden)
        names = set(value_names(self.before))
        return None if found is None else self.recorded.following(found, names)

    def _session(
        self, model: ir.Model, region: Region, hidden: set[str]
    ) -> list[Mapping[str, Data]] | None:
        try:
            part = region_model(model, region, self.recorded.samples, hidden)
            feeds = [
                {n: values[n] for n in region.boundary} for values in self.recorded.samples
            ]
            with self.bench.engine.prepare(part) as session:
                return list(run_each(self.bench.engine, session, feeds))
        except EngineError:
            return None

    def _inner(self, produced: Sequence[Mapping[str, Data]]) -> list[Obligation]:
        """Return the values of old names that were computed anew and look alike."""
        known = {o.old for o in self.required}
        old, new = self.recorded.samples[0], produced[0]
        return [
            one
            for one in find_inner(self.region, self.before, known)
            if self.recorded.holds((one.old,)) and _look_alike(old[one.old], new.get(one.new))
        ]

    def _compare(
        self,
        produced: Sequence[Mapping[str, Data]],
        obligations: Sequence[Obligation],
        expected: Recorded | None = None,
        promises: Sequence[Promise] = (),
    ) -> dict[Obligation, list[OutputCheck]]:
        """Hold values to each promise; the worst sample of each counts."""
        known = (expected or self.recorded).samples
        sides: list[tuple[Outputs, Outputs]] = [({}, {}) for _ in known]
        held = []
        for one in obligations:
            rows = [
                (old.get(one.old), new_value(one, old, new))
                for old, new in zip(known, produced, strict=True)
            ]
            if any(old is None or new is None for old, new in rows):
                continue  # too large to be kept, and nobody needs it
            held.append(one)
            for (left, right), (old, new) in zip(sides, rows, strict=True):
                left[one.old], right[one.old] = old, new
        if not held:
            return {}
        olds, news = [left for left, _ in sides], [right for _, right in sides]
        checks = [judge(olds, news, promise) for promise in promises or self.promises]
        by_name = [{output.output: output for output in check.outputs} for check in checks]
        return {one: [found[one.old] for found in by_name] for one in held}

    def _settle(
        self,
        produced: Sequence[Mapping[str, Data]],
        nodes: Sequence[ir.Node],
        results: Mapping[Obligation, list[OutputCheck]],
    ) -> None:
        """Follow the values that differ to where the models agree again."""
        compared = {one.old for one in results}

        def fill(names: frozenset[str]) -> bool:
            obtained = self.recorder.obtain(
                self.recorded,
                self.before,
                self.baseline,
                names | compared | self._needed,
                untouched=self.untouched,
            )
            return obtained is self.recorded and self.recorded.holds(names)

        down = Downstream(
            self.before,
            self.after,
            self.bench.engine,
            self.recorded,
            produced,
            set(nodes),
            fill,
        )
        made = {str(v.name) for node in nodes for v in node.outputs}
        before = set(value_names(self.before))
        names = {name: name for name in made if name in before}
        names |= {o.new: o.old for o in results if o.tensor is None}
        known = {(o.old, o.new): _passed(checks) for o, checks in results.items() if checks}

        def differs(old: str, new: str) -> bool:
            if (old, new) not in known:
                if new in made and any(new not in one for one in produced):
                    return True  # computed, and not kept: nobody has seen it agree
                one = Obligation(old, new)
                if not fill(frozenset({old})):
                    return True
                checks = self._compare(produced, [one]).get(one, [])
                known[old, new] = bool(checks) and _passed(checks)
            return not known[old, new]

        wrong = [one for one, checks in results.items() if not _passed(checks)]
        for one in wrong:
            self._settled[one] = down.settle(one, names, differs)

    def _check_bodies(self) -> dict[str, list[Regional]]:
        """Check the bodies that changed, each as a model of its own.

        Returns:
            What was found, by the first output of the node that holds the body.
        """
        found: dict[str, list[Regional]] = {}
        inside = [application for application in self.applied if not application.outermost]
        bodies = changed_bodies(
            self.before,
            self.region.removed,
            self.after,
            self.region.nodes,
            self.recorded.samples,
            self.bench.engine,
        )
        for body in bodies:
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
                    id(feeds): self._outer(place)
                    for feeds, place in zip(body.feeds, body.samples, strict=True)
                },
            )
            try:
                checked = check.run(None)
            except EngineError:
                continue
            if checked is not None:
                numbers = {n for one in checked.evidence for n in one.numbers}
                inside = [a for a in inside if a.number not in numbers]
                found.setdefault(body.holder, []).append(checked)
        return found

    def _learn(
        self,
        produced: Sequence[Mapping[str, Data]],
        results: Mapping[Obligation, list[OutputCheck]],
    ) -> list[dict[str, Data]]:
        """Return the new values; of the frontier those that what follows did not see."""
        # What is downstream was computed from the old frontier, so that is what stays.
        kept = {o.new for o, checks in results.items() if o.old == o.new and _passed(checks)}
        kept &= set(self.region.frontier)
        return [{k: v for k, v in found.items() if k not in kept} for found in produced]

    def _conclude(
        self,
        produced: Sequence[Mapping[str, Data]],
        results: Mapping[Obligation, list[OutputCheck]],
        recorded: Recorded,
    ) -> Regional:
        """Put checks and evidence together."""
        compared = {o: checks for o, checks in results.items() if checks}
        failing = [o for o, checks in compared.items() if not self._is_good(o, checks)]
        moved = any(
            not self._is_same(o, produced)
            for o in compared
            if o.new in self.region.frontier and self._fused.get(o) is not True
        )
        only_outputs = any(
            isinstance(p.contract, Equality) and p.contract.at == "outputs"
            for p in self.promises
        )
        checks = []
        for index, promise in enumerate(self.promises):
            wrong = self._ordered([o for o in failing if not compared[o][index].passed])
            sample: int | None = None
            told: Sequence[OutputCheck] = ()
            if wrong:
                sample, told = self._worst_sample(wrong[0], produced, promise)
                told = told or [compared[wrong[0]][index]]
            reason = self._reason(promise, told, wrong, sample)
            failed = bool(wrong) and not only_outputs
            checks.append(
                Check(
                    promise.kind,
                    Verdict.FAILED if failed else Verdict.PASSED,
                    self.bench.engine.name,
                    "region",
                    reason,
                    self._outer(sample) if failed and sample is not None else None,
                    tuple(
                        _as_settled(found[index], o in self._settled and o not in failing)
                        for o, found in compared.items()
                    ),
                )
            )
        bodies = [one for found in self._bodies.values() for one in found]
        for inner in bodies:
            for index, (check, own) in enumerate(zip(checks, inner.checks, strict=True)):
                if own.verdict is Verdict.FAILED and check.verdict is Verdict.PASSED:
                    checks[index] = replace(own, outputs=(*check.outputs, *own.outputs))
        differs = next((own.differs for own in bodies if own.differs), None)
        if failing and only_outputs:
            differs = checks[0].reason
        bodies_evidence = {
            name: [one for check in found for one in check.evidence]
            for name, found in self._bodies.items()
        }
        weighing = Weighing(
            self.before,
            self.after,
            self.region,
            self.recorded,
            self.bench,
            self.promises,
            self.applied,
            bodies_evidence,
            self.required,
            self._settled,
            self._proved,
            # What a body reads is no input of the model.
            not self.baseline.given and self.samples is None,
            self.allowance,
        )
        evidence = weighing.weigh(compared, failing)
        moved = moved or bool(failing) or differs is not None
        certain = any(self._fused.get(o) is False for o in failing)
        certain |= any(
            o in self._causes and self._causes[o].cause is Cause.FUNCTION for o in failing
        )
        certain |= any(own.certain for own in bodies)
        return Regional(
            checks, evidence, recorded, moved, None, differs, certain, weighing.inputs
        )

    def _ordered(self, wrong: Sequence[Obligation]) -> list[Obligation]:
        """Put the values first that are computed first: what follows inherits the fault."""
        names = value_names(self.after)
        places = {name: place for place, name in enumerate(names)}
        return sorted(wrong, key=lambda one: places.get(one.new, len(places)))

    def _is_good(self, one: Obligation, checks: Sequence[OutputCheck]) -> bool:
        if _passed(checks):
            return True
        agreement = self._settled.get(one)
        return agreement is not None and agreement.reason is None

    def _is_same(self, one: Obligation, produced: Sequence[Mapping[str, Data]]) -> bool:
        """Whether a value is the same bit for bit on each sample, NaN being NaN."""
        return all(
            one.old in old and identical(old[one.old], new_value(one, old, new))
            for old, new in zip(self.recorded.samples, produced, strict=True)
        )

    def _reason(
        self,
        promise: Promise,
        checks: Sequence[OutputCheck],
        wrong: Sequence[Obligation],
        sample: int | None,
    ) -> str | None:
        if sample is None:
            places = [describe_places(self._settled, self._settled)]
            places += [f"{one.old} differs by {ROUNDING}" for one in self._rounded[:3]]
            places += [f"{o.old} differs by {FUSED}" for o, why in self._fused.items() if why]
            places += [
                f"{o.old} differs by {why.text}"
                for o, why in islice(self._causes.items(), 3)
                if why.cause is Cause.ROUNDING
            ]
            return "; ".join(filter(None, places)) or None
        name = name_of(self.baseline.samples[sample])
        told = describe_mismatch(promise.kind, checks, self._outer(sample), name)
        cause = self._causes.get(wrong[0])
        if cause is not None and cause.text:
            told += f"; {cause.text}"
        behind = self._settled.get(wrong[0])
        if behind is not None and behind.reason:
            itself = wrong[0].new in {value.name for value in self.after.graph.outputs}
            told += "" if itself else f"; {behind.reason}"
            if isinstance(promise.contract, Equality) and not behind.shown:
                told += f"; {_ON_PURPOSE}"
        return told

    def _outer(self, sample: int) -> int:
        """Return the sample of the model that one of these is from."""
        if self.samples is None:
            return sample
        return self.samples[id(self.baseline.samples[sample])]

    def _worst_sample(
        self, one: Obligation, produced: Sequence[Mapping[str, Data]], promise: Promise
    ) -> tuple[int, Sequence[OutputCheck]]:
        """Return the sample on which a value is farthest off, and how it differs there."""
        rows = list(zip(self.recorded.samples, produced, strict=True))
        olds: list[Outputs] = [{one.old: old[one.old]} for old, _ in rows]
        news: list[Outputs] = [{one.old: new_value(one, old, new)} for old, new in rows]
        found = judge(olds, news, promise)
        return found.sample or 0, found.outputs if found.verdict is Verdict.FAILED else ()


def _calls(model: ir.Model) -> dict[ir.OperatorIdentifier, int]:
    """Count the calls of each function."""
    found: dict[ir.OperatorIdentifier, int] = {}
    for node in all_nodes(model) if model.functions else ():
        key = node.op_identifier()
        if key in model.functions:
            found[key] = found.get(key, 0) + 1
    return found


def _holds(known: Recorded, name: str, tensor: ir.TensorProtocol) -> bool:
    """Whether a value was, on every sample, what a constant is, bit for bit."""
    return all(
        name in recording and identical(recording[name], tensor.numpy())
        for recording in known.samples
    )


def _passed(checks: Sequence[OutputCheck]) -> bool:
    return all(check.passed for check in checks)


def _any_failed(results: Mapping[Obligation, list[OutputCheck]]) -> bool:
    return any(not _passed(checks) for checks in results.values())


def _as_settled(check: OutputCheck, settled: bool) -> OutputCheck:
    if check.passed or not settled:
        return check
    return replace(check, passed=True, reason="it agrees again behind")


def _look_alike(old: Data, new: Data) -> bool:
    arrays = isinstance(old, np.ndarray) and isinstance(new, np.ndarray)
    return arrays and old.dtype == new.dtype and old.shape == new.shape  # type: ignore[union-attr]


def _captured_by(nodes: Sequence[ir.Node]) -> set[str]:
    """Return the names of what bodies of nodes read from around them, constants aside."""
    values = (value for node in nodes for value in captured_values(node))
    return {str(value.name) for value in values if constant_tensor(value) is None}
