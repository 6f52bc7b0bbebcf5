"""Sums of floats without rounding, so that their order does not matter."""

from __future__ import annotations

import math
from typing import Self

from onnx_passes.plain import Plain

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
        """Add a number."""
        if not math.isfinite(value):
            self.not_finite += 1
            return
        top, bottom = value.as_integer_ratio()
        self._units += top << (_SHIFT + 1 - bottom.bit_length())

    def merge(self, other: Self) -> None:
        """Add another sum."""
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
        """Replace the state by one of :meth:`to_json`."""
        mantissa, exponent, self.not_finite = state
        self._units = mantissa << (exponent + _SHIFT)


def plain(value: float) -> float | str | None:
    """Return a number as JSON has it, which knows no NaN and no infinities."""
    if math.isfinite(value):
        return value
    return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"


def number(value: Plain) -> float:
    """Read what :func:`plain` returns."""
    return float(value)
