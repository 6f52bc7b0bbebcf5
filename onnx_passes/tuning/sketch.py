"""Few samples that all others are judged by.

Of some metrics, few samples hold most of the loss: the divergence of distributions is that of
the samples whose scores are close to each other. Such samples are found before any model is
run: noise is added to the outputs of the original. The most sensitive ones are all taken. Each
of the others is represented by one whose sensitivity is about the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from onnx_passes.arrays import Array
from onnx_passes.runtime.engine_base import Data, Feeds, Outputs
from onnx_passes.tuning.loss_budget import LossBudget
from onnx_passes.tuning.sample_sensitivity import sensitivity

_MOST = 1024
"""So many samples are represented; of more, some that are spread evenly."""
_SENSITIVE = 0.75
"""Share of the few samples that may be the most sensitive ones."""


@dataclass(frozen=True)
class Sketch:
    """Few samples.

    Attributes:
        feeds: The samples: whole feeds, or rows of them in one feed.
        numbers: Of these feeds or rows among all; empty if they are the first, and are
            measured as they are.
        represented: By feed of all, the place in the sketch of what represents each of its
            rows; one list of one place a feed if whole feeds represent each other.
        by_rows: Whether rows represent each other.
    """

    feeds: Sequence[Feeds]
    numbers: Sequence[int] = ()
    represented: Sequence[Sequence[int]] = ()
    by_rows: bool = False

    @classmethod
    def of(
        cls,
        feeds: Sequence[Feeds],
        numbers: Sequence[int],
        represented: Sequence[Sequence[int]],
        *,
        by_rows: bool,
    ) -> Self:
        """Return a sketch of chosen samples.

        Args:
            feeds: All samples, arrays by name with the axis of samples first.
            numbers: See the attributes.
            represented: See the attributes.
            by_rows: See the attributes.
        """
        if not by_rows:
            return cls([feeds[number] for number in numbers], numbers, represented)
        whole = _join(feeds)
        assert whole is not None, "rows were chosen"
        return cls([_rows(whole, numbers)], numbers, represented, by_rows)

    def spread(self, outputs: Sequence[Outputs]) -> Sequence[Outputs]:
        """Return outputs of all samples, made of those that represent them.

        Args:
            outputs: Arrays by name, of any type, with the axis of samples first, of the
                samples of the sketch.
        """
        if not self.represented:
            return outputs
        if not self.by_rows:
            return [outputs[place] for place in self.represented[0]]
        (own,) = outputs
        return [_rows(own, places) for places in self.represented]

    def take(self, feeds: Sequence[Feeds], outputs: Sequence[Outputs]) -> list[Outputs] | None:
        """Return the outputs of the samples of the sketch among those of all.

        Args:
            feeds: All samples.
            outputs: Their outputs, arrays of any type by name with the axis of samples first.

        Returns:
            Outputs by feed of the sketch; None if they cannot be distinguished.
        """
        if self.by_rows:
            whole = _join(outputs)
            return None if whole is None else [_rows(whole, self.numbers)]
        if self.represented:
            return [outputs[number] for number in self.numbers]
        found: list[Outputs] = []
        for feed, part, own in zip(feeds, self.feeds, outputs, strict=False):
            sizes, taken = _sizes(feed), _sizes(part)
            if sizes == taken:
                found.append(own)
                continue
            cut = min((size for size in taken if size is not None), default=None)
            if cut is None or _sizes(own) != sizes or len(sizes) != 1:
                return None
            found.append(_rows(own, range(cut)))
        return found if len(found) == len(self.feeds) else None


def draw(
    feeds: Sequence[Feeds],
    first: Sequence[Feeds],
    original: Sequence[Outputs],
    budget: LossBudget,
) -> Sketch:
    """Return a sketch of the size of another one, of samples by their sensitivity.

    Args:
        feeds: All samples, arrays by name with the axis of samples first.
        first: A sketch: the first feeds, the last of them cut if the model allows it.
        original: What the original computes on all samples, arrays by name.
        budget: What may be lost.

    Returns:
        The sketch; the one given if samples cannot be distinguished.
    """
    plain = Sketch(first)
    pairs = list(zip(feeds, first, strict=False))
    cut = any(_sizes(feed) != _sizes(part) for feed, part in pairs)
    whole = _join(original) if cut else None
    inputs = _join(feeds) if cut else None
    if cut and (whole is None or inputs is None or _sizes(whole) != _sizes(inputs)):
        return plain
    size = sum(_count(part) for part in first) if cut else len(first)
    total = _count(inputs) if inputs is not None else len(feeds)
    if size >= total:
        return plain
    every = np.linspace(0, total - 1, min(total, _MOST)).round().astype(int)
    samples = [original[i] if whole is None else _rows(whole, [i]) for i in every]
    weights = sensitivity(samples, budget)
    if weights is None:
        return plain
    chosen, represented = _choose(weights, size)
    numbers = every[chosen].tolist()
    if inputs is None:
        return Sketch.of(feeds, numbers, [represented.tolist()], by_rows=False)
    ends = np.searchsorted(every, np.cumsum([_count(feed) for feed in feeds]))
    parts = [part.tolist() for part in np.split(represented, ends[:-1])]
    return Sketch.of(feeds, numbers, [part for part in parts if part], by_rows=True)


def _choose(weights: Array, size: int) -> tuple[Array, Array]:
    """Choose samples, all of the most sensitive and some of the others.

    Args:
        weights: How sensitive samples are, floats of shape [samples].
        size: How many are chosen.

    Returns:
        The numbers of the chosen samples, in order; and for each sample, the place among these
        of the one that represents it.
    """
    order = np.argsort(-weights, kind="stable")
    count, squares = len(weights), np.cumsum((weights[order] ** 2)[::-1])[::-1]
    most = int(size * _SENSITIVE)
    # Losses scatter about what the noise shows, in proportion to it.
    spread = [(count - k) * squares[k] / (size - k) for k in range(most + 1)]
    taken = int(np.argmin(spread))
    blocks = np.array_split(order[taken:], size - taken)
    middles = [block[len(block) // 2] for block in blocks]
    chosen = np.sort(np.concatenate([order[:taken], middles]))
    represented = np.zeros(count, int)
    represented[order[:taken]] = np.searchsorted(chosen, order[:taken])
    for block, middle in zip(blocks, middles, strict=True):
        represented[block] = np.searchsorted(chosen, middle)
    return chosen, represented


def _join(samples: Sequence[Mapping[str, Data]]) -> dict[str, Data] | None:
    """Return samples as one, along the first axis; None if they have none in common."""
    found: dict[str, Data] = {}
    for sample in samples:
        sizes = _sizes(sample)
        if len(sizes) != 1 or None in sizes:
            return None
    for name in samples[0]:
        arrays = [np.asarray(sample[name]) for sample in samples]
        if len({(array.shape[1:], array.dtype) for array in arrays}) > 1:
            return None
        found[name] = arrays[0] if len(arrays) == 1 else np.concatenate(arrays)
    return found


def _rows(values: Mapping[str, Data], rows: Sequence[int]) -> dict[str, Data]:
    return {name: np.asarray(value)[list(rows)] for name, value in values.items()}


def _count(values: Mapping[str, Data]) -> int:
    return min((size for size in _sizes(values) if size is not None), default=1)


def _sizes(values: Mapping[str, Data]) -> set[int | None]:
    """Return the first dimensions of values; None for what has none."""
    return {len(v) if isinstance(v, np.ndarray) and v.ndim else None for v in values.values()}
