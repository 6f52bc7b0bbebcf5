"""Thresholds of a chain, found on the chain itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from onnx_passes.passes.quantised._chains import Steps

Array = np.ndarray[Any, np.dtype[Any]]

_LARGEST = np.finfo(np.float32).max
_CHECKED = (1, 2, 3)
"""Distances in floats from a threshold at which the chain is looked at again."""

_CHECKED_APPROXIMATELY = (64, 65, 256)
"""The same for functions whose kernels do not round correctly, and waver by some floats."""


@dataclass(frozen=True)
class Table:
    """A step function for each channel.

    Attributes:
        thresholds: Where the steps are, float32 ``[*channels, steps]``.
        weights: How far each goes, float32 of the same shape; 0 for one that is not there.
        start: The level left of all thresholds, float32 ``[*channels]``.
    """

    thresholds: Array
    weights: Array
    start: Array


def find_table(steps: Steps, level: Any, most: int) -> Table | None:
    """Find the thresholds of a chain by bisection over the floats.

    Every operator of a chain is weakly monotone as computed, so that each level is reached at
    one float32 and kept from there on: it is found exactly, in 32 runs of the chain.

    Args:
        steps: The chain.
        level: Makes integers of the chain's results, as float64.
        most: Number of steps above which there is no table.

    Returns:
        The table; None if the chain has more steps, or is not monotone after all.
    """
    ends = np.full((2, *steps.chain.channels), _LARGEST, np.float32)
    ends[0] *= -1
    first, last = level(steps.of(ends))
    if not (np.isfinite(first).all() and np.isfinite(last).all()):
        return None
    if not (np.array_equal(first, np.rint(first)) and np.array_equal(last, np.rint(last))):
        return None
    count = int(np.abs(last - first).max())
    if count > most:
        return None
    count = max(count, 1)  # a quantiser that always gives the same has one that is not there
    sign = np.where(last >= first, 1.0, -1.0)
    index = np.arange(1, count + 1, dtype=np.float64).reshape(-1, *[1] * first.ndim)
    wanted = first + sign * index
    there = index <= np.abs(last - first)

    def reached(values: Array) -> Array:
        found: Array = sign * (level(steps.of(values)) - wanted) >= 0
        return found

    below = np.full(wanted.shape, _ordered(ends[0].flat[0]), np.int64)
    above = np.full(wanted.shape, _ordered(ends[1].flat[0]), np.int64)
    while (above - below > 1).any():
        middle = (below + above) // 2
        hit = reached(_float(middle))
        above, below = np.where(hit, middle, above), np.where(hit, below, middle)
    distances = _CHECKED if steps.chain.is_exact else _CHECKED_APPROXIMATELY
    if not _holds(reached, above, there, distances):
        return None
    thresholds = np.where(there, _float(above), np.float32(np.inf))
    weights = np.where(there, sign, 0.0).astype(np.float32)
    return Table(
        np.moveaxis(thresholds, 0, -1).astype(np.float32),
        np.moveaxis(np.broadcast_to(weights, wanted.shape), 0, -1),
        first.astype(np.float32),
    )


def _holds(reached: Any, found: Array, there: Array, distances: tuple[int, ...]) -> bool:
    """Look at the floats beside each threshold: a kernel need not be monotone."""
    for offset in (*(-distance for distance in distances), 0, *distances):
        near = np.clip(found + offset, -_TOP, _TOP)
        expected = near >= found
        if not (reached(_float(near)) == expected)[there].all():
            return False
    return True


def _ordered(value: float) -> int:
    """Return the place of a float32 among all: neighbours differ by 1, both zeros are 0."""
    bits = int(np.float32(value).view(np.int32))
    return bits if bits >= 0 else -(bits & 0x7FFFFFFF)


_TOP = _ordered(float(_LARGEST))


def _float(places: Array) -> Array:
    sizes = np.abs(places).astype(np.int32).view(np.float32)
    return np.where(places < 0, -sizes, sizes)
