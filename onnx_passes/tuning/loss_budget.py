"""What a model may lose, as shares of a budget that is used up at 1."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from onnx_passes.arrays import Array
from onnx_passes.contracts import metrics
from onnx_passes.data.confidence import Interval, clopper_pearson
from onnx_passes.errors import ConfigError
from onnx_passes.runtime.engine_base import Outputs


@dataclass(frozen=True)
class Flips:
    """How often the largest score may be another one.

    Attributes:
        most: Share of the samples.
        confidence: With which the share of all data, not of the samples alone, is below.
        looks: How many models are judged on the samples before one is chosen: each bound has
            to hold with more confidence, so that all hold together.
        output: The output with scores along the last axis; None for the first.
    """

    most: float
    confidence: float = 0.95
    output: str | None = None
    looks: int = 1

    def count(
        self, produced: Sequence[Outputs], expected: Sequence[Outputs]
    ) -> tuple[int, int]:
        """Return the number of decisions that differ, and of all.

        Args:
            produced: Outputs of the candidate, one mapping of arrays [..., classes] a sample.
            expected: Outputs of the original, of the same shapes.
        """
        flipped = total = 0
        for new, old in zip(produced, expected, strict=True):
            name = self.output or next(iter(old))
            ours, theirs = (np.asarray(side[name]) for side in (new, old))
            differ = ours.argmax(-1) != theirs.argmax(-1)
            flipped, total = flipped + int(differ.sum()), total + int(differ.size)
        return flipped, total

    def bound(self, flipped: int, total: int) -> Interval:
        """Return the share with its exact bounds.

        Args:
            flipped: How many decisions differ.
            total: How many there are.
        """
        return clopper_pearson(flipped, total, 1 - (1 - self.confidence) / self.looks)


@dataclass(frozen=True)
class Spent:
    """What a model uses of the budget.

    Attributes:
        shares: By metric, and "flips": 0 for what the original has, 1 for the limit.
        values: The metrics.
        flips: The share of flips with its bounds; None where they are not limited.
    """

    shares: Mapping[str, float]
    values: Mapping[str, float]
    flips: Interval | None = None

    @property
    def total(self) -> float:
        """The largest share; infinite where a metric is not a number."""
        return max(self.shares.values(), default=0.0)

    @property
    def holds(self) -> bool:
        """Whether the budget is kept."""
        return self.total <= 1.0


@dataclass
class LossBudget:
    """What a model may lose against the original on samples.

    Attributes:
        limits: Range of each metric, by name.
        flips: What may flip; None for anything.
        labels: Per sample, what the user expects; empty for nothing.
    """

    limits: Mapping[str, tuple[float, float]]
    flips: Flips | None = None
    labels: Sequence[Sequence[Array]] = ()
    _start: dict[str, float] = field(default_factory=dict)

    def begin(self, original: Sequence[Outputs]) -> None:
        """Measure the original, which has to keep the budget.

        Raises:
            ConfigError: It does not, so that nothing can.
        """
        values = self._measure(original, original, sure=True)
        flips = self.flips
        self.begin_with(values, flips.count(original, original)[1] if flips else 0)

    def begin_with(self, values: Mapping[str, float], decisions: int) -> None:
        """Take what was measured of the original.

        Args:
            values: Its metrics.
            decisions: Number of decisions that may flip.

        Raises:
            ConfigError: It does not keep the budget.
        """
        self._start = dict(values)
        for name, value in self._start.items():
            low, high = self.limits[name]
            if not low <= value <= high:
                raise ConfigError(
                    f"the original itself has {name} {value:.6g}, not in [{low:g}, {high:g}]",
                    help="correct the budget, or the data",
                )
        flips = self.flips
        if flips and decisions and flips.bound(0, decisions).high > flips.most:
            needed = math.log((1 - flips.confidence) / flips.looks) / math.log(1 - flips.most)
            raise ConfigError(
                f"{decisions} decisions cannot show that at most {flips.most:.2%} flip, "
                f"with a confidence of {flips.confidence:.0%}",
                help=f"give data with {math.ceil(needed)} decisions, or allow more flips",
            )

    def measure(
        self, produced: Sequence[Outputs], expected: Sequence[Outputs], *, sure: bool = True
    ) -> Spent:
        """Return what some outputs use of the budget.

        Args:
            produced: Outputs by sample.
            expected: Those of the original.
            sure: Whether flips count with their upper bound, and not as they are.
        """
        values = self._measure(produced, expected, sure)
        counted = self.flips.count(produced, expected) if self.flips else (0, 0)
        return self.spend(values, counted, sure=sure)

    def spend(
        self, values: Mapping[str, float], counted: tuple[int, int], *, sure: bool = True
    ) -> Spent:
        """Return what metrics and flips use of the budget.

        Args:
            values: The metrics.
            counted: Number of decisions that differ, and of all.
            sure: Whether flips count with their upper bound, and not as they are.
        """
        shares = {n: self.share(n, value) for n, value in values.items()}
        found = None
        if self.flips is not None:
            flipped, total = counted
            if total:
                found = self.flips.bound(flipped, total)
                spent = found.high if sure else found.value
                shares["flips"] = spent / self.flips.most if self.flips.most else math.inf
                if not self.flips.most:
                    shares["flips"] = math.inf if spent else 0.0
        return Spent(shares, values, found)

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
        """Return what the value of a metric uses of the budget.

        Args:
            name: The metric.
            value: Its value.
        """
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
