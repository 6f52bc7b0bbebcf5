"""What the check of a region comes to: checks of the promises, and evidence of each part."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

import onnx_ir as ir

from onnx_passes.arrays import Array
from onnx_passes.contracts import Equality
from onnx_passes.passes.context import Application
from onnx_passes.pipeline.allowance import Allowance
from onnx_passes.pipeline.baseline import Baseline
from onnx_passes.pipeline.causes import Cause
from onnx_passes.pipeline.fused import FUSED
from onnx_passes.pipeline.recorded_values import Recorded
from onnx_passes.pipeline.region_values import RegionValues
from onnx_passes.pipeline.rounding_checks import ROUNDING
from onnx_passes.pipeline.weighing import Weighing, describe_places
from onnx_passes.runtime.engine_base import Data, Feeds, Outputs
from onnx_passes.runtime.inputs import name_of
from onnx_passes.verify.body_models import Bodies, entered, holds_bodies
from onnx_passes.verify.evidence import Evidence, weakest
from onnx_passes.verify.judge import Promise, describe_mismatch
from onnx_passes.verify.node_equality import branch_taken, never_iterates
from onnx_passes.verify.obligations import Obligation
from onnx_passes.verify.recording import value_names
from onnx_passes.verify.result import Check, OutputCheck, Verdict

_GRAPH = ir.AttributeType.GRAPH

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
        moved: Whether a value that the region computes for others differs in any bit, so that
            the outputs may be.
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
class InBodies:
    """What was found of bodies that changed.

    Attributes:
        found: By the node before that holds them.
        idle: Of nodes with bodies, the names of those bodies for which nothing vouches: they
            were not run by themselves, and no sample enters them.
    """

    found: dict[ir.Node, list[Regional]] = field(default_factory=dict)
    idle: dict[ir.Node, list[str]] = field(default_factory=dict)
    _vouched: set[tuple[ir.Node, str]] = field(default_factory=set)

    def add(self, body: Bodies, checked: Regional) -> None:
        """Add what was found of a body."""
        self.found.setdefault(body.holder, []).append(checked)
        if weakest(one.kind for one in checked.evidence).verifies:
            self._vouched.add((body.holder, body.name))

    def find_idle(
        self, nodes: Iterable[ir.Node], samples: Sequence[Mapping[str, Array]]
    ) -> None:
        """Find the bodies for which nothing vouches.

        Args:
            nodes: Nodes of one side that the other does not have.
            samples: Values of the model before, by name.
        """
        for node in filter(holds_bodies, nodes):
            if node.op_type == "If" and branch_taken(node) is not None:
                continue  # it never takes the other branch
            if node.op_type == "Loop" and never_iterates(node):
                continue
            names = {name for name, a in node.attributes.items() if a.type is _GRAPH}
            names -= {name for holder, name in self._vouched if holder is node}
            if left := sorted(names - entered(node, samples)):
                self.idle[node] = left


@dataclass
class Conclusion:
    """What is known when the values of a region have been compared.

    Attributes:
        values: The values, with what excuses those that differ.
        baseline: The samples, and the original.
        applied: The rewrites that the pass recorded.
        required: What the region computes for others.
        proved: What of it is proved.
        bodies: What was found of bodies.
        samples: For a body, the sample of the model that each of its own is from, by identity.
        allowance: How many parts may be run on drawn values; None for all.
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
    ) -> Regional:
        """Put checks and evidence together.

        Args:
            produced: Values that the nodes make, by sample and name.
            results: Comparisons by obligation, one for each promise.
            recorded: Values of the model after, for the next pass.
        """
        values = self.values
        compared = {o: checks for o, checks in results.items() if checks}
        failing = [o for o, checks in compared.items() if not values.is_good(o, checks)]
        moved = any(
            not values.is_same(o, produced)
            for o in compared
            if o.new in values.region.frontier and values.fused.get(o) is not True
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
        differs = next((own.differs for own in bodies if own.differs), None)
        if failing and only_outputs:
            differs = checks[0].reason
        bodies_evidence = {
            node: [one for check in found for one in check.evidence]
            for node, found in self.bodies.found.items()
        }
        weighing = Weighing(
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
            self.allowance,
        )
        evidence = weighing.weigh(compared, failing)
        moved = moved or bool(failing) or differs is not None
        certain = any(values.fused.get(o) is False for o in failing)
        certain |= any(
            o in values.causes and values.causes[o].cause is Cause.FUNCTION for o in failing
        )
        certain |= any(own.certain for own in bodies)
        return Regional(
            checks, evidence, recorded, moved, None, differs, certain, weighing.inputs
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
            places += [f"{one.old} differs by {ROUNDING}" for one in values.rounded[:3]]
            places += [f"{o.old} differs by {FUSED}" for o, why in values.fused.items() if why]
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
    """Return the sample of the model that one of a body is from.

    Args:
        sample: The sample.
        baseline: The samples.
        samples: The sample of the model by identity of that of the body; None for a model.
    """
    return sample if samples is None else samples[id(baseline.samples[sample])]


def _as_settled(check: OutputCheck, settled: bool) -> OutputCheck:
    if check.passed or not settled:
        return check
    return replace(check, passed=True, reason="it agrees again behind")
