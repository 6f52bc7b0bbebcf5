"""The engines' own spread, measured on the original before a rewrite is blamed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from onnx_passes.arrays import Array
from onnx_passes.contracts.scores import kind_of
from onnx_passes.model.ort_sessions import Optimization
from onnx_passes.pipeline.baseline import Baseline
from onnx_passes.pipeline.engine_side import Bench
from onnx_passes.report.text import bound
from onnx_passes.runtime.engine_base import Data, Engine, Feeds, Outputs
from onnx_passes.runtime.inputs import DRAWN, LARGE_FLOATS, AdversarialFeeds
from onnx_passes.runtime.ort import OnnxRuntimeEngine
from onnx_passes.verify.noise import SIGHT, OriginalRuns
from onnx_passes.verify.result import Check, EngineSpread, OutputCheck, Verdict
from onnx_passes.verify.sensitivity import move_weights

LEVELS: tuple[Optimization, ...] = ("none", "all")
"""The optimizations between which an engine's own spread is asked for."""
_UNUSUAL = (LARGE_FLOATS, DRAWN)
_MOVES = 8
"""Runs of the original with other last places of its weights."""
_SPREADS = 4.0
"""How many times what these runs do to an element it may drift."""


@dataclass(frozen=True)
class Moved:
    """What moved weights do to one output.

    Attributes:
        most: Largest difference.
        runs: What the output is, by sample and run; empty for floats.
    """

    most: float = 0.0
    runs: tuple[tuple[Data, ...], ...] = ()

    def has(self, sample: int, value: Data) -> bool:
        """Whether each element is what it was in some run.

        Args:
            sample: Number of the sample.
            value: The value, of any shape and type.
        """
        new, known = np.asarray(value), [np.asarray(run) for run in self.runs[sample]]
        same = [new == run for run in known if run.shape == new.shape]
        return bool(same) and bool(np.logical_or.reduce(same).all())


