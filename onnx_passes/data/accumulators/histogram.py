"""Quantiles in constant memory, by bins that are the same for each data set."""

from __future__ import annotations

import math
from typing import Self

import numpy as np

from onnx_passes.arrays import Array
from onnx_passes.plain import PlainDict, PlainMapping

STEPS = 8
"""Bins between a power of two and the next, of equal width: a quantile is within 1/8."""

_LOWEST = -1074
_BINS = (1024 - _LOWEST + 1) * STEPS


class LogHistogram:
    """Counts numbers >= 0 by magnitude: zeros, then eight bins for each power of two.

    The bin of a number follows from its bits, so that it is the same on each machine.
    """

    def __init__(self) -> None:
        self.zeros = 0
        self.not_finite = 0
        self.counts: dict[int, int] = {}

    @property
    def count(self) -> int:
        """How many numbers were counted, those that are not finite left out."""
        return self.zeros + sum(self.counts.values())

    def add(self, values: Array) -> None:
        """Count numbers.

        Args:
            values: float64 >= 0 of any shape; NaN and infinities are counted separately.
        """
        flat = values.reshape(-1)
        finite = flat[np.isfinite(flat)]
        self.not_finite += flat.size - finite.size
        positive = finite[finite > 0]
        self.zeros += finite.size - positive.size
        if not positive.size:
            return
        mantissa, exponent = np.frexp(positive)
        step = ((mantissa - 0.5) * (2 * STEPS)).astype(np.int64)
        bins, counts = np.unique(
            (exponent.astype(np.int64) - _LOWEST) * STEPS + step, return_counts=True
        )
        for place, count in zip(bins.tolist(), counts.tolist(), strict=True):
            self.counts[place] = self.counts.get(place, 0) + count

    def merge(self, other: Self) -> None:
        """Add what another one counted."""
        self.zeros += other.zeros
        self.not_finite += other.not_finite
        for place, count in other.counts.items():
            self.counts[place] = self.counts.get(place, 0) + count

    def quantile(self, share: float) -> float:
        """Return the upper edge of the bin that holds a quantile; NaN for no numbers."""
        total = self.count
        if not total:
            return math.nan
        rank = math.ceil(share * total)
        seen = self.zeros
        if rank <= seen:
            return 0.0
        for place in sorted(self.counts):
            seen += self.counts[place]
            if rank <= seen:
                return upper_edge(place)
        return upper_edge(max(self.counts))

    def to_json(self) -> PlainDict:
        """Return the state as JSON has it."""
        bins = {str(place): self.counts[place] for place in sorted(self.counts)}
        return {"zeros": self.zeros, "not_finite": self.not_finite, "bins": bins}

    def load(self, state: PlainMapping) -> None:
        """Replace the state by one of :meth:`to_json`."""
        self.zeros, self.not_finite = state["zeros"], state["not_finite"]
        self.counts = {int(place): count for place, count in state["bins"].items()}


def upper_edge(place: int) -> float:
    """Return the number above all of a bin."""
    exponent, step = divmod(place, STEPS)
    try:
        return math.ldexp(0.5 + (step + 1) / (2 * STEPS), exponent + _LOWEST)
    except OverflowError:
        return math.inf
