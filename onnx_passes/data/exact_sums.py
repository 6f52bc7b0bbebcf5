"""Associative accumulators: exact sums, and the worst samples.

The order and the grouping of shards do not matter.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Self

import numpy as np

from onnx_passes.arrays import Array
from onnx_passes.plain import Plain, spelled


@dataclass(frozen=True)
class Block:
    """Results of some samples, of a reference and of a candidate.

    ``rows`` are numbers in the whole data set, int64 [n]. Outputs and labels are [n, ...].
    """

    rows: Array
    left: Mapping[str, Array]
    right: Mapping[str, Array]
    labels: Array | None = None


_SHIFT = 1074
"""Each float is a whole multiple of two to the power of minus this."""


class ExactSum:
    """A sum of floats as a whole number; at most 2,100 bits and some for the count.

    NaN and infinities are counted separately.
    """

    def __init__(self) -> None:
        self._units = 0
        self.not_finite = 0

    def add(self, value: float) -> None:
        if not math.isfinite(value):
            self.not_finite += 1
            return
        top, bottom = value.as_integer_ratio()
        self._units += top << (_SHIFT + 1 - bottom.bit_length())

    def merge(self, other: Self) -> None:
        self._units += other._units
        self.not_finite += other.not_finite

    @property
    def value(self) -> float:
        """The sum, rounded once; NaN where a term was not finite."""
        if self.not_finite:
            return math.nan
        try:
            return self._units / (1 << _SHIFT)  # division of whole numbers rounds correctly
        except OverflowError:
            return math.inf if self._units > 0 else -math.inf

    def to_json(self) -> list[int]:
        """Return mantissa, exponent, and the number of terms that were not finite."""
        zeros = (self._units & -self._units).bit_length() - 1 if self._units else 0
        return [self._units >> zeros, zeros - _SHIFT, self.not_finite]

    def load(self, state: Plain) -> None:
        mantissa, exponent, self.not_finite = state
        self._units = mantissa << (exponent + _SHIFT)


def number(value: Plain) -> float:
    """Read what :func:`spelled` returns."""
    return float(value)


KEPT = 8


class WorstSamples:
    """The numbers of the samples with the largest badness; of equal ones the first."""

    def __init__(self, kept: int = KEPT) -> None:
        self._kept = kept
        self.samples: list[tuple[float, int]] = []

    def add(self, badness: Array, rows: Array) -> None:
        """Add samples.

        ``badness`` is float64 [n]: NaN counts as infinite, 0 as not bad. ``rows`` are int64
        [n].
        """
        bad = np.where(np.isnan(badness), np.inf, badness)
        places = np.flatnonzero(bad > 0)
        if len(places) > self._kept:
            order = np.lexsort((rows[places], -bad[places]))
            places = places[order[: self._kept]]
        self._add((float(bad[p]), int(rows[p])) for p in places)

    def _add(self, samples: Iterable[tuple[float, int]]) -> None:
        every = {*self.samples, *samples}
        self.samples = heapq.nsmallest(self._kept, every, key=lambda s: (-s[0], s[1]))

    def merge(self, other: Self) -> None:
        self._add(other.samples)

    @property
    def worst(self) -> float:
        """The largest badness; 0 without any."""
        return self.samples[0][0] if self.samples else 0.0

    def to_json(self) -> list[Plain]:
        """Return pairs of badness and number."""
        return [[spelled(badness), row] for badness, row in self.samples]

    def load(self, state: Iterable[Plain]) -> None:
        self.samples = [(number(badness), int(row)) for badness, row in state]


def first_rows(rows: Array, chosen: Array) -> tuple[Array, Array]:
    """Return an infinite badness and the number of each chosen sample.

    ``chosen`` holds booleans, or places in ``rows``.
    """
    picked = rows[chosen]
    return np.full(len(picked), math.inf), picked
