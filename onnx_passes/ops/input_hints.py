"""What the graph says about the values of an input."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from onnx_passes.arrays import Array

Bound = float | Array | None


@dataclass(frozen=True)
class ValueHint:
    """Constraints on one value; the empty hint allows anything.

    Attributes:
        low: Least value of an element, or an array that broadcasts to the value.
        high: Greatest value of an element, as ``low``.
        exact: The only value that fits.
        distinct: Axis along which integer elements must not repeat.
        nonzero: Whether zero is excluded.
        words: The strings to choose from.
        filled: Whether an optional must hold a value.
    """

    low: Bound = None
    high: Bound = None
    exact: Array | None = None
    distinct: int | None = None
    nonzero: bool = False
    words: tuple[str, ...] = ()
    filled: bool = False

    def __and__(self, other: ValueHint) -> ValueHint:
        """Return what satisfies both, or the first where they contradict each other."""
        low = _tighter(np.maximum, self.low, other.low)
        high = _tighter(np.minimum, self.high, other.high)
        if low is not None and high is not None and np.any(np.greater(low, high)):
            low, high = (self.low, self.high) if self.bounded else (other.low, other.high)
        return ValueHint(
            low=low,
            high=high,
            exact=other.exact if self.exact is None else self.exact,
            distinct=other.distinct if self.distinct is None else self.distinct,
            nonzero=self.nonzero or other.nonzero,
            words=self.words or other.words,
            filled=self.filled or other.filled,
        )

    @property
    def empty(self) -> bool:
        """Whether it says nothing."""
        return not (
            self.bounded
            or self.exact is not None
            or self.distinct is not None
            or self.nonzero
            or self.words
            or self.filled
        )

    @property
    def bounded(self) -> bool:
        """Whether it limits the elements from either side."""
        return self.low is not None or self.high is not None

    def admits(self, number: int) -> bool:
        """Whether every element may be a number, whatever its place."""
        low, high = self.low, self.high
        return (
            self.exact is None
            and self.distinct is None
            and not (self.nonzero and number == 0)
            and (low is None or number >= np.max(low))
            and (high is None or number <= np.min(high))
        )

    def without_layout(self) -> ValueHint:
        """Return what still holds for elements that were rearranged or picked."""
        low, high = self.low, self.high
        if self.exact is not None and self.exact.size and self.exact.dtype.kind in "iuf":
            low, high = self.exact.min(), self.exact.max()
        return ValueHint(
            low=None if low is None else float(np.max(low)),
            high=None if high is None else float(np.min(high)),
            nonzero=self.nonzero,
            words=self.words,
            filled=self.filled,
        )


def _tighter(choose: np.ufunc, a: Bound, b: Bound) -> Bound:
    if a is None or b is None:
        return b if a is None else a
    try:
        return np.asarray(choose(a, b))
    except ValueError:  # bounds of different layouts
        return a


def between(low: Bound, high: Bound) -> ValueHint:
    """Return the hint for elements in a closed interval.

    Args:
        low: The least element; None for no bound.
        high: The greatest element; None for no bound.
    """
    return ValueHint(low=low, high=high)


def exactly(values: object) -> ValueHint:
    """Return the hint for one value, given as anything numpy makes an array of."""
    return ValueHint(exact=np.asarray(values))
