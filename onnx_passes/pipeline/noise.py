"""How far runs of the original are apart: an engine with itself, and with moved weights.

Limits are raised above what an engine differs by from run to run. What a result differs by may
be what rounding does to the original, too.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from onnx_passes.arrays import Array
from onnx_passes.contracts import Equality, Tolerance
from onnx_passes.contracts.scores import kind_of, widen
from onnx_passes.model.ort_sessions import Optimization
from onnx_passes.pipeline.baseline import Baseline, EngineBaseline
from onnx_passes.report.text import are, bound
from onnx_passes.runtime.engine_base import (
    Data,
    Engine,
    Feeds,
    Outputs,
)
from onnx_passes.runtime.inputs import (
    LARGE_FLOATS,
    RANDOM_VALUES,
    AdversarialFeeds,
)
from onnx_passes.runtime.ort import OnnxRuntimeEngine
from onnx_passes.verify.evidence import Check, EngineSpread, OutputCheck, Verdict
from onnx_passes.verify.judge import Promise, judge, score
from onnx_passes.verify.rounding import (
    makes_any_steps,
    move_inputs,
    move_weights,
)

_EXACT = Promise(Equality())

HEADROOM = 10.0
"""How many times its spread an engine is allowed, where no limit was given."""

LARGEST_NOISE_LIMIT = 1e-2
"""The largest limit that noise may lead to, as a share of an element, and of the largest one.

A wrong factor of 1.02 is seen. What is farther off and within the noise is not judged."""

_COARSE = 4.0
"""The same as a multiple of the default of a type, for those whose steps are larger."""


@dataclass(frozen=True)
class OriginalRuns:
    """Two runs of the original, by sample; ``between`` says what they are."""

    engine: str
    between: str
    first: Sequence[Outputs]
    second: Sequence[Outputs]

    def spread(self, ignored: frozenset[str] = frozenset()) -> list[EngineSpread]:
        """Return the spread of each numeric output, over all samples."""
        return [
            EngineSpread(found.output, self.between, found.max_abs, found.max_rel or 0.0)
            for found in judge(self.first, self.second, _EXACT, ignored=ignored).outputs
            if found.max_abs is not None
        ]

    def against(
        self,
        limit: Tolerance,
        overrides: Mapping[str, Tolerance],
        ignored: frozenset[str] = frozenset(),
        scaled: Collection[str] = (),
    ) -> list[OutputCheck]:
        """Hold one run against the other under a limit, as a pass would be held.

        Outputs without a limit, integers for one, are left out. ``scaled`` outputs are
        measured against their largest element.
        """
        promise = Promise(limit, overrides=overrides, low=frozenset(scaled))
        found = judge(self.first, self.second, promise, ignored=ignored).outputs
        return [output for output in found if output.share is not None]

    def limit_of(self, found: OutputCheck, factor: float) -> Tolerance:
        """Return a limit above the noise, but at most one under which a fault is seen.

        ``found`` is the output under its default limit; ``factor`` how many times that the
        noise asks for.
        """
        values = [sample.get(found.output) for sample in self.first]
        floats = [np.abs(widen(v)) for v in values if isinstance(v, np.ndarray)]
        largest = (np.max(v, initial=0.0, where=np.isfinite(v)) for v in floats)
        size = max(map(float, largest), default=np.inf)
        if found.rtol:
            factor = min(factor, max(LARGEST_NOISE_LIMIT / found.rtol, _COARSE))
        atol = max(min(found.atol * factor, LARGEST_NOISE_LIMIT * size), found.atol)
        return Tolerance(found.rtol * factor, atol)

    def score(self, ignored: frozenset[str] = frozenset()) -> float:
        """Return the spread as one number: see :func:`onnx_passes.verify.judge.score`."""
        return score(self.first, self.second, ignored)


LEVELS: tuple[Optimization, ...] = ("none", "all")
"""The optimizations between which an engine's own spread is asked for."""
_UNUSUAL = (LARGE_FLOATS, RANDOM_VALUES)
_MOVES = 8
"""Runs of the original with other last places of its weights and inputs."""
_UNITS = 4
"""Units in the last place by which these move: sums round more often than a weight."""
_GROWS = 2.0
"""How much farther the last of these runs may move an output than the first."""


