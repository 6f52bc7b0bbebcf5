"""Compare the values of both sides of a change, and explain what differs.

The change is a region, or one part of it. Differences are excused as rounding, or followed to
where the models agree again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
import onnx_ir as ir

from onnx_passes.contracts import Tolerance
from onnx_passes.pipeline.baseline import EngineBaseline
from onnx_passes.pipeline.observability import Agreement, Downstream
from onnx_passes.pipeline.reaching import new_value
from onnx_passes.pipeline.rounding import (
    Cause,
    DerivedFinding,
    find_cause,
    find_fused_cause,
    is_doubtful,
)
from onnx_passes.runtime.engine_base import Data, Outputs
from onnx_passes.verify.evidence import Check, OutputCheck, Verdict
from onnx_passes.verify.judge import Promise, held_by_tolerance, identical, judge
from onnx_passes.verify.obligations import Obligation
from onnx_passes.verify.recording import Recorded, value_names
from onnx_passes.verify.region import Region, Side


@dataclass
class RegionValues:
    """The values on both sides of a region.

    ``fuses`` says that the engine may round at other places than each node. By obligation:
    ``settled`` says where values that differ agree again, ``causes`` why values differ.
    ``held`` says, by sample, what a tolerance holds.
    """

    before: ir.Model
    after: ir.Model
    region: Region
    recorded: Recorded
    bench: EngineBaseline
    promises: Sequence[Promise]
    fuses: bool
    held: Sequence[Literal["all", "finite", "none"]] = ()
    settled: dict[Obligation, Agreement] = field(default_factory=dict)
    causes: dict[Obligation, DerivedFinding] = field(default_factory=dict)

    def compare(
        self,
        produced: Sequence[Mapping[str, Data]],
        obligations: Sequence[Obligation],
        expected: Recorded | None = None,
        promises: Sequence[Promise] = (),
    ) -> dict[Obligation, list[OutputCheck]]:
        """Compare values under each promise; the worst sample of each counts.

        One comparison for each promise; none of values that are not kept. ``expected`` and
        ``promises`` default to those recorded and those of the pass.
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
        checks = [self._judge(sides, promise) for promise in promises or self.promises]
        by_name = [{output.output: output for output in check.outputs} for check in checks]
        return {one: [found[one.old] for found in by_name] for one in held}

    def _judge(self, sides: Sequence[tuple[Outputs, Outputs]], promise: Promise) -> Check:
        """Judge values by sample, as far as a tolerance holds them."""
        if isinstance(promise.contract, Tolerance):
            sides = self._held(sides)
        return judge([old for old, _ in sides], [new for _, new in sides], promise)

    def _held(self, sides: Sequence[tuple[Outputs, Outputs]]) -> list[tuple[Outputs, Outputs]]:
        """Return what a tolerance holds of the values of each sample; a body has its own."""
        rest: list[Literal["all", "finite", "none"]] = ["all"] * len(sides)
        known = zip(sides, [*self.held, *rest], strict=False)
        return [held_by_tolerance(*both, which) for both, which in known]

    def unheld(
        self, produced: Sequence[Mapping[str, Data]], obligations: Sequence[Obligation]
    ) -> tuple[str, int] | None:
        """Return a finite value that differs where a tolerance holds nothing, with its sample.

        Near the greatest number of a type all do.
        """
        promises = [p for p in self.promises if isinstance(p.contract, Tolerance)]
        asked = [k for k, which in enumerate(self.held) if which == "none"]
        for one in obligations if promises else ():
            for k in asked:
                known, made = self.recorded.samples[k], produced[k]
                old: dict[str, Data] = {one.old: known[one.old]}
                new: dict[str, Data] = {one.old: new_value(one, known, made)}
                held = held_by_tolerance(old, new, "finite")
                if any(promise.broken(*held) for promise in promises):
                    return one.old, k
        return None

    def explain(
        self,
        produced: Sequence[Mapping[str, Data]],
        results: dict[Obligation, list[OutputCheck]],
        expected: Recorded | None = None,
    ) -> dict[Obligation, list[OutputCheck]]:
        """Pass values that differ by rounding alone, and fail those of another function.

        On an engine that runs node by node double precision decides where the limit of a type
        does not separate rounding. That is of values beyond it, and of those that its absolute
        part alone allows. Where an engine fuses nodes, running errors decide beyond the limit.
        ``expected`` are values of the model before, in the form of the new nodes.
        """
        fuses, known = self.fuses, (expected or self.recorded).samples
        sides = (self.before, self.region.removed), (self.after, self.region.nodes)
        found, patience = dict(results), _PATIENCE
        for one, checks in results.items():
            passed = all_passed(checks)
            derived = all(promise.is_derived(one.old) for promise in self.promises)
            if passed if fuses else not derived:
                continue
            if passed and not any(map(is_doubtful, checks)):
                continue
            pairs = _both(one, known, produced)
            if fuses:
                cause = find_fused_cause(one, *sides, self.recorded.samples, pairs)
            else:
                cause, patience = self._in_double(one, sides, pairs, patience, passed=passed)
            if cause.cause is Cause.FUNCTION and not fuses:
                tight = [promise.relative() for promise in self.promises]
                again = self.compare(produced, [one], expected, tight)
                found[one] = again.get(one, checks)
            elif not passed and cause.cause is Cause.ROUNDING:
                found[one] = [replace(c, passed=True, reason=cause.text) for c in checks]
            if passed != all_passed(found[one]) or not passed:
                self.causes[one] = cause
        return found

    def _in_double(
        self,
        one: Obligation,
        sides: tuple[Side, Side],
        pairs: Sequence[tuple[Data, Data]],
        patience: int,
        *,
        passed: bool,
    ) -> tuple[DerivedFinding, int]:
        """Return why a value differs, and how often a large part may be asked about next."""
        cause = DerivedFinding(Cause.UNKNOWN)
        for some in self._deciding(one, pairs, passed=passed):
            recordings = [self.recorded.samples[k] for k in some]
            asked = (one, *sides, recordings, [pairs[k] for k in some])
            cause = find_cause(*asked)
            if cause.cause is Cause.TOO_LARGE and not passed and patience:
                cause = find_cause(*asked, range(len(some)))
                patience = patience - 1 if cause.cause is Cause.ROUNDING else 0
            if cause.cause is not Cause.ROUNDING:
                break
        return cause, patience

    def _deciding(
        self, one: Obligation, pairs: Sequence[tuple[Data, Data]], *, passed: bool
    ) -> Iterator[list[int]]:
        """Yield the samples in which double precision is asked: evaluations are dear.

        That is the smallest in which a value differs. If this is rounding, and the value is
        not within its limit, it is also each in which it is beyond.
        """
        sides = self._held([({one.old: old}, {one.old: new}) for old, new in pairs])
        sizes = {
            k: array.size
            for k, (old, new) in enumerate(sides)
            if isinstance(array := old[one.old], np.ndarray)
            and not identical(array, new[one.old])
        }
        first = min(sizes, key=lambda k: (sizes[k] < 2, sizes[k]), default=None)
        yield [*range(len(pairs))] if first is None else [first]
        if first is not None and not passed:
            beyond = [k for k in sizes if any(p.broken(*sides[k]) for p in self.promises)]
            yield from ([k] for k in beyond) if beyond else ([*range(len(pairs))],)

    def settle(
        self,
        produced: Sequence[Mapping[str, Data]],
        nodes: Sequence[ir.Node],
        results: Mapping[Obligation, list[OutputCheck]],
        fill: Callable[[frozenset[str]], bool],
    ) -> None:
        """Follow the values that differ to where the models agree again."""
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
        """Whether a value passed, or the models agree again behind it."""
        if all_passed(checks):
            return True
        agreement = self.settled.get(one)
        return agreement is not None and agreement.reason is None

    def is_fused(self, one: Obligation) -> bool:
        """Whether an engine that fuses nodes rounds a value at other places."""
        cause = self.causes.get(one)
        return cause is not None and cause.fused and cause.cause is Cause.ROUNDING

    def is_same(self, one: Obligation, produced: Sequence[Mapping[str, Data]]) -> bool:
        """Whether a value is the same bit for bit on each sample, NaN being NaN."""
        return all(
            one.old in old and identical(old[one.old], new_value(one, old, new))
            for old, new in zip(self.recorded.samples, produced, strict=True)
        )

    def worst_sample(
        self,
        one: Obligation,
        produced: Sequence[Mapping[str, Data]],
        promise: Promise,
        expected: Recorded | None = None,
    ) -> tuple[int, Sequence[OutputCheck]]:
        """Return the sample on which a value is farthest off, and how it differs there."""
        rows = zip((expected or self.recorded).samples, produced, strict=True)
        sides: list[tuple[Outputs, Outputs]] = [
            ({one.old: old[one.old]}, {one.old: new_value(one, old, new)}) for old, new in rows
        ]
        found = self._judge(sides, promise)
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


_PATIENCE = 8
"""Number of values that double precision is asked about at length, before a pass fails."""
