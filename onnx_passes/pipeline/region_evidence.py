"""What the check of a region shows: verdicts of the promises, evidence for each part.

Each part of the change is proved, executed, or without evidence.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice

import numpy as np
import onnx_ir as ir

from onnx_passes.arrays import Array
from onnx_passes.contracts import Equality
from onnx_passes.passes.context import Application
from onnx_passes.pipeline.baseline import Baseline, EngineBaseline
from onnx_passes.pipeline.observability import Agreement
from onnx_passes.pipeline.random_values import Allowance, RandomComparison, SizeComparison
from onnx_passes.pipeline.region_values import RegionValues
from onnx_passes.pipeline.rounding import Cause
from onnx_passes.runtime.engine_base import Data, Feeds
from onnx_passes.runtime.inputs import name_of
from onnx_passes.runtime.ort import OnnxRuntimeEngine
from onnx_passes.verify.bodies import Bodies, executed_bodies, holds_bodies
from onnx_passes.verify.evidence import (
    BY_STRUCTURE,
    Check,
    Evidence,
    Kind,
    OutputCheck,
    Verdict,
    weakest,
)
from onnx_passes.verify.judge import (
    Promise,
    describe_mismatch,
    identical,
)
from onnx_passes.verify.node_equality import branch_taken, is_identity, never_iterates
from onnx_passes.verify.obligations import Obligation, ObligationPart, find_proved, split_parts
from onnx_passes.verify.recording import (
    Recorded,
    dependent_on_data,
    is_informative,
    value_names,
)
from onnx_passes.verify.region import Region

_PROBES = 4
"""How many parts with the same text are asked about values that samples may lack."""

_TOGETHER = 32
"""How many parts run in one session at most."""


@dataclass
class EvidenceSearch:
    """A change that was compared.

    Both models are without functions, or are ``inside`` a node. ``bodies`` holds evidence
    inside bodies by the node that holds them, and ``idle`` the bodies without evidence. If the
    inputs were ``generated``, others are as good. ``inputs`` is then set to those on which a
    part differs, for the caller to add.
    """

    before: ir.Model
    after: ir.Model
    region: Region
    recorded: Recorded
    bench: EngineBaseline
    promises: Sequence[Promise]
    applied: Sequence[Application]
    bodies: Mapping[ir.Node, Sequence[Evidence]]
    idle: Mapping[ir.Node, Sequence[str]]
    required: Sequence[Obligation]
    settled: Mapping[Obligation, Agreement]
    proved: Collection[Obligation]
    generated: bool
    inside: bool
    allowance: Allowance | None = None
    inputs: Feeds | None = None

    def weigh(
        self,
        compared: Mapping[Obligation, list[OutputCheck]],
        failing: Sequence[Obligation],
    ) -> list[Evidence]:
        """Return the evidence of each connected part of the change."""
        agreed = {o for o, found in compared.items() if all(c.passed for c in found)}
        parts, lost = split_parts(self.region, list(compared), agreed, self.applied)
        found = [self._weigh_part(part, compared, failing) for part in parts]
        if not failing and any(one.kind is Kind.NOTHING for one in found):
            found = self._follow(parts, found, agreed)
        if not failing and any(one.kind is Kind.NOTHING for one in found):
            found = [
                self._draw(part, one) if one.kind is Kind.NOTHING else one
                for part, one in zip(parts, found, strict=True)
            ]
        if not failing:
            asked, places = Counter[str](), list[int]()
            for place, (part, one) in enumerate(zip(parts, found, strict=True)):
                if one.kind is not Kind.EXECUTED or asked[part.text] >= _PROBES:
                    continue
                if self._changed_inside(part):
                    continue  # it was asked there
                # A new value of an old name need not be what that was.
                held = [o for o in part.obligations if self._is_held(o)]
                if not any(o in self.settled for o in held):
                    parts[place] = replace(part, obligations=held)
                    asked[part.text] += 1
                    places.append(place)
            self._run_together([parts[place] for place in places])
            for place in places:
                found[place] = self._asked(parts[place], found[place])
        inner = [one for within in self.bodies.values() for one in within if one.numbers]
        known = {number for one in inner for number in one.numbers}
        whole = weakest(one.kind for one in found)
        unseen = next((one.unobserved for one in found if one.unobserved), None)
        holder = "compared at the node that holds it"
        for kind, reason, unobserved, group in (
            (Kind.PROVED, BY_STRUCTURE, None, [a for a in lost if a.outermost]),
            (whole, holder, unseen, [a for a in lost if not a.outermost]),
        ):
            left = [a for a in group if a.number not in known]
            if left:
                rules = ", ".join(dict.fromkeys(a.rule for a in left))
                numbers = tuple(a.number for a in left)
                found.append(
                    Evidence(rules, kind, numbers, reason=reason, unobserved=unobserved)
                )
        if not inner:
            return found
        if unseen is not None:  # rewrites inside are counted at the first body that changed
            last = inner[-1]
            inner[-1] = replace(last, unobserved=last.unobserved or unseen)
        return [*(one for one in found if one.numbers), *inner]

    def _weigh_part(
        self,
        part: ObligationPart,
        compared: Mapping[Obligation, list[OutputCheck]],
        failing: Sequence[Obligation],
    ) -> Evidence:
        """Say what vouches for one part."""
        numbers = tuple(sorted(part.numbers))
        wrong = [o.old for o in part.obligations if o in failing]
        if wrong:
            reason = f"{', '.join(wrong[:3])} differs"
            return Evidence(part.text, Kind.NOTHING, numbers, reason=reason)
        held = [o for o in part.obligations if o in compared]
        if all(map(is_identity, (*part.old, *part.new))):
            return Evidence(part.text, Kind.PROVED, numbers, reason=BY_STRUCTURE)
        if all(one in self.proved for one in part.obligations):  # or nothing reads it
            return Evidence(part.text, Kind.PROVED, numbers, reason=BY_STRUCTURE)
        if not held:
            return Evidence(part.text, Kind.NOTHING, numbers, reason="no value was compared")
        names = tuple(o.old for o in held)
        size = sum(
            int(np.size(sample[o.old])) for o in held for sample in self.recorded.samples
        )
        within = [one for node in part.old for one in self.bodies.get(node, ())]
        if idle := self._idle(part):
            named = [f"{one} of {node.outputs[0].name}" for node in idle for one in idle[node]]
            reason = f"no sample runs {', '.join(named[:3])}"
            return Evidence(part.text, Kind.NOTHING, numbers, size, names[:4], reason)
        if any(self._tells(o) for o in held):
            places = describe_places(held, self.settled)
            unseen = next(
                (e.unobserved for e in within if e.unobserved and not e.numbers), None
            )
            return Evidence(part.text, Kind.EXECUTED, numbers, size, names[:4], places, unseen)
        if within and len(part.new) == 1 and weakest(e.kind for e in within).verifies:
            reason = "compared inside its bodies"
            return Evidence(part.text, Kind.EXECUTED, numbers, size, names[:4], reason)
        reason = f"{', '.join(names[:3])} is empty, constant or not finite on each sample"
        return Evidence(part.text, Kind.NOTHING, numbers, size, names[:4], reason)

    def _is_held(self, one: Obligation) -> bool:
        return one not in self.settled or one in self.required

    def _changed_inside(self, part: ObligationPart) -> bool:
        """Whether no more than the bodies of one node changed."""
        if len(part.old) != 1 or len(part.new) != 1 or part.old[0] not in self.bodies:
            return False
        read = [[v and v.name for v in node.inputs] for node in (part.old[0], part.new[0])]
        return read[0] == read[1]

    def _idle(self, part: ObligationPart) -> dict[ir.Node, Sequence[str]]:
        return {n: self.idle[n] for n in (*part.old, *part.new) if n in self.idle}

    def _follow(
        self,
        parts: Sequence[ObligationPart],
        found: Sequence[Evidence],
        agreed: Collection[Obligation],
    ) -> list[Evidence]:
        """Prove parts that only read other values, where those were found to be equal."""
        asked = [o for part in parts for o in part.obligations]
        proved = find_proved(self.region, self.before, self.after, asked, agreed)
        return [
            replace(one, kind=Kind.PROVED, reason=BY_STRUCTURE)
            if one.kind is Kind.NOTHING and proved.issuperset(part.obligations)
            else one
            for part, one in zip(parts, found, strict=True)
        ]

    def _draw(self, part: ObligationPart, found: Evidence) -> Evidence:
        """Compare a part on drawn values, if the recorded ones show nothing.

        A value that is constant or empty on all samples shows no fault. Agreement on others
        is evidence; what differs there may never occur, and fails nothing.
        """
        if idle := self._idle(part):
            # Behind nodes ahead a condition may be what it is on the samples.
            made = {v for node in (*part.old, *part.new) for v in node.outputs}
            if not all(self._is_drawn(n, made) for n in idle):
                return found
        drawn = self._drawing.compare(part, steps=0) if idle else self._drawing.compare(part)
        # What is drawn besides floats may be sizes, which are what they are.
        if ties := not idle and (drawn is None or not drawn.agrees):
            floats = self._drawing.compare(part, ties=True)
            ties = drawn is None or (floats is not None and not floats.agrees)
            drawn = floats if ties else drawn
        if drawn is None and not idle and not self.inside:
            larger = self._sizes.compare(part)
            if larger is not None and larger.elements:
                told = f"compared at larger sizes: {found.reason}"
                return replace(
                    found, kind=Kind.EXECUTED, elements=larger.elements, reason=told
                )
        if drawn is None or (idle and drawn.agrees and not drawn.complete):
            return found  # the branch may be what did not run
        if not drawn.agrees:
            differs = f"differs on drawn values{drawn.where}"
            named = ", ".join(found.values[:3])
            # A body is judged by what holds it, which may not see what no sample has.
            unseen = f"{named} {differs}, which no sample has" if ties or self.inside else None
            return replace(found, reason=f"{found.reason}; it {differs}", unobserved=unseen)
        why = found.reason if idle else "the recorded ones are constant or empty"
        told = f"compared on drawn values: {why}"
        return replace(found, kind=Kind.EXECUTED, elements=drawn.elements, reason=told)

    def _is_drawn(self, holder: ir.Node, made: Collection[ir.Value | None]) -> bool:
        """Whether each branch of a node is taken where what a part reads is drawn."""
        chosen = holder.inputs[0]
        varies = chosen is not None and chosen.name in self._varying
        return holder.op_type == "If" and varies and chosen not in made

    def _run_together(self, parts: Sequence[ObligationPart]) -> None:
        """Run parts that will be probed in one session."""
        if not self.bench.node_by_node:
            return
        left = len(parts) if self.allowance is None else self.allowance.left
        for start in range(0, min(left, len(parts)), _TOGETHER):
            self._drawing.run_together(parts[start : min(left, start + _TOGETHER)])

    def _asked(self, part: ObligationPart, one: Evidence) -> Evidence:
        """Probe a part, if one more may be run."""
        granted = self.allowance is None or self.allowance.grants()
        return self._probe(part, one) if granted else one

    def _probe(self, part: ObligationPart, one: Evidence) -> Evidence:
        """Ask a part that was executed about values that the samples may lack.

        What differs there holds only on the values that were seen: a precondition. Where
        generated inputs may be these values, the part is not verified, and a sample of them
        decides.
        """
        drawing = self._drawing
        larger = None if self.inside else self._sizes.compare(part)
        if larger is not None and larger.told:
            told = f"{', '.join(one.values[:3])} {larger.told}"
            if not self.generated or larger.feeds is None:
                return replace(one, unobserved=f"{told}, which no sample has")
            self.inputs = self.inputs or larger.feeds
            return replace(one, kind=Kind.NOTHING, reason=told)
        if not self.bench.node_by_node:
            # An engine may treat NaN, ties and sizes of its own accord: one that runs node
            # by node is asked first, and then this one, whether more than rounding shows.
            drawn = replace(drawing, engine=OnnxRuntimeEngine()).probe(part)
            if drawn is None or drawn.agrees:
                return one
            drawing = replace(drawing, fuses=True)
        drawn = drawing.probe(part)
        if drawn is None or drawn.agrees:
            return one
        told = f"{', '.join(one.values[:3])} differs on drawn values{drawn.where}"
        if drawn.given and self.generated:
            if any(
                all(identical(sample.get(n), value) for n, value in drawn.values.items())
                for sample in self.recorded.samples
            ):
                return one  # it was a sample, and the promise was kept
            self.inputs = self.inputs or drawn.values
            return replace(one, kind=Kind.NOTHING, reason=f"{told} of the inputs")
        return replace(one, unobserved=f"{told}, which no sample has")

    @cached_property
    def _drawing(self) -> RandomComparison:
        renamed = {o.new: o.old for o in self.required if o.tensor is None}
        return RandomComparison(
            self.before,
            self.after,
            self.recorded,
            self.bench.engine,
            self.promises,
            renamed,
            self._varying,
        )

    @cached_property
    def _sizes(self) -> SizeComparison:
        return SizeComparison(self._drawing)

    @cached_property
    def _varying(self) -> set[str]:
        return dependent_on_data(self.before)

    def _tells(self, one: Obligation) -> bool:
        arrays = [sample[one.old] for sample in self.recorded.samples]
        return is_informative(arrays, lambda: one.old in self._varying)


def describe_places(
    ones: Iterable[Obligation], settled: Mapping[Obligation, Agreement]
) -> str | None:
    """Say where the models agree again behind values that differ."""
    places = [
        f"{one.old} differs, and agrees again at {', '.join(found.values)}"
        for one in ones
        if (found := settled.get(one)) and found.values and not found.reason
    ]
    return "; ".join(places[:3]) or None


_GRAPH = ir.AttributeType.GRAPH

_ON_PURPOSE = (
    'a pass that means to change values inside declares @passes.verify.equality(at="outputs")'
)


@dataclass(frozen=True)
class RegionFinding:
    """What a check of a region found: a check for each promise, evidence for each part.

    ``recorded`` is of the model after, if known. ``moved`` says that a value that the region
    computes for others differs in any bit. ``differs`` is what is not equal, if the
    pass promises equal outputs only. ``certain`` says that a value differs by more than
    rounding can do on any engine. On ``inputs`` of the model a part differs that agrees on the
    samples.
    """

    checks: list[Check]
    evidence: list[Evidence]
    recorded: Recorded | None
    moved: bool = False
    differs: str | None = None
    certain: bool = False
    inputs: Feeds | None = None

    @property
    def failed(self) -> bool:
        return any(check.verdict is Verdict.FAILED for check in self.checks)


@dataclass
class InBodies:
    """What was found of bodies that changed, by the node before that holds them.

    ``idle`` names the bodies without evidence: they were not run by themselves, and no sample
    enters them.
    """

    found: dict[ir.Node, list[RegionFinding]] = field(default_factory=dict)
    idle: dict[ir.Node, list[str]] = field(default_factory=dict)
    _vouched: set[tuple[ir.Node, str]] = field(default_factory=set)

    def add(self, body: Bodies, checked: RegionFinding) -> None:
        self.found.setdefault(body.holder, []).append(checked)
        if weakest(one.kind for one in checked.evidence).verifies:
            self._vouched.add((body.holder, body.name))

    def find_idle(
        self, nodes: Iterable[ir.Node], samples: Sequence[Mapping[str, Array]]
    ) -> None:
        """Find the bodies without evidence, of nodes that the other side does not have."""
        for node in filter(holds_bodies, nodes):
            if node.op_type == "If" and branch_taken(node) is not None:
                continue  # it never takes the other branch
            if node.op_type == "Loop" and never_iterates(node):
                continue
            names = {name for name, a in node.attributes.items() if a.type is _GRAPH}
            names -= {name for holder, name in self._vouched if holder is node}
            if left := sorted(names - executed_bodies(node, samples)):
                self.idle[node] = left


@dataclass
class Conclusion:
    """What is known when the values of a region have been compared.

    ``required`` is what the region computes for others. For a body, ``samples`` maps its
    samples to those of the model, by identity.
    """

    values: RegionValues
    baseline: Baseline
    applied: Sequence[Application]
    required: Sequence[Obligation]
    proved: set[Obligation]
    bodies: InBodies
    samples: Mapping[int, int] | None
    allowance: Allowance | None

    def conclude(
        self,
        produced: Sequence[Mapping[str, Data]],
        results: Mapping[Obligation, list[OutputCheck]],
        recorded: Recorded,
    ) -> RegionFinding:
        values = self.values
        compared = {o: checks for o, checks in results.items() if checks}
        failing = [o for o, checks in compared.items() if not values.is_good(o, checks)]
        moved = any(
            not values.is_same(o, produced)
            for o in compared
            if o.new in values.region.frontier and not values.is_fused(o)
        )
        only_outputs = any(
            isinstance(p.contract, Equality) and p.contract.at == "outputs"
            for p in values.promises
        )
        checks = [
            self._checked(index, produced, compared, failing, excused=only_outputs)
            for index in range(len(values.promises))
        ]
        bodies = [one for found in self.bodies.found.values() for one in found]
        for inner in bodies:
            for index, (check, own) in enumerate(zip(checks, inner.checks, strict=True)):
                if own.verdict is Verdict.FAILED and check.verdict is Verdict.PASSED:
                    checks[index] = replace(own, outputs=(*check.outputs, *own.outputs))
        known = () if failing or self.samples is not None else tuple(compared)
        unheld = values.unheld(produced, known)
        if unheld is not None:
            rules = ", ".join(dict.fromkeys(a.rule for a in self.applied)) or "the change"
            name, place = unheld
            told = f"{rules}: {name} differs in {name_of(self.baseline.samples[place])}"
            if told not in self.baseline.assumptions:
                self.baseline.assumptions.append(told)
        differs = next((own.differs for own in bodies if own.differs), None)
        if failing and only_outputs:
            differs = checks[0].reason
        bodies_evidence = {
            node: [one for check in found for one in check.evidence]
            for node, found in self.bodies.found.items()
        }
        weighing = EvidenceSearch(
            values.before,
            values.after,
            values.region,
            values.recorded,
            values.bench,
            values.promises,
            self.applied,
            bodies_evidence,
            self.bodies.idle,
            self.required,
            values.settled,
            self.proved,
            # What a body reads is not an input of the model.
            not self.baseline.given and self.samples is None,
            self.samples is not None,
            self.allowance,
        )
        evidence = weighing.weigh(compared, failing)
        moved = moved or bool(failing) or differs is not None
        causes = [values.causes[o].cause for o in failing if o in values.causes]
        certain = Cause.FUNCTION in causes
        certain |= any(own.certain for own in bodies)
        return RegionFinding(
            checks, evidence, recorded, moved, differs, certain, weighing.inputs
        )

    def _checked(
        self,
        index: int,
        produced: Sequence[Mapping[str, Data]],
        compared: Mapping[Obligation, list[OutputCheck]],
        failing: Sequence[Obligation],
        *,
        excused: bool,
    ) -> Check:
        """Return the check of one promise; where values inside are excused, it passes."""
        values, promise = self.values, self.values.promises[index]
        wrong = self._ordered([o for o in failing if not compared[o][index].passed])
        sample: int | None = None
        told: Sequence[OutputCheck] = ()
        if wrong:
            sample, told = values.worst_sample(wrong[0], produced, promise)
            told = told or [compared[wrong[0]][index]]
        failed = bool(wrong) and not excused
        return Check(
            promise.kind,
            Verdict.FAILED if failed else Verdict.PASSED,
            values.bench.engine.name,
            "region",
            self._reason(promise, told, wrong, sample),
            self._outer(sample) if failed and sample is not None else None,
            tuple(
                _as_settled(found[index], o in values.settled and o not in failing)
                for o, found in compared.items()
            ),
        )

    def _ordered(self, wrong: Sequence[Obligation]) -> list[Obligation]:
        """Put the values first that are computed first: what follows inherits the fault."""
        names = value_names(self.values.after)
        places = {name: place for place, name in enumerate(names)}
        return sorted(wrong, key=lambda one: places.get(one.new, len(places)))

    def _reason(
        self,
        promise: Promise,
        checks: Sequence[OutputCheck],
        wrong: Sequence[Obligation],
        sample: int | None,
    ) -> str | None:
        values = self.values
        if sample is None:
            places = [describe_places(values.settled, values.settled)]
            places += [
                f"{o.old} differs by {why.text}"
                for o, why in islice(values.causes.items(), 3)
                if why.cause is Cause.ROUNDING
            ]
            return "; ".join(filter(None, places)) or None
        name = name_of(self.baseline.samples[sample])
        told = describe_mismatch(promise.kind, checks, self._outer(sample), name)
        cause = values.causes.get(wrong[0])
        if cause is not None and cause.text:
            told += f"; {cause.text}"
        behind = values.settled.get(wrong[0])
        if behind is not None and behind.reason:
            itself = wrong[0].new in {value.name for value in values.after.graph.outputs}
            told += "" if itself else f"; {behind.reason}"
            if isinstance(promise.contract, Equality) and not behind.shown:
                told += f"; {_ON_PURPOSE}"
        return told

    def _outer(self, sample: int) -> int:
        return outer_sample(sample, self.baseline, self.samples)


def outer_sample(sample: int, baseline: Baseline, samples: Mapping[int, int] | None) -> int:
    """Return the model's sample that a sample is from, if that is a body's; else itself."""
    return sample if samples is None else samples[id(baseline.samples[sample])]


def _as_settled(check: OutputCheck, settled: bool) -> OutputCheck:
    if check.passed or not settled:
        return check
    return replace(check, passed=True, reason="it agrees again behind")