@dataclass
class Noise:
    """How far runs of the original are apart: twice on an engine, and on its other levels.

    A second run of one sample is made the first time that an engine is asked about, before
    something is blamed; other levels count where the pipeline runs them anyway.

    Attributes:
        baseline: The original on every engine.
    """

    baseline: Baseline
    _again: dict[int, tuple[Sequence[Outputs], list[Outputs]]] = field(default_factory=dict)
    _asked: set[int] = field(default_factory=set)
    _moved: dict[int, tuple[Sequence[Outputs], dict[str, Moved]]] = field(default_factory=dict)
    _spreads: list[tuple[Feeds, dict[str, Array | None]]] = field(default_factory=list)

    def of(self, bench: Bench, *, again: bool = True) -> list[OriginalRuns]:
        """Return the runs on an engine, and those of it with other optimizations.

        Args:
            bench: The engine.
            again: Whether the original is run a second time, if that was not done.

        Raises:
            EngineError: The engine cannot run the original.
        """
        if not self.baseline.samples:
            return []
        # The other levels are asked later anyway, once a pass has changed what is computed.
        self.baseline.ready(bench.when, "end")
        self._asked.add(id(bench))
        if again:
            self._repeat(bench)
        return list(self._runs(bench))

    def asked(self, bench: Bench) -> bool:
        """Whether passes under tolerance were held to limits above the noise of an engine."""
        return id(bench) in self._asked

    def known(self, bench: Bench) -> list[OriginalRuns]:
        """Return what is known of an engine without running anything."""
        return list(self._runs(bench)) if self.baseline.samples and bench.ran else []

    def every(self, *levels: Optimization) -> Iterator[OriginalRuns]:
        """Yield the spread of the first engine, over levels that are run for it as well."""
        bench = self.baseline.benches[0]
        yield from self.of(bench)
        for level in levels:
            if isinstance(bench.engine, OnnxRuntimeEngine):
                engine = replace(bench.engine, optimization=level)
                outputs = Bench(engine, "each").run(self.baseline.model, self.baseline.samples)
                between = _between(bench.engine, engine)
                yield OriginalRuns(bench.engine.name, between, bench.original, outputs)

    def of_rounding(self, bench: Bench) -> dict[str, Moved]:
        """Return how outputs move if weights move by one unit in the last place.

        Asked for only where something is about to fail.

        Raises:
            EngineError: The engine cannot run the original.
        """
        known = self._moved.get(id(bench))
        if known is None or known[0] is not bench.original:
            ran = [list(bench.original), *self._moved_runs(bench, self.baseline.samples)]
            most: dict[str, float] = {}
            for outputs in ran[1:]:
                runs = OriginalRuns(
                    bench.engine.name, "moved weights", bench.original, outputs
                )
                for one in runs.spread(self.baseline.unstable):
                    most[one.output] = max(most.get(one.output, 0.0), one.max_abs)
            found = {name: Moved(size, _by_sample(name, ran)) for name, size in most.items()}
            known = self._moved[id(bench)] = bench.original, found
        return known[1]

    def settle_drift(
        self, check: Check, bench: Bench, produced: Sequence[Outputs]
    ) -> Check | None:
        """Return a failed check as passed where outputs drift as rounding moves the original.

        What drifts by more than :data:`SIGHT` is not judged.

        Args:
            check: The check.
            bench: The engine.
            produced: What the result gives there, by sample.

        Returns:
            None where an output drifts farther.

        Raises:
            EngineError: The engine cannot run the original.
        """
        found = {output.output: output for output in check.outputs}
        told = []
        for name in [name for name, output in found.items() if not output.passed]:
            now = self._drift(found[name], bench, produced)
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

    def _drift(
        self, output: OutputCheck, bench: Bench, produced: Sequence[Outputs]
    ) -> OutputCheck | None:
        most, judged = 0.0, True
        for place, sides in enumerate(zip(bench.original, produced, strict=True)):
            one, other = (side.get(output.output) for side in sides)
            if not isinstance(one, np.ndarray) or not isinstance(other, np.ndarray):
                return None
            right, wrong = one.astype(np.float64), other.astype(np.float64)
            finite = np.isfinite(right)
            if (
                kind_of(one.dtype) != "float"
                or right.shape != wrong.shape
                or not np.array_equal(finite, np.isfinite(wrong))
            ):
                return None
            right, error = right[finite], np.abs(wrong[finite] - right[finite])
            limit = (output.atol or 0.0) + (output.rtol or 0.0) * np.abs(right)
            if (error <= limit).all():
                continue
            spread = self._spread_of(bench, place).get(output.output)
            if spread is None:
                judged = False
                continue
            if (error > limit + _SPREADS * spread[finite]).any():
                return None
            size = SIGHT * float(np.abs(right).max())
            judged &= bool(error.max() <= size and spread.max() <= size)
            most = max(most, float(spread.max()))
        why = (
            f"differs by up to {bound(output.max_abs or 0.0)}, each change agrees by itself, "
            f"and the original moves by up to {bound(most)} where its weights move by one "
            "unit in the last place"
        )
        return replace(output, passed=judged, reason=why)

    def _spread_of(self, bench: Bench, place: int) -> dict[str, Array | None]:
        """Return how far moved weights move each element of the outputs of a sample.

        The first engine that is asked answers for all: it is the model that amplifies.
        """
        feeds = self.baseline.samples[place]
        known = next((spread for one, spread in self._spreads if one is feeds), None)
        if known is None:
            runs = [[bench.original[place]], *self._moved_runs(bench, [feeds])]
            known = {name: _spread(name, runs) for name in runs[0][0]}
            self._spreads.append((feeds, known))
        return known

    def _moved_runs(self, bench: Bench, samples: Sequence[Feeds]) -> list[list[Outputs]]:
        moved = (move_weights(self.baseline.model, seed) for seed in range(_MOVES))
        return [bench.run_anew(model, samples) for model in moved]

    def spreads(self, bench: Bench) -> list[EngineSpread]:
        """Return what is known of an engine's spread."""
        runs = self.known(bench)
        return [spread for one in runs for spread in one.spread(self.baseline.unstable)]

    def _repeat(self, bench: Bench) -> None:
        # Samples that were left out, or made anew, need runs of their own.
        if (known := self._again.get(id(bench))) is None or known[0] is not bench.original:
            # One sample shows whether an engine repeats itself, and costs the least.
            again = bench.run_anew(self.baseline.model, self.baseline.samples[:1])
            self._again[id(bench)] = (bench.original, again)

    def _runs(self, bench: Bench) -> Iterator[OriginalRuns]:
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


def _by_sample(name: str, runs: Sequence[Sequence[Outputs]]) -> tuple[tuple[Data, ...], ...]:
    """Return what an output of integers or booleans was, by sample and run."""
    rows = zip(*runs, strict=True)
    found = tuple(tuple(run[name] for run in row if name in run) for row in rows)
    exact = all(
        isinstance(value, np.ndarray) and kind_of(value.dtype) in ("int", "bool")
        for row in found
        for value in row
    )
    return found if exact else ()


def _spread(name: str, runs: Sequence[Sequence[Outputs]]) -> Array | None:
    """Return the largest difference of each element from the first run, all of one sample.

    None where shapes differ, or which elements are finite.
    """
    first, *rest = (np.asarray(run[0].get(name)) for run in runs)
    finite = np.isfinite(first) if kind_of(first.dtype) == "float" else None
    if finite is None or not all(
        a.shape == first.shape and np.array_equal(np.isfinite(a), finite) for a in rest
    ):
        return None
    right = np.where(finite, first, 0).astype(np.float64)
    others = (np.where(finite, other, 0).astype(np.float64) for other in rest)
    return np.asarray(np.max([np.abs(other - right) for other in others], axis=0))
