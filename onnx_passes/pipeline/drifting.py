"""Which pass, and which of its rewrites, took a result too far from the original.

No single pass failed by itself, or it would have been told. So the passes that were kept are
repeated, unchecked, and their states are bisected by the error of the outputs against those of
the original; in the pass found, rewrites are scored by themselves, and bisected where no one
stands out. Where no step stands out either, the first value that diverges is named.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import onnx_ir as ir

from onnx_passes.config.resolve import PassStep
from onnx_passes.config.schema import PipelineConfig
from onnx_passes.contracts import Tolerance
from onnx_passes.errors import EngineError, OnnxPassesError
from onnx_passes.graph.walk import ungrown_bytes
from onnx_passes.passes.context import Application, PassContext, Rewrites
from onnx_passes.passes.patterns import describe
from onnx_passes.pipeline.baseline import Bench
from onnx_passes.pipeline.execute import execute
from onnx_passes.pipeline.gate import Gate
from onnx_passes.pipeline.reproduce import Failure, Pair, bench_of, failed_check, reproduce
from onnx_passes.pipeline.reproduce_level import reproduce_level
from onnx_passes.report.model import Blame, RunReport
from onnx_passes.verify.cut import values_of
from onnx_passes.verify.diverge import first_divergence
from onnx_passes.verify.local import LocalScore, boundary, local_scores
from onnx_passes.verify.result import LEVEL, Check
from onnx_passes.verify.score import GAP, first_above, middle_of, resolution, score, stands_out
from onnx_passes.verify.snapshot import Change, Snapshot
from onnx_passes.verify.witness import Witnesses


@dataclass(frozen=True)
class Kept:
    """A pass that changed the model, and was kept.

    Attributes:
        step: How it was asked for.
        index: Its place in the report.
        first: Position in the record of rewrites at which it began.
        applied: The rewrites that it made.
        skip: Keys of the rewrites that it was not to make.
    """

    step: PassStep
    index: int
    first: int
    applied: tuple[Application, ...]
    skip: frozenset[str]


@dataclass(frozen=True)
class Drifted:
    """A result that is too far from the original.

    Attributes:
        original: The original.
        result: The result.
        kept: The passes between them.
        checks: What was found, some of it failed.
        gate: What checked it.
        config: The pipeline.
        plain: The same as passes see it.
        report: The report of the run.
        name: Names the folder of the reproducer.
        title: What failed, as text.
    """

    original: Snapshot
    result: ir.Model
    kept: Sequence[Kept]
    checks: Sequence[Check]
    gate: Gate
    config: PipelineConfig
    plain: dict[str, Any]
    report: RunReport
    name: str
    title: str

    @cached_property
    def file_bytes(self) -> int:
        """What the file of the original takes, about, less what was folded into it."""
        return ungrown_bytes(self.original.model)


@dataclass
class Traced:
    """What a drift was traced to.

    Attributes:
        blame: The rewrite, the pass, or the first value that diverges.
        notes: What a reader should know, a sentence each.
        folder: The reproducer; None where none was left.
    """

    blame: list[Blame] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    folder: str | None = None


def trace_drift(drifted: Drifted, error: str) -> Traced:
    """Find out what took a result too far from the original, and leave a reproducer.

    Args:
        drifted: The result, and how it came about.
        error: The error that it led to, as text.
    """
    traced = Traced()
    check = failed_check(drifted.checks)
    level = check is not None and check.kind == LEVEL
    if check is None or not (level or drifted.gate.baseline.samples):
        return traced
    whole = Pair(drifted.original.model, drifted.result, "the whole models")
    pairs: list[Pair] = [whole]
    tracer = _Tracer(drifted, check, bench_of(drifted.gate, check), traced)
    try:
        pairs = pairs if level else [*tracer.run(), whole]
    except Exception as failure:
        # It explains a failure that is already certain, and must not replace it.
        told = failure.message if isinstance(failure, OnnxPassesError) else str(failure)
        traced.notes.append(f"the drift was not traced to a pass: {told}")
    if drifted.config.reproducers:
        contract = "within the drift tolerance of the original"
        steps = [kept.step.text for kept in drifted.kept]
        one = Failure(
            drifted.name, drifted.title, error, contract, check, pairs, steps, traced.blame
        )
        try:
            write = reproduce_level if level else reproduce
            traced.folder = str(write(one, drifted.gate, drifted.config, drifted.report))
        except Exception as failure:
            told = failure.message if isinstance(failure, OnnxPassesError) else str(failure)
            traced.notes.append(f"no reproducer: {told}")
    return traced


@dataclass
class _Tracer:
    drifted: Drifted
    check: Check
    bench: Bench
    traced: Traced
    judged: int = 0

    def run(self) -> list[Pair]:
        drifted = self.drifted
        states = self._states()
        final = self._error(drifted.result)
        noise = self._noise()
        threshold = middle_of(noise, final)
        place, good, bad = first_above(
            len(states), lambda n: self._error(states[n - 1]), final, threshold
        )
        if not states or not stands_out(good, bad, noise):
            self.traced.notes.append(
                "no single pass is to blame: the error grows little by little, and at no pass "
                f"by {GAP:g} times ({good:.3g} -> {bad:.3g}, the noise is {noise:.3g})"
            )
            return self._divergence()
        kept = drifted.kept[place - 1]
        before = states[place - 2] if place > 1 else drifted.original.model
        return self._within(kept, before, states[place - 1], noise, threshold, good)

    def _states(self) -> list[ir.Model]:
        """Repeat the passes, and return the model after each."""
        states: list[ir.Model] = []
        state: dict[str, Any] = {"counter": 0, "history": []}
        model = self.drifted.original.restore()
        record: list[Application] = []
        for kept in self.drifted.kept:
            model, record = self._apply(kept, model, record, state)
            states.append(Snapshot(model).model)
        if Snapshot(self.drifted.result).change(model) not in (Change.NONE, Change.NAMES):
            raise OnnxPassesError("the passes do not repeat what they did")
        return states

    def _apply(
        self,
        kept: Kept,
        model: ir.Model,
        record: list[Application],
        state: dict[str, Any],
        count: int | None = None,
        witness: Witnesses | None = None,
    ) -> tuple[ir.Model, list[Application]]:
        wanted = len(kept.applied) if count is None else count
        pass_ = kept.step.make(self.drifted.plain, state)
        limit = kept.first + wanted if kept.applied else None
        rewrites = Rewrites(limit, kept.skip, None, list(record), witness)
        context = PassContext(rewrites, file_bytes=self.drifted.file_bytes)
        pass_.context = context
        result = execute(pass_, model, self.drifted.config.limits.pass_seconds).model
        return result, context.rewrites.applied

    def _within(
        self,
        kept: Kept,
        before: ir.Model,
        after: ir.Model,
        noise: float,
        threshold: float,
        good: float,
    ) -> list[Pair]:
        """Find the rewrite of a pass, by its own error or by bisection."""
        name = kept.step.text
        passed = Pair(before, after, f"what pass {kept.index} {name} changed", (name,))
        scores = self._scores(kept, before)
        ranked = sorted((s for s in scores if s is not None), key=lambda s: -s.score)
        second = ranked[1].score if len(ranked) > 1 else 0.0
        if len(kept.applied) == 1:
            position = 1
            found = ranked[0] if ranked else None
            how = "the only rewrite"
        elif ranked and ranked[0].score >= GAP * max(second, noise):
            found, how = ranked[0], "by its own error"
            position = kept.applied.index(found.application) + 1
        elif kept.applied:
            position, low, high = first_above(
                len(kept.applied),
                lambda n: self._error(self._prefix(kept, before, n)),
                self._error(after),
                threshold,
            )
            found, how = None, "by bisection"
            if high < GAP * max(low if position > 1 else good, noise):
                position = 0
        else:
            position, found, how = 0, None, ""
        if not position:
            return [*self._divergence(before, after, kept), passed]
        one = kept.applied[position - 1]
        nodes, new = list(one.nodes), list(one.new_nodes)
        value = found.worst if found is not None else None
        size = found.score if found is not None else None
        sample = self.check.sample
        blame = Blame(
            kept.index, name, how, one.number, one.rule, nodes, new, value, size, sample
        )
        self.traced.blame.append(blame)
        around = [self._prefix(kept, before, n) for n in (position - 1, position)]
        what = f"what rewrite {one.number} of pass {kept.index} changed"
        return [Pair(around[0], around[1], what, (name,)), passed]

    def _prefix(self, kept: Kept, before: ir.Model, count: int) -> ir.Model:
        record = [kept.applied[0]] * kept.first  # only their number counts
        state: dict[str, Any] = {"counter": 0, "history": []}
        return self._apply(kept, Snapshot(before).restore(), record, state, count)[0]

    def _scores(self, kept: Kept, before: ir.Model) -> list[LocalScore | None]:
        if not kept.applied:
            return []
        witnesses = Witnesses()
        record = [kept.applied[0]] * kept.first
        state: dict[str, Any] = {"counter": 0, "history": []}
        model, _ = self._apply(
            kept, Snapshot(before).restore(), record, state, witness=witnesses
        )
        feeds = self.drifted.gate.baseline.samples[self.check.sample or 0]
        engine = self.bench.engine
        try:
            values = values_of(before, boundary(witnesses.pieces), feeds, engine)
        except EngineError:
            return []
        limit, overrides = self._limit()
        found = local_scores(model, witnesses.pieces, values, engine, limit, overrides)
        known = {application.key: application for application in kept.applied}
        return [
            s and LocalScore(known.get(s.application.key, s.application), s.score, s.checks)
            for s in found
        ]

    def _divergence(
        self,
        before: ir.Model | None = None,
        after: ir.Model | None = None,
        kept: Kept | None = None,
    ) -> list[Pair]:
        """Name the first value that diverges, and the pass that put its node there."""
        drifted = self.drifted
        feeds = drifted.gate.baseline.samples[self.check.sample or 0]
        old, new = before or drifted.original.model, after or drifted.result
        limit, overrides = self._limit()
        parted = first_divergence(old, new, feeds, self.bench.engine, limit, overrides)
        if parted is None:
            return []
        name = parted.value.output
        maker = kept or next((k for k in reversed(drifted.kept) if _touches(k, name)), None)
        self.traced.blame.append(
            Blame(
                maker.index if maker else None,
                maker.step.text if maker else "the pipeline",
                "the first value that diverges",
                nodes=[describe(parted.before)] if parted.before is not None else [],
                new_nodes=[describe(parted.after)] if parted.after is not None else [],
                value=parted.value,
                sample=self.check.sample,
            )
        )
        return []

    def _limit(self) -> tuple[Tolerance, dict[str, Tolerance]]:
        limit, overrides = self.drifted.gate.local_limit("drift", (), None)
        assert isinstance(limit, Tolerance)
        return limit, overrides

    def _error(self, model: ir.Model) -> float:
        """Return how far a model's outputs are from those of the original."""
        baseline = self.drifted.gate.baseline
        self.judged += 1
        try:
            produced = self.bench.run(model, baseline.samples)
        except EngineError:
            return math.inf
        return score(self.bench.original, produced, baseline.unstable)

    def _noise(self) -> float:
        return resolution(self.bench.original, self.drifted.gate.baseline.unstable)


def _touches(kept: Kept, name: str) -> bool:
    return any(name in pair for application in kept.applied for pair in application.replaced)
