"""Values of a region, held to what a pass promises, and what excuses those that differ."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import onnx_ir as ir

from onnx_passes.contracts import Tolerance
from onnx_passes.pipeline.causes import Cause, DerivedFinding
from onnx_passes.pipeline.derived import find_cause, is_doubtful
from onnx_passes.pipeline.downstream import Agreement, Downstream
from onnx_passes.pipeline.drawing import new_value
from onnx_passes.pipeline.engine_side import Bench
from onnx_passes.pipeline.fused import FUSED, explain
from onnx_passes.pipeline.recorded_values import Recorded
from onnx_passes.pipeline.rounding_checks import ROUNDING, is_rounding
from onnx_passes.runtime.engine_base import Data, Outputs
from onnx_passes.verify.compare import identical
from onnx_passes.verify.judge import Promise, judge
from onnx_passes.verify.obligations import Obligation
from onnx_passes.verify.recording import value_names
from onnx_passes.verify.region import Region
from onnx_passes.verify.result import OutputCheck, Verdict


@dataclass
class RegionValues:
    """The values on both sides of a region.

    Attributes:
        before: The model before.
        after: The model after.
        region: What changed.
        recorded: Values of the model before.
        bench: The engine.
        promises: What the pass promises, with its limits for values inside.
        settled: Where values that differ agree again, by obligation.
        rounded: Values that rounding below float32 explains.
        fused: By obligation, whether an engine's rounding alone explains a difference; None
            where that is not known.
        causes: What double precision says of values, by obligation.
    """

    before: ir.Model
    after: ir.Model
    region: Region
    recorded: Recorded
    bench: Bench
    promises: Sequence[Promise]
    settled: dict[Obligation, Agreement] = field(default_factory=dict)
    rounded: list[Obligation] = field(default_factory=list)
    fused: dict[Obligation, bool | None] = field(default_factory=dict)
    causes: dict[Obligation, DerivedFinding] = field(default_factory=dict)

    def compare(
        self,
        produced: Sequence[Mapping[str, Data]],
        obligations: Sequence[Obligation],
        expected: Recorded | None = None,
        promises: Sequence[Promise] = (),
    ) -> dict[Obligation, list[OutputCheck]]:
        """Compare values under each promise; the worst sample of each counts.

        Args:
            produced: Values that the nodes make, by sample and name.
            obligations: Names of the values on both sides.
            expected: Values of the model before, if not those recorded.
            promises: The promises, if not those of the pass.

        Returns:
            By obligation, one comparison for each promise; none of values that are not kept.
        """
        known = (expected or self.recorded).samples
        sides: list[tuple[Outputs, Outputs]] = [({}, {}) for _ in known]
        held = []
        for one in obligations:
            rows = _both(one, known, produced)
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

    def excuse(
        self,
        one: Obligation,
        produced: Sequence[Mapping[str, Data]],
        checks: list[OutputCheck],
    ) -> list[OutputCheck]:
        """Return the comparison of a value, passed where it is rounding below float32.

        Args:
            one: Names of the value on both sides.
            produced: Values that the nodes make, by sample and name.
            checks: Its comparison, one for each promise.
        """
        tolerant = all(isinstance(p.contract, Tolerance) for p in self.promises)
        if all_passed(checks) or not tolerant:
            return checks
        recordings = self.recorded.samples
        new = [new for _, new in _both(one, recordings, produced)]
        if not is_rounding(self.before, self.region.removed, one.old, recordings, new):
            return checks
        self.rounded.append(one)
        return [replace(check, passed=True, reason=ROUNDING) for check in checks]

    def arbitrate(
        self,
        produced: Sequence[Mapping[str, Data]],
        results: dict[Obligation, list[OutputCheck]],
        expected: Recorded | None = None,
    ) -> dict[Obligation, list[OutputCheck]]:
        """Let double precision decide if the limit of a type does not separate rounding.

        That is where values are beyond it, and where its absolute part alone allows them.

        Args:
            produced: Values that the nodes make, by sample and name.
            results: Comparisons by obligation.
            expected: Values of the model before, if not those recorded.
        """
        known = (expected or self.recorded).samples
        sides = (self.before, self.region.removed), (self.after, self.region.nodes)
        found = dict(results)
        for one, checks in results.items():
            passed = all_passed(checks)
            if not all(promise.is_derived(one.old) for promise in self.promises):
                continue
            if passed and not any(map(is_doubtful, checks)):
                continue
            pairs = _both(one, known, produced)
            cause = DerivedFinding(Cause.UNKNOWN)
            for some in self._deciding(one, pairs, passed=passed):
                recordings = [self.recorded.samples[k] for k in some]
                cause = find_cause(one, *sides, recordings, [pairs[k] for k in some])
                if cause.cause is not Cause.ROUNDING:
                    break
            if cause.cause is Cause.FUNCTION:
                tight = [promise.relative() for promise in self.promises]
                again = self.compare(produced, [one], expected, tight)
                found[one] = again.get(one, checks)
            elif not passed and cause.cause is Cause.ROUNDING:
                found[one] = [replace(c, passed=True, reason=cause.text) for c in checks]
            if passed != all_passed(found[one]) or not passed:
                self.causes[one] = cause
        return found

    def _deciding(
        self, one: Obligation, pairs: Sequence[tuple[Data, Data]], *, passed: bool
    ) -> Iterator[list[int]]:
        """Yield the samples in which double precision is asked: evaluations are dear.

        That is the smallest in which a value differs. If this is rounding, and the value is
        not within its limit, it is also each in which it is beyond.
        """
        sizes = {
            k: old.size
            for k, (old, new) in enumerate(pairs)
            if isinstance(old, np.ndarray) and not identical(old, new)
        }
        first = min(sizes, key=lambda k: (sizes[k] < 2, sizes[k]), default=None)
        yield [*range(len(pairs))] if first is None else [first]
        if first is not None and not passed:
            beyond = [
                k
                for k in sizes
                if any(
                    p.broken({one.old: pairs[k][0]}, {one.old: pairs[k][1]})
                    for p in self.promises
                )
            ]
            yield beyond or [*range(len(pairs))]

    def explain_fused(
        self,
        one: Obligation,
        expected: Recorded,
        produced: Sequence[Mapping[str, Data]],
        checks: list[OutputCheck],
    ) -> list[OutputCheck]:
        """Return the comparison of a value, passed where only an engine's rounding differs.

        Args:
            one: Names of the value on both sides.
            expected: Values of the model before, in the form of the new nodes.
            produced: Values that the nodes make, by sample and name.
            checks: Its comparison, one for each promise.
        """
        if all_passed(checks):
            return checks
        pairs = _both(one, expected.samples, produced)
        sides = (self.before, self.region.removed), (self.after, self.region.nodes)
        self.fused[one] = explain(one, *sides, self.recorded.samples, pairs)
        if self.fused[one] is not True:
            return checks
        return [replace(check, passed=True, reason=FUSED) for check in checks]

    def settle(
        self,
        produced: Sequence[Mapping[str, Data]],
        nodes: Sequence[ir.Node],
        results: Mapping[Obligation, list[OutputCheck]],
        fill: Callable[[frozenset[str]], bool],
    ) -> None:
        """Follow the values that differ to where the models agree again.

        Args:
            produced: Values that the nodes make, by sample and name.
            nodes: The nodes of the model after that were run.
            results: Comparisons by obligation.
            fill: Records further values of the model before; returns whether it can.
        """
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
        known = {(o.old, o.new): all_passed(checks) for o, checks in results.items() if checks}

        def differs(old: str, new: str) -> bool:
            if (old, new) not in known:
                if new in made and any(new not in one for one in produced):
                    return True  # computed, and not kept: nobody has seen it agree
                one = Obligation(old, new)
                if not fill(frozenset({old})):
                    return True
                checks = self.compare(produced, [one]).get(one, [])
                known[old, new] = bool(checks) and all_passed(checks)
            return not known[old, new]

        wrong = [one for one, checks in results.items() if not all_passed(checks)]
        for one in wrong:
            self.settled[one] = down.settle(one, names, differs)

    def is_good(self, one: Obligation, checks: Sequence[OutputCheck]) -> bool:
        """Whether a value passed, or the models agree again behind it.

        Args:
            one: Names of the value on both sides.
            checks: Its comparison, one for each promise.
        """
        if all_passed(checks):
            return True
        agreement = self.settled.get(one)
        return agreement is not None and agreement.reason is None

    def is_same(self, one: Obligation, produced: Sequence[Mapping[str, Data]]) -> bool:
        """Whether a value is the same bit for bit on each sample, NaN being NaN.

        Args:
            one: Names of the value on both sides.
            produced: Values that the nodes make, by sample and name.
        """
        return all(
            one.old in old and identical(old[one.old], new_value(one, old, new))
            for old, new in zip(self.recorded.samples, produced, strict=True)
        )

    def worst_sample(
        self, one: Obligation, produced: Sequence[Mapping[str, Data]], promise: Promise
    ) -> tuple[int, Sequence[OutputCheck]]:
        """Return the sample on which a value is farthest off, and how it differs there.

        Args:
            one: Names of the value on both sides.
            produced: Values that the nodes make, by sample and name.
            promise: What it is held to.
        """
        rows = list(zip(self.recorded.samples, produced, strict=True))
        olds: list[Outputs] = [{one.old: old[one.old]} for old, _ in rows]
        news: list[Outputs] = [{one.old: new_value(one, old, new)} for old, new in rows]
        found = judge(olds, news, promise)
        return found.sample or 0, found.outputs if found.verdict is Verdict.FAILED else ()


def all_passed(checks: Sequence[OutputCheck]) -> bool:
    """Whether each comparison of a value passed."""
    return all(check.passed for check in checks)


def any_failed(results: Mapping[Obligation, list[OutputCheck]]) -> bool:
    """Whether a comparison of any value failed."""
    return any(not all_passed(checks) for checks in results.values())


def _both(
    one: Obligation,
    known: Sequence[Mapping[str, Data]],
    produced: Sequence[Mapping[str, Data]],
) -> list[tuple[Data, Data]]:
    """Return a value before and after, by sample; None where it is not kept."""
    rows = zip(known, produced, strict=True)
    return [(old.get(one.old), new_value(one, old, new)) for old, new in rows]
