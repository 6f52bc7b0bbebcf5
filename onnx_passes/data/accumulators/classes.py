"""Decisions of classifiers: accuracy, flips, confusion, and how two models agree."""

from __future__ import annotations

import math
from typing import Self

import numpy as np

from onnx_passes.arrays import Array
from onnx_passes.contracts.classification import kl_divergence, rank, rank_of
from onnx_passes.contracts.elements import widen
from onnx_passes.data.accumulators.exact_sums import ExactSum, plain
from onnx_passes.data.accumulators.worst import WorstSamples, first_rows
from onnx_passes.plain import PlainDict, PlainMapping

MOST_CLASSES = 100
"""Tables of classes by classes are kept up to here; counts for each class always."""

_PAIRED = ("both", "only_left", "only_right", "neither")


class Classes:
    """Adds up the decisions of a reference (left) and a candidate (right).

    Rows are what has one label: samples, or places of a sample. A row whose scores hold a NaN
    has no class, and is wrong.

    Args:
        top: The k of top-k accuracy, beside 1.
    """

    def __init__(self, top: tuple[int, ...] = (5,)) -> None:
        self._top = top
        self.rows = self.labelled = self.flips = 0
        self.classes = 0
        self.paired = dict.fromkeys(_PAIRED, 0)
        self.top = {f"{side}{k}": 0 for k in top for side in ("left", "right")}
        self.tables: dict[str, Array] = {}
        self.divergence = ExactSum()
        self.lost = WorstSamples()
        self.flipped = WorstSamples()

    def update(self, rows: Array, left: Array, right: Array, labels: Array | None) -> None:
        """Add samples.

        Args:
            rows: Their numbers, int64 [n].
            left: Scores of the reference: [n, ..., C], or [n, C, ...] where labels say so.
            right: Those of the candidate, of the same shape.
            labels: Class numbers [n, ...]; None without.

        Raises:
            ReferenceDataError: The labels do not fit the scores.
        """
        truth = None
        if labels is None:
            old_rows, new_rows = (widen(a).reshape(-1, a.shape[-1]) for a in (left, right))
        else:
            old_rows, truth = rank(left, labels)
            new_rows, _ = rank(right, labels)
        self._grow(old_rows.shape[1])
        old, new = _classes(old_rows), _classes(new_rows)
        owner = np.repeat(rows, len(old) // max(1, len(rows)))
        self.rows += len(old)
        changed = old != new
        self.flips += int(changed.sum())
        self.flipped.add(*first_rows(owner, changed))
        self._count("agreement", old, new)
        if left is not right and len(old):
            self.divergence.add(kl_divergence([new_rows], [old_rows]) * len(old))
        if truth is None:
            return
        self.labelled += len(old)
        was, is_ = old == truth, new == truth
        for name, chosen in zip(
            _PAIRED, (was & is_, was & ~is_, ~was & is_, ~was & ~is_), strict=True
        ):
            self.paired[name] += int(chosen.sum())
        self.lost.add(*first_rows(owner, was & ~is_))
        for side, scores in (("left", old_rows), ("right", new_rows)):
            for k in self._top:
                if k < scores.shape[1]:
                    self.top[f"{side}{k}"] += int((rank_of(scores, truth) < k).sum())
        self._count("left", truth, old)
        self._count("right", truth, new)

    def _grow(self, classes: int) -> None:
        """Make room for classes; rows and columns of tables are classes, then none."""
        if classes <= self.classes and self.tables:
            return
        size = (classes + 1) ** 2 if classes <= MOST_CLASSES else 3 * (classes + 1)
        old, self.classes = self.tables, classes
        self.tables = {n: np.zeros(size, np.int64) for n in ("agreement", "left", "right")}
        for name, table in old.items():
            self.tables[name][: len(table)] += table

    def _count(self, name: str, rows: Array, columns: Array) -> None:
        """Count pairs of classes: all of them, or for each class its row, column and hits."""
        width, table = self.classes + 1, self.tables[name]
        if self.classes <= MOST_CLASSES:
            table += np.bincount(rows * width + columns, minlength=width * width)
            return
        for place, values in enumerate((rows, columns, rows[rows == columns])):
            table[place * width : (place + 1) * width] += np.bincount(values, minlength=width)

    def merge(self, other: Self) -> None:
        """Add what another one added up.

        Raises:
            ValueError: It counted other classes.
        """
        if other.rows:
            if self.rows and self.classes != other.classes:
                raise ValueError(f"{other.classes} classes, and {self.classes} before")
            self._grow(other.classes)
            for name, table in other.tables.items():
                self.tables[name] += table
        self.rows += other.rows
        self.labelled += other.labelled
        self.flips += other.flips
        for name in self.paired:
            self.paired[name] += other.paired[name]
        for name in self.top:
            self.top[name] += other.top[name]
        self.divergence.merge(other.divergence)
        self.lost.merge(other.lost)
        self.flipped.merge(other.flipped)

    def to_json(self) -> PlainDict:
        """Return the state as JSON has it; tables as pairs of a place and a count."""
        return {
            "rows": self.rows,
            "labelled": self.labelled,
            "flips": self.flips,
            "classes": self.classes,
            "paired": dict(self.paired),
            "top": dict(self.top),
            "tables": {name: _sparse(table) for name, table in sorted(self.tables.items())},
            "divergence": self.divergence.to_json(),
            "lost": self.lost.to_json(),
            "flipped": self.flipped.to_json(),
        }

    def load(self, state: PlainMapping) -> None:
        """Replace the state by one of :meth:`to_json`."""
        self.rows, self.labelled, self.flips = (
            state[n] for n in ("rows", "labelled", "flips")
        )
        self.tables = {}
        self._grow(state["classes"])
        for name, pairs in state["tables"].items():
            if pairs:
                places, counts = zip(*pairs, strict=True)
                self.tables[name][list(places)] = counts
        self.paired, self.top = dict(state["paired"]), dict(state["top"])
        self.divergence.load(state["divergence"])
        self.lost.load(state["lost"])
        self.flipped.load(state["flipped"])

    def finish(self) -> PlainDict:
        """Return what was found, as JSON has it."""
        state = self.to_json()
        del state["divergence"]
        mean = self.divergence.value / self.rows if self.rows else math.nan
        found = state | {"mean_kl": plain(mean)}
        if self.labelled:
            found["accuracy_left"] = self.correct("left") / self.labelled
            found["accuracy_right"] = self.correct("right") / self.labelled
        return found

    def correct(self, side: str) -> int:
        """Return how many rows a side has right."""
        return self.paired["both"] + self.paired[f"only_{side}"]


def _classes(scores: Array) -> Array:
    """Return the class of each row; the number of classes where it has none."""
    best: Array = scores.argmax(axis=1).astype(np.int64)
    if scores.dtype.kind == "f" and (bad := np.isnan(scores).any(axis=1)).any():
        best = np.where(bad, scores.shape[1], best)
    return best


def _sparse(table: Array) -> list[list[int]]:
    places = np.flatnonzero(table)
    pairs: list[list[int]] = np.stack([places, table[places]], axis=1).tolist()
    return pairs
