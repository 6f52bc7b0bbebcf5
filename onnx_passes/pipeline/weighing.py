"""Say what vouches for each part of a change: proved, executed, or nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import onnx_ir as ir

from onnx_passes.passes.context import Application
from onnx_passes.pipeline.allowance import Allowance
from onnx_passes.pipeline.downstream import Agreement
from onnx_passes.pipeline.drawing import Drawing
from onnx_passes.pipeline.engine_side import Bench
from onnx_passes.pipeline.recorded_values import Recorded
from onnx_passes.runtime.engine_base import Feeds
from onnx_passes.runtime.ort import OnnxRuntimeEngine
from onnx_passes.verify.alike import find_proved
from onnx_passes.verify.compare import identical
from onnx_passes.verify.evidence import Evidence, Kind, weakest
from onnx_passes.verify.informative import dependent_on_data, is_informative
from onnx_passes.verify.judge import Promise
from onnx_passes.verify.node_equality import is_identity
from onnx_passes.verify.obligations import Obligation, ObligationPart, split_parts
from onnx_passes.verify.region import Region
from onnx_passes.verify.result import OutputCheck

_PROBES = 4
"""How many parts with the same text are asked about values that samples may lack."""

_TOGETHER = 32
"""How many parts run in one session at most."""

BY_STRUCTURE = "the nodes that the outputs depend on compute what they did"


@dataclass
class Weighing:
    """A change that was compared.

    Attributes:
        before: The model before, without functions.
        after: The model after, without functions.
        region: What changed.
        recorded: The values of the model before.
        bench: The engine.
        promises: What the pass promises.
        applied: The rewrites that the pass recorded.
        bodies: Evidence inside bodies, by the node before that holds them.
        idle: Names of bodies for which nothing vouches, by the node that holds them.
        required: All that has to be equal.
        settled: Where the models agree again behind values that differ.
        proved: The values that are computed alike on both sides.
        generated: Whether the inputs of the model were generated, so that others are as good.
        allowance: How many parts may be run on drawn values; None for all.
        inputs: Values of inputs of the model, where a part differs on them and they are as
            good as those of the samples: what the caller adds to these.
    """

    before: ir.Model
    after: ir.Model
    region: Region
    recorded: Recorded
    bench: Bench
    promises: Sequence[Promise]
    applied: Sequence[Application]
    bodies: Mapping[ir.Node, Sequence[Evidence]]
    idle: Mapping[ir.Node, Sequence[str]]
    required: Sequence[Obligation]
    settled: Mapping[Obligation, Agreement]
    proved: Collection[Obligation]
    generated: bool
    allowance: Allowance | None = None
    inputs: Feeds | None = None

    def weigh(
        self,
        compared: Mapping[Obligation, list[OutputCheck]],
        failing: Sequence[Obligation],
    ) -> list[Evidence]:
        """Return the evidence of each connected part of the change.

        Args:
            compared: The values that were compared, with a comparison for each promise.
            failing: Those that break a promise.
        """
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
                if not any(o in self.settled for o in part.obligations):
                    asked[part.text] += 1
                    places.append(place)
            self._run_together([parts[place] for place in places])
            for place in places:
                found[place] = self._asked(parts[place], found[place])
        inner = [one for within in self.bodies.values() for one in within if one.numbers]
        known = {number for one in inner for number in one.numbers}
        whole = weakest(one.kind for one in found)
        for kind, reason, group in (
            (Kind.PROVED, BY_STRUCTURE, [a for a in lost if a.outermost]),
            (
                whole,
                "compared at the node that holds it",
                [a for a in lost if not a.outermost],
            ),
        ):
            left = [a for a in group if a.number not in known]
            if left:
                rules = ", ".join(dict.fromkeys(a.rule for a in left))
                numbers = tuple(a.number for a in left)
                found.append(Evidence(rules, kind, numbers, reason=reason))
        return [*(one for one in found if one.numbers or not inner), *inner]

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

    def _idle(self, part: ObligationPart) -> dict[ir.Node, Sequence[str]]:
        """Return the bodies of a part for which nothing vouches."""
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
        if ties := drawn is None and not idle:
            drawn = self._drawing.compare(part, ties=True)
        if drawn is None or (idle and drawn.agrees and not drawn.complete):
            return found  # the branch may be what did not run
        if not drawn.agrees:
            differs = "differs on drawn values"
            # What is drawn besides may be sizes, which are what they are.
            named = ", ".join(found.values[:3])
            unseen = f"{named} {differs}, which no sample has" if ties else None
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
        told = f"{', '.join(one.values[:3])} differs on drawn values"
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
    def _drawing(self) -> Drawing:
        renamed = {o.new: o.old for o in self.required if o.tensor is None}
        return Drawing(
            self.before,
            self.after,
            self.recorded,
            self.bench.engine,
            self.promises,
            renamed,
            self._varying,
        )

    @cached_property
    def _varying(self) -> set[str]:
        return dependent_on_data(self.before)

    def _tells(self, one: Obligation) -> bool:
        arrays = [sample[one.old] for sample in self.recorded.samples]
        return is_informative(arrays, lambda: one.old in self._varying)


def describe_places(
    ones: Iterable[Obligation], settled: Mapping[Obligation, Agreement]
) -> str | None:
    """Say where the models agree again behind values that differ.

    Args:
        ones: Pairs of values that differ.
        settled: Where values behind a pair agree again.
    """
    places = [
        f"{one.old} differs, and agrees again at {', '.join(found.values)}"
        for one in ones
        if (found := settled.get(one)) and found.values and not found.reason
    ]
    return "; ".join(places[:3]) or None