@dataclass(frozen=True)
class Drift:
    """How an output of one sample differs: both sides, and what a limit leaves to explain.

    ``beyond`` is by how much each element exceeds its limit, or 1 for other integers.
    """

    old: Array
    new: Array
    beyond: Array

    @classmethod
    def of(cls, output: OutputCheck, old: Data | None, new: Data | None) -> Drift | None:
        """Return how two values differ; None where no runs explain it."""
        if not isinstance(old, np.ndarray) or not isinstance(new, np.ndarray):
            return None
        if old.shape != new.shape or old.dtype != new.dtype:
            return None
        if (kind := kind_of(old.dtype)) in ("int", "bool"):
            return cls(old, new, (old != new).astype(np.float64))
        if kind != "float":
            return None
        if not np.array_equal(finite := np.isfinite(old), np.isfinite(new)):
            return None
        before, after = (np.where(finite, side, 0).astype(np.float64) for side in (old, new))
        limit = (output.atol or 0.0) + (output.rtol or 0.0) * np.abs(before)
        return cls(before, after, np.maximum(np.abs(after - before) - limit, 0.0))

    @property
    def count(self) -> int:
        """The number of elements beyond their limit."""
        return int(np.count_nonzero(self.beyond))

    def spread(self, runs: Sequence[Data | None]) -> Array | None:
        """Return how far each element moves from the first run.

        Runs in which others are finite say nothing: the 1 of a mask, times the least float,
        overflows where it moves. None of integers, and where no run is left.
        """
        first, *rest = map(np.asarray, runs)
        if kind_of(first.dtype) != "float":
            return None
        finite = np.isfinite(first)
        right = np.where(finite, first, 0).astype(np.float64)
        others = [
            np.where(finite, other, 0).astype(np.float64)
            for other in rest
            if other.shape == first.shape and np.array_equal(np.isfinite(other), finite)
        ]
        return np.max([np.abs(a - right) for a in others], axis=0) if others else None

    def is_covered(self, runs: Sequence[Data | None]) -> bool:
        """Whether each element moves as far, and all by so little that it can be judged.

        After the last run they may move by any distance.
        """
        spread = self.spread(runs)
        if spread is None or (spread < self.beyond).any():
            return False
        return len(runs) > _MOVES or _GROWS * float(spread.max()) <= _UNITS * self._size

    def is_step(self, runs: Sequence[Data | None]) -> bool:
        """Whether an element moves as far, or each is what it was in some run."""
        spread = self.spread(runs)
        if spread is not None:
            return bool(np.abs(self.new - self.old).max() <= spread.max())
        same = [a for a in map(np.asarray, runs) if a.shape == self.new.shape]
        return bool(np.logical_or.reduce([self.new == a for a in same]).all())

    def is_small(self, spread: Array) -> bool:
        """Whether neither the difference nor what moves could hide a fault."""
        error = float(np.abs(self.new - self.old).max())
        return error <= self._size and float(spread.max()) <= _UNITS * self._size

    @property
    def _size(self) -> float:
        return LARGEST_NOISE_LIMIT * float(np.abs(self.old).max(initial=0.0))


