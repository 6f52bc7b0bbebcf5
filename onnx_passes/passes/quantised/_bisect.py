"""Thresholds of a chain, found on the chain itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from onnx_passes.arrays import Array
from onnx_passes.passes.quantised._chains import Steps

Level: TypeAlias = Callable[[Array], Array]
"""Makes integers of a chain's results, as float64."""

_LARGEST = np.finfo(np.float32).max
_OCTAVE = 1 << 23
"""Places between a float and its double."""

_OCTAVES = 64
"""How often a number is halved before a chain is given up that has no level there."""

_CHECKED = (1, 2, 3)
"""Distances in floats from a threshold at which the chain is looked at again."""

_CHECKED_APPROXIMATELY = (64, 65, 256)
"""The same for functions whose kernels do not round correctly, and waver by some floats."""

_CHECKED_ON_SLOPES = (1024, 1025, 4096)
"""The same for functions with a minimum, around which their results hardly change."""


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


def find_table(steps: Steps, level: Level, most: int) -> Table | None:
    """Find the thresholds of a chain by bisection over the floats.

    Every operator of a chain is weakly monotone as computed, so that each level is reached at
    one float32 and kept from there on. It is found exactly, in 32 runs of the chain. Where the
    chain turns, which is found in the same way, it is searched piece by piece.

    Args:
        steps: The chain.
        level: Makes integers of the chain's results, as float64.
        most: Number of steps of one piece above which there is no table.

    Returns:
        The table; None if the chain has more steps, or is not monotone after all.
    """
    ends = _ends(steps, level)
    if ends is None:
        return None
    starts = _starts(steps, ends)
    after = [*starts[1:], ends.high + 1]
    parts: list[tuple[Array, Array]] = []
    begin = current = None
    for start, end in zip(starts, after, strict=True):
        low = np.minimum(start, ends.high)
        piece = _Piece(low, np.maximum(end - 1, low))
        first, last = level(steps.of(_float(np.stack([piece.low, piece.high]))))
        if not _are_integers(first) or not _are_integers(last):
            return None
        is_there = end > start
        if begin is None or current is None:
            begin = current = first
        jump = np.where(is_there, first - current, 0.0)
        if jump.any():
            parts.append((np.where(jump != 0, _float(piece.low), np.inf)[None], jump[None]))
        current = np.where(is_there, last, current)
        found = _steps_within(steps, level, piece, np.where(is_there, last - first, 0.0), most)
        if found is None:
            return None
        parts.append(found)
    if begin is None:
        return None
    thresholds, weights = (np.concatenate(part) for part in zip(*parts, strict=True))
    if not len(thresholds):  # a quantiser that always gives the same
        thresholds = np.full((1, *begin.shape), np.inf)
        weights = np.zeros_like(thresholds)
    return Table(
        np.moveaxis(thresholds, 0, -1).astype(np.float32),
        np.moveaxis(weights, 0, -1).astype(np.float32),
        begin.astype(np.float32),
    )


@dataclass(frozen=True)
class _Piece:
    """Floats between which a chain is monotone, by their places; int64 ``[*channels]``."""

    low: Array
    high: Array


def _ends(steps: Steps, level: Level) -> _Piece | None:
    """Return the floats of least and greatest place at which a chain has a level.

    A factor may make an infinity of a large number, and an activation NaN of that.
    """
    sizes = np.full((2, *steps.chain.channels), _TOP, np.int64)
    signs = np.array([-1, 1]).reshape(2, *[1] * len(steps.chain.channels))
    for _ in range(_OCTAVES):
        with np.errstate(all="ignore"):
            lacks = ~np.isfinite(level(steps.of(_float(signs * sizes))))
        if not lacks.any():
            return _Piece(-sizes[0], sizes[1])
        sizes = np.where(lacks, sizes - _OCTAVE, sizes)
    return None


def _starts(steps: Steps, ends: _Piece) -> Array:
    """Return the places at which pieces start, int64 ``[pieces, *channels]``."""
    chain = steps.chain
    first = ends.low[None]
    if chain.turns is None:
        return first
    turns = np.broadcast_to(chain.turns, (len(chain.turns), *chain.channels))

    def is_beyond(places: Array) -> Array:
        found: Array = steps.at_bend(_float(places)) >= turns
        return found

    below = np.broadcast_to(first, turns.shape).copy()
    above = np.broadcast_to(ends.high + 1, turns.shape).copy()
    at_first = is_beyond(below)
    while (above - below > 1).any():
        middle = (below + above) // 2
        hit = is_beyond(middle) != at_first
        above, below = np.where(hit, middle, above), np.where(hit, below, middle)
    return np.sort(np.concatenate([first, above]), axis=0)


def _steps_within(
    steps: Steps, level: Level, piece: _Piece, change: Array, most: int
) -> tuple[Array, Array] | None:
    """Return thresholds and weights of a piece, ``[steps, *channels]``."""
    count = int(np.abs(change).max())
    if count > most:
        return None
    sign = np.where(change >= 0, 1.0, -1.0)
    index = np.arange(1, count + 1, dtype=np.float64).reshape(-1, *[1] * change.ndim)
    there = index <= np.abs(change)
    if not count:
        return np.empty(there.shape, np.float32), np.empty(there.shape)
    wanted = level(steps.of(_float(piece.low[None]))) + sign * index

    def reached(values: Array) -> Array:
        found: Array = sign * (level(steps.of(values)) - wanted) >= 0
        return found

    below = np.broadcast_to(piece.low, wanted.shape)
    above = np.broadcast_to(piece.high, wanted.shape)
    while (above - below > 1).any():
        middle = (below + above) // 2
        hit = reached(_float(middle))
        above, below = np.where(hit, middle, above), np.where(hit, below, middle)
    chain = steps.chain
    tried = [_CHECKED if chain.is_exact else _CHECKED_APPROXIMATELY]
    if chain.turns is not None and not chain.is_exact:
        tried.append(_CHECKED_ON_SLOPES)
    if not any(_holds(reached, above, piece, there, distances) for distances in tried):
        return None
    thresholds = np.where(there, _float(above), np.float32(np.inf))
    return thresholds, np.where(there, sign, 0.0)


def _are_integers(levels: Array) -> bool:
    return bool(np.isfinite(levels).all() and np.array_equal(levels, np.rint(levels)))


def _holds(
    reached: Callable[[Array], Array],
    found: Array,
    piece: _Piece,
    there: Array,
    distances: tuple[int, ...],
) -> bool:
    """Look at the floats beside each threshold: a kernel need not be monotone."""
    for offset in (*(-distance for distance in distances), 0, *distances):
        near = np.clip(found + offset, piece.low, piece.high)
        expected = near >= found
        if not (reached(_float(near)) == expected)[there].all():
            return False
    return True


def _place_of(value: float) -> int:
    """Return the place of a float32 among all: neighbours differ by 1, both zeros are 0."""
    bits = int(np.float32(value).view(np.int32))
    return bits if bits >= 0 else -(bits & 0x7FFFFFFF)


_TOP = _place_of(float(_LARGEST))


def _float(places: Array) -> Array:
    sizes = np.abs(places).astype(np.int32).view(np.float32)
    return np.where(places < 0, -sizes, sizes)
