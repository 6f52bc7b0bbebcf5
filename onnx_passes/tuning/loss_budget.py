"""What a model may lose, and the samples on which the loss is measured."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import onnx_ir as ir

from onnx_passes.arrays import Array
from onnx_passes.contracts import metrics
from onnx_passes.contracts.scores import kind_of, widen
from onnx_passes.data.demand import Interval, clopper_pearson
from onnx_passes.errors import ConfigError, EngineError
from onnx_passes.runtime.engine_base import Engine, Feeds, Outputs
from onnx_passes.runtime.ort import rounding_engine


@dataclass(frozen=True)
class FlipLimit:
    """How often the largest score may be another one.

    `most` is a share of the samples. The share of all data is below it with `confidence`. If
    `looks` models are judged on the same samples, each bound needs more confidence, so that
    all hold together. Scores are along the last axis of `output`, by default the first output.
    """

    most: float
    confidence: float = 0.95
    output: str | None = None
    looks: int = 1

    def count(
        self, produced: Sequence[Outputs], expected: Sequence[Outputs]
    ) -> tuple[int, int]:
        """Return the number of decisions that differ, and of all, in arrays [..., classes]."""
        flipped = total = 0
        for new, old in zip(produced, expected, strict=True):
            name = self.output or next(iter(old))
            ours, theirs = (np.asarray(side[name]) for side in (new, old))
            differ = ours.argmax(-1) != theirs.argmax(-1)
            flipped, total = flipped + int(differ.sum()), total + int(differ.size)
        return flipped, total

    def bound(self, flipped: int, total: int) -> Interval:
        """Return the share with its exact bounds."""
        return clopper_pearson(flipped, total, 1 - (1 - self.confidence) / self.looks)


@dataclass(frozen=True)
class BudgetUse:
    """What a model uses of the budget.

    `shares` are by metric and "flips": 0 for the original, 1 for the limit. `broken` names an
    output with NaN or infinities that the original does not have. `deployed` is what the
    engine gives where another one showed what values below float32 are rounded to.
    """

    shares: Mapping[str, float]
    values: Mapping[str, float]
    flips: Interval | None = None
    broken: str = ""
    deployed: BudgetUse | None = None

    @property
    def total(self) -> float:
        """The largest share; infinite where a metric or an element is not a number."""
        return math.inf if self.broken else max(self.shares.values(), default=0.0)

    @property
    def holds(self) -> bool:
        """Whether the budget is kept, on the engine that is deployed as well."""
        return self.total <= 1.0 and (self.deployed is None or self.deployed.holds)

    @property
    def problem(self) -> str:
        """Why the budget is not kept, in one clause; empty if it is."""
        if self.holds:
            return ""
        if self.broken:
            return f"{self.broken} has NaN or infinity where the original has not"
        if self.total <= 1.0 and self.deployed is not None:
            return f"{self.deployed.problem} on the engine as it is deployed"
        worst = max(self.shares, key=self.shares.__getitem__)
        said = f"{worst} {self.values[worst]:.6g}" if worst in self.values else worst
        return f"uses {self.total:.3g} of the budget ({said})"


@dataclass
class LossBudget:
    """What a model may lose against the original on samples; no `flips` allows any number."""

    limits: Mapping[str, tuple[float, float]]
    flips: FlipLimit | None = None
    labels: Sequence[Sequence[Array]] = ()
    _start: dict[str, float] = field(default_factory=dict)

    def begin(self, original: Sequence[Outputs]) -> None:
        """Measure the original; ConfigError if it does not keep the budget."""
        self._start = self._measure(original, original, sure=True)
        for name, value in self._start.items():
            low, high = self.limits[name]
            if not low <= value <= high:
                raise ConfigError(
                    f"the original itself has {name} {value:.6g}, not in [{low:g}, {high:g}]",
                    help=f"equal outputs have {name} inf: allow .inf"
                    if value == math.inf
                    else "correct the budget, or the data",
                )
        flips = self.flips
        decisions = flips.count(original, original)[1] if flips else 0
        if flips and decisions and flips.bound(0, decisions).high > flips.most:
            needed = math.log((1 - flips.confidence) / flips.looks) / math.log(1 - flips.most)
            raise ConfigError(
                f"{decisions} decisions cannot show that at most {flips.most:.2%} flip, "
                f"with a confidence of {flips.confidence:.0%}",
                help=f"give data with {math.ceil(needed)} decisions, or allow more flips",
            )

    def measure(
        self, produced: Sequence[Outputs], expected: Sequence[Outputs], *, sure: bool = True
    ) -> BudgetUse:
        """Return what outputs use of the budget; if `sure`, flips by their upper bound."""
        values = self._measure(produced, expected, sure)
        shares = {n: self.share(n, value) for n, value in values.items()}
        found = None
        if self.flips is not None:
            flipped, total = self.flips.count(produced, expected)
            if total:
                found = self.flips.bound(flipped, total)
                spent = found.high if sure else found.value
                shares["flips"] = spent / self.flips.most if self.flips.most else math.inf
                if not self.flips.most:
                    shares["flips"] = math.inf if spent else 0.0
        return BudgetUse(shares, values, found, find_broken(produced, expected))

    def _measure(
        self, produced: Sequence[Outputs], expected: Sequence[Outputs], sure: bool
    ) -> dict[str, float]:
        ours, theirs = (
            [[np.asarray(v) for v in sample.values()] for sample in side]
            for side in (produced, expected)
        )
        found = {}
        for name in self.limits:
            metric = metrics.lookup(name)
            # On other samples than the user's there are no labels.
            given = self.labels if sure else ()
            against = metric.choose_expected(theirs, given)
            if against:
                found[name] = metric.measure(ours, against)
        return found

    def share(self, name: str, value: float) -> float:
        """Return what the value of a metric uses of the budget."""
        low, high = self.limits[name]
        start = self._start.get(name, value)
        if math.isnan(value):
            return math.inf
        if math.isinf(start):  # decibels: noise adds up, its logarithm does not
            limit = low if start > 0 else high
            sign = 1 if start > 0 else -1
            if math.isinf(limit):
                return 0.0
            return 0.0 if value == start else 10.0 ** (sign * (limit - value) / 10)
        up = (value - start) / (high - start) if high > start else math.inf
        down = (start - value) / (start - low) if start > low else math.inf
        if value > start:
            return 0.0 if math.isinf(high) else up
        return 0.0 if value == start or math.isinf(low) else down


def find_broken(produced: Sequence[Outputs], expected: Sequence[Outputs]) -> str:
    """Return the first output with NaN or infinities that are not those of the original."""
    for ours, theirs in zip(produced, expected, strict=True):
        for name, value in theirs.items():
            new, old = np.asarray(ours[name]), np.asarray(value)
            if kind_of(old.dtype) != "float" or new.shape != old.shape:
                continue
            new, old = widen(new), widen(old)
            odd = ~(np.isfinite(new) & np.isfinite(old))
            if odd.any() and not np.array_equal(new[odd], old[odd], equal_nan=True):
                return name
    return ""


class RejectedError(Exception):
    """A model did not run on all samples. The text says why, in one clause."""


class SamplesInMemory:
    """Samples that are held in memory, as are the outputs of the original."""

    def __init__(
        self, model: ir.Model, engine: Engine, feeds: Sequence[Feeds], budget: LossBudget
    ) -> None:
        self._model, self._engine, self._feeds = model, engine, feeds
        self._budget = budget
        self.original, self.last = list[Outputs](), list[Outputs]()
        """Outputs of the original and of the last model, by sample."""

    def begin(self) -> BudgetUse:
        """Measure the original.

        ConfigError if it does not keep the budget, EngineError if the engine does not run it.
        """
        self.original = self._run(self._model, self._engine)
        self._budget.begin(self.original)
        return self._budget.measure(self.original, self.original)

    def measure(self, model: ir.Model) -> BudgetUse:
        """Measure a model against the original; RejectedError if it does not run."""
        judge = rounding_engine(self._engine, model)
        try:
            self.last = self._run(model, judge)
            spent = self._budget.measure(self.last, self.original)
            if judge is self._engine or not spent.holds:
                return spent
            deployed = self._run(model, self._engine)
        except EngineError as error:
            raise RejectedError(error.message) from error
        return replace(spent, deployed=self._budget.measure(deployed, self.original))

    def _run(self, model: ir.Model, engine: Engine) -> list[Outputs]:
        with engine.prepare(model) as session:
            return [session.run(feed) for feed in self._feeds]