@dataclass
class Noise:
    """How far runs of the original are apart: twice on an engine, and on its other levels.

    Nothing is run until something is about to be blamed: then one sample runs again, and the
    original on the other levels that the pipeline has.
    """

    baseline: Baseline
    _again: dict[int, tuple[Sequence[Outputs], list[Outputs]]] = field(default_factory=dict)
    _moved: list[tuple[Engine | None, Feeds, list[Outputs]]] = field(default_factory=list)

    def of(self, bench: EngineBaseline) -> list[OriginalRuns]:
        """Return the runs on an engine, and those of it with other optimizations."""
        if not self.baseline.samples:
            return []
        self.baseline.ready(bench.when, "end")
        self._repeat(bench)
        return list(self._runs(bench))

    def known(self, bench: EngineBaseline) -> list[OriginalRuns]:
        """Return what is known of an engine without running anything."""
        return list(self._runs(bench)) if self.baseline.samples and bench.ran else []

    def every(self, *levels: Optimization) -> Iterator[OriginalRuns]:
        """Yield the spread of the first engine, over levels that are run for it as well."""
        bench = self.baseline.benches[0]
        yield from self.of(bench)
        for level in levels:
            if isinstance(bench.engine, OnnxRuntimeEngine):
                engine = replace(bench.engine, optimization=level)
                outputs = EngineBaseline(engine, "each").run(
                    self.baseline.model, self.baseline.samples
                )
                between = _between(bench.engine, engine)
                yield OriginalRuns(bench.engine.name, between, bench.original, outputs)

    def settle(
        self,
        check: Check,
        bench: EngineBaseline,
        produced: Sequence[Outputs],
        vouched: str,
    ) -> Check | None:
        """Return a failed check as passed where rounding moves the original as far.

        Weights and inputs of the original move by a few units in the last place. If the
        models agree elsewhere (``vouched`` says where), a float may differ by as much as that
        moves it.
        What moves by more than :data:`LARGEST_NOISE_LIMIT` is not judged. In a model that
        rounds to steps, a float may differ by as much as any moves, and an integer be what it
        is in some run. Adversarial inputs decide nothing there if the models agree elsewhere.
        Returns None if an output differs otherwise.
        """
        steps = makes_any_steps(self.baseline.model)
        if not (vouched or steps):
            return None
        found = {output.output: output for output in check.outputs}
        told = []
        for name, output in found.items():
            if not output.passed:
                now = self._settled(output, bench, produced, vouched, steps=steps)
                if now is None:
                    return None
                found[name] = now
                told.append(f"{name} {now.reason}")
        judged = all(output.passed for output in found.values())
        return replace(
            check,
            verdict=Verdict.PASSED if judged else Verdict.NOT_VERIFIED,
            reason="; ".join(told[:3]),
            sample=None,
            outputs=tuple(found.values()),
            budget=(),
        )

    def _settled(
        self,
        output: OutputCheck,
        bench: EngineBaseline,
        produced: Sequence[Outputs],
        vouched: str,
        *,
        steps: bool,
    ) -> OutputCheck | None:
        most, undecided, judged = 0.0, 0, True
        for place, sides in enumerate(zip(bench.original, produced, strict=True)):
            drift = Drift.of(output, *(side.get(output.output) for side in sides))
            if drift is None:
                return None
            if not drift.count:
                continue
            for runs in self._moved_runs(bench, place, shared=not steps):
                moved = [run.get(output.output) for run in runs]
                if vouched and drift.is_covered(moved):
                    break
                if steps and drift.is_step(moved):
                    undecided += drift.count
                    break
            else:
                feeds = self.baseline.samples[place]
                asked = isinstance(feeds, AdversarialFeeds) and feeds.asked
                if not (vouched and steps and asked):
                    return None
                undecided += drift.count  # special values lie on other steps than moved ones
            if (spread := drift.spread(moved)) is not None:
                most = max(most, float(spread.max()))
                judged &= bool(steps or drift.is_small(spread))
        moves = f"moves by up to {bound(most)} where weights and inputs move in the last place"
        if undecided:
            elements = are(undecided, "element")
            why = f"{elements} undecided: the model rounds to steps, and {moves}"
        else:
            size = bound(output.max_abs or 0.0)
            why = f"differs by up to {size}, {vouched}, and the original {moves}"
        return replace(output, passed=judged, reason=why, mismatched=0)

    def _moved_runs(
        self, bench: EngineBaseline, place: int, *, shared: bool
    ) -> Iterator[list[Outputs]]:
        """Yield ever more runs of a sample, the original first.

        If they are ``shared``, those of the first engine that was asked answer for all: it is
        the model that amplifies.
        """
        feeds, model = self.baseline.samples[place], self.baseline.model
        engine = None if shared else bench.engine
        known = (r for e, f, r in self._moved if e == engine and f is feeds)
        if (runs := next(known, None)) is None:
            self._moved.append((engine, feeds, runs := [bench.original[place]]))
        while len(runs) <= _MOVES:
            if len(runs) > 1:
                yield runs
            for seed in (len(runs) - 1, len(runs)):  # one way, and the other
                moved = move_inputs(model, feeds, seed, _UNITS)
                runs += bench.run_anew(move_weights(model, seed, _UNITS), [moved])
        yield runs

    def spreads(self, bench: EngineBaseline) -> list[EngineSpread]:
        """Return what is known of an engine's spread."""
        runs = self.known(bench)
        return [spread for one in runs for spread in one.spread(self.baseline.unstable)]

    def _repeat(self, bench: EngineBaseline) -> None:
        # Samples that were left out, or made anew, need runs of their own.
        if (known := self._again.get(id(bench))) is None or known[0] is not bench.original:
            # One sample shows whether an engine repeats itself, and costs the least.
            again = bench.run_anew(self.baseline.model, self.baseline.samples[:1])
            self._again[id(bench)] = (bench.original, again)

    def _runs(self, bench: EngineBaseline) -> Iterator[OriginalRuns]:
        engine, first = bench.engine, bench.original
        measured, again = self._again.get(id(bench), (None, []))
        if measured is first:
            yield OriginalRuns(engine.name, "two runs of it", first[: len(again)], again)
        benches = self.baseline.benches
        for other in benches:
            same = other.ran and len(other.original) == len(first)
            if other is not bench and same and _other_level(engine, other.engine):
                # Both engines get the same report of the two.
                one, two = sorted((bench, other), key=lambda b: b.key)
                between = _between(one.engine, two.engine)
                usual = [self._usual(bench.original) for bench in (one, two)]
                yield OriginalRuns(engine.name, between, *usual)

    def _usual(self, outputs: Sequence[Outputs]) -> list[Outputs]:
        """Leave out samples on which no digit may be left: they say nothing of the others."""
        rows = zip(self.baseline.samples, outputs, strict=True)
        return [
            found
            for feeds, found in rows
            if not (isinstance(feeds, AdversarialFeeds) and feeds.kind in _UNUSUAL)
        ]


def _other_level(one: Engine, other: Engine) -> bool:
    return (
        isinstance(one, OnnxRuntimeEngine)
        and isinstance(other, OnnxRuntimeEngine)
        and replace(one, optimization=other.optimization) == other
    )


def _between(one: Engine, other: Engine) -> str:
    return f"{one.name} and {other.name}"
