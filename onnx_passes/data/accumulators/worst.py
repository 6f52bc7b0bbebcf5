"""The samples that are worst, by a total order: the same ones however shards are grouped."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable
from typing import Self

import numpy as np

from onnx_passes.arrays import Array
from onnx_passes.data.accumulators.exact_sums import number, plain
from onnx_passes.plain import Plain

KEPT = 8


class WorstSamples:
    """The numbers of the samples with the largest badness; of equal ones the first.

    Args:
        kept: How many are kept.
    """

    def __init__(self, kept: int = KEPT) -> None:
        self._kept = kept
        self.samples: list[tuple[float, int]] = []

    def add(self, badness: Array, rows: Array) -> None:
        """Add samples.

        Args:
            badness: float64 [n]; NaN counts as infinite, 0 as not bad.
            rows: Numbers of the samples, int64 [n].
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
        """Add what another one kept."""
        self._add(other.samples)

    @property
    def worst(self) -> float:
        """The largest badness; 0 without any."""
        return self.samples[0][0] if self.samples else 0.0

    def to_json(self) -> list[Plain]:
        """Return pairs of badness and number."""
        return [[plain(badness), row] for badness, row in self.samples]

    def load(self, state: Iterable[Plain]) -> None:
        """Replace the state by one of :meth:`to_json`."""
        self.samples = [(number(badness), int(row)) for badness, row in state]


def first_rows(rows: Array, chosen: Array) -> tuple[Array, Array]:
    """Return badness and numbers of samples that are chosen, for one that are all as bad.

    Args:
        rows: Numbers of samples, int64 of shape [samples].
        chosen: Which of them are chosen, booleans or places of that axis.
    """
    picked = rows[chosen]
    return np.full(len(picked), math.inf), picked
