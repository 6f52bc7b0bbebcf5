"""The pictures: where in a tensor errors are, how large they are, and from which layer on."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from onnx_passes.arrays import Array
from onnx_passes.contracts.elements import blocks, shape_text, widen
from onnx_passes.report.plots.glyphs import draw_text, text_width

Colour = tuple[int, int, int]

_BACK: Colour = (255, 255, 255)
_INK: Colour = (40, 40, 40)
_FAINT: Colour = (222, 222, 222)
_BLUE: Colour = (46, 98, 168)
_RED: Colour = (200, 30, 40)
_NONE: Colour = (240, 240, 236)
# From small to large; dark to light, so that it reads in grey too.
_SCALE = np.array(
    [(26, 18, 76), (110, 30, 120), (190, 55, 85), (240, 125, 35), (252, 220, 90)]
)
_DECADES = 6
_LEFT, _TOP, _RIGHT, _BOTTOM = 60, 44, 96, 36
_PLOT_WIDTH, _PLOT_HEIGHT = 480, 300
_BINS = 48
_CELL, _LEGEND = 40, 80


def heat_map(expected: Array, actual: Array, title: str) -> Array:
    """Draw where in a tensor errors are.

    Rows are all axes but the last, one after the other; of a large tensor each cell shows the
    largest error of a block. Colours are logarithmic over six decades; no error is pale, and
    what is finite on one side only is red.

    Args:
        expected: The reference, of any shape.
        actual: The other, of the same shape.
        title: Name of the value.

    Returns:
        uint8 of shape [height, width, 3].
    """
    cells, special = _pooled(expected, actual)
    rows, columns = cells.shape
    high, wide = (
        max(1, min(_CELL, room // cells))
        for room, cells in ((_PLOT_HEIGHT, rows), (_PLOT_WIDTH, columns))
    )
    most = float(cells.max(initial=0.0))
    picture = _coloured(cells, special, most).repeat(high, 0).repeat(wide, 1)
    tall = max(picture.shape[0], _LEGEND)
    image = _canvas(max(picture.shape[1], 260), tall)
    image[_TOP : _TOP + picture.shape[0], _LEFT : _LEFT + picture.shape[1]] = picture
    _frame(image, picture.shape[1], picture.shape[0])
    _title(image, title, f"{shape_text(expected.shape)} largest error {most:.3g}")
    last = math.prod(expected.shape[:-1]) - 1 if expected.ndim else 0
    _label(image, _LEFT - 6, _TOP, "0", end=True)
    if rows > 1:
        _label(image, _LEFT - 6, _TOP + picture.shape[0] - 10, f"{last}", end=True)
    bottom = _TOP + picture.shape[0] + 8
    _label(image, _LEFT, bottom, "0")
    width = expected.shape[-1] - 1 if expected.ndim else 0
    _label(image, _LEFT + picture.shape[1], bottom, f"{width}", end=True)
    _legend(image, _LEFT + picture.shape[1] + 14, tall, most)
    return image


def histogram(expected: Array, actual: Array, title: str) -> Array:
    """Draw how many elements have errors of each size; the axis is logarithmic.

    Args:
        expected: The reference, of any shape.
        actual: The other, of the same shape.
        title: Name of the value.

    Returns:
        uint8 of shape [height, width, 3].
    """
    errors = _Errors()
    for _, (e, a) in blocks(expected, actual):
        errors.add(widen(e), widen(a))
    counts, low, high = errors.counts()
    most = int(counts.max(initial=0))
    image = _canvas(_PLOT_WIDTH, _PLOT_HEIGHT)
    _gridded(image, low, high)
    for index, count in enumerate(counts.tolist()):
        if not count:
            continue
        left = _LEFT + index * _PLOT_WIDTH // len(counts)
        right = _LEFT + (index + 1) * _PLOT_WIDTH // len(counts) - 1
        tall = max(1, round(count / most * (_PLOT_HEIGHT - 8)))
        image[_TOP + _PLOT_HEIGHT - tall : _TOP + _PLOT_HEIGHT, left:right] = _BLUE
    _frame(image, _PLOT_WIDTH, _PLOT_HEIGHT)
    rest = f"{errors.none} equal, {errors.special} not finite on one side"
    _title(image, title, f"elements by absolute error, {rest}")
    _label(image, _LEFT - 6, _TOP, f"{most}", end=True)
    _label(image, _LEFT - 6, _TOP + _PLOT_HEIGHT - 10, "0", end=True)
    return image


@dataclass(frozen=True)
class ValueLayer:
    """A value in topological order.

    Attributes:
        error: Its largest absolute error; None where it is not known.
        passed: Whether it agrees.
    """

    error: float | None
    passed: bool


def layers(values: Sequence[ValueLayer], title: str) -> Array:
    """Draw the largest error of each value, in topological order; those that differ are red.

    Args:
        values: The values in topological order, with their errors.
        title: The text above.

    Returns:
        uint8 of shape [height, width, 3].
    """
    errors = [v.error for v in values if v.error and math.isfinite(v.error)]
    low = math.floor(math.log10(min(errors))) if errors else -1
    high = math.ceil(math.log10(max(errors))) if errors else 0
    high = max(high, low + 1)
    image = _canvas(_PLOT_WIDTH, _PLOT_HEIGHT)
    for decade in range(low, high + 1):
        y = _TOP + round((high - decade) / (high - low) * (_PLOT_HEIGHT - 1))
        image[y, _LEFT : _LEFT + _PLOT_WIDTH] = _FAINT
        if (high - decade) % max(1, (high - low) // 8) == 0:
            _label(image, _LEFT - 6, y - 5, f"1E{decade}", end=True)
    wide = max(2, min(8, _PLOT_WIDTH // max(1, len(values)) - 1))
    for index, value in enumerate(values):
        x = _LEFT + round(index / max(1, len(values) - 1) * (_PLOT_WIDTH - wide))
        place = 0.0
        if value.error:
            level = math.log10(value.error) if math.isfinite(value.error) else high
            place = (min(level, high) - low) / (high - low)
        y = _TOP + round((1 - place) * (_PLOT_HEIGHT - 1))
        image[y : _TOP + _PLOT_HEIGHT, x : x + wide] = _BLUE if value.passed else _RED
    _frame(image, _PLOT_WIDTH, _PLOT_HEIGHT)
    bad = sum(not value.passed for value in values)
    _title(image, title, f"largest error of {len(values)} values in order, {bad} differ")
    bottom = _TOP + _PLOT_HEIGHT + 8
    _label(image, _LEFT, bottom, "first")
    _label(image, _LEFT + _PLOT_WIDTH, bottom, "last", end=True)
    return image


class _Errors:
    """Errors counted by their decimal logarithm."""

    def __init__(self) -> None:
        self.none = self.special = 0
        # Hundredths of decades from 1e-330 to 1e310.
        self._counts = np.zeros(64_000, np.int64)

    def add(self, expected: Array, actual: Array) -> None:
        with np.errstate(all="ignore"):
            difference = np.abs(actual - expected)
        same = (expected == actual) | (np.isnan(expected) & np.isnan(actual))
        finite = np.isfinite(difference)
        self.none += int(same.sum())
        self.special += int((~finite & ~same).sum())
        kept = difference[finite & ~same]
        places = np.floor((np.log10(kept) + 330) * 100).astype(np.int64)
        np.add.at(self._counts, np.clip(places, 0, len(self._counts) - 1), 1)

    def counts(self) -> tuple[Array, int, int]:
        """Return counts between two powers of ten, and their exponents."""
        used = np.flatnonzero(self._counts)
        if not used.size:
            return np.zeros(_BINS, np.int64), -1, 0
        low = math.floor(int(used[0]) / 100) - 330
        high = max(math.ceil((int(used[-1]) + 1) / 100) - 330, low + 1)
        part = self._counts[(low + 330) * 100 : (high + 330) * 100]
        edges = np.linspace(0, len(part), _BINS + 1).astype(int)[:-1]
        return np.add.reduceat(part, edges), low, high


def _pooled(expected: Array, actual: Array) -> tuple[Array, Array]:
    """Return the largest finite error of each block, and where one side is not finite."""
    width = expected.shape[-1] if expected.ndim else 1
    e, a = expected.reshape(-1, width), actual.reshape(-1, width)
    down = np.unique(
        np.linspace(0, len(e), min(len(e), _PLOT_HEIGHT), endpoint=False, dtype=int)
    )
    across = np.unique(
        np.linspace(0, width, min(width, _PLOT_WIDTH), endpoint=False, dtype=int)
    )
    cells, special = (np.zeros((len(down), len(across))) for _ in range(2))
    for row, (start, end) in enumerate(zip(down, [*down[1:], len(e)], strict=True)):
        left, right = widen(e[start:end]), widen(a[start:end])
        with np.errstate(all="ignore"):
            error = np.abs(right - left)
        same = (left == right) | (np.isnan(left) & np.isnan(right))
        odd = ~np.isfinite(error) & ~same
        error = np.where(np.isfinite(error) & ~same, error, 0.0)
        cells[row] = np.maximum.reduceat(error.max(0), across)
        special[row] = np.maximum.reduceat(odd.any(0).astype(float), across)
    return cells, special > 0


def _coloured(cells: Array, special: Array, most: float) -> Array:
    with np.errstate(divide="ignore"):
        place = (
            1 + np.log10(cells / most) / _DECADES if most else np.full(cells.shape, -np.inf)
        )
    colours = _ramp(np.clip(place, 0, 1))
    colours[cells == 0] = _NONE
    colours[special] = _RED
    return colours


def _ramp(place: Array) -> Array:
    stops = np.linspace(0, 1, len(_SCALE))
    channels = [np.interp(place, stops, _SCALE[:, channel]) for channel in range(3)]
    return np.stack(channels, -1).round().astype(np.uint8)


def _canvas(width: int, height: int) -> Array:
    image = np.empty((height + _TOP + _BOTTOM, width + _LEFT + _RIGHT, 3), np.uint8)
    image[:] = _BACK
    return image


def _frame(image: Array, width: int, height: int) -> None:
    top, left = _TOP - 1, _LEFT - 1
    bottom, right = _TOP + height, _LEFT + width
    image[top, left : right + 1] = image[bottom, left : right + 1] = _INK
    image[top : bottom + 1, left] = image[top : bottom + 1, right] = _INK


def _title(image: Array, title: str, below: str) -> None:
    room = (image.shape[1] - 20) // text_width(" ")
    # The end of a name says more than its beginning.
    shown = title if len(title) <= room else f"..{title[len(title) - room + 2 :]}"
    draw_text(image, 10, 8, shown, _INK)
    draw_text(image, 10, 24, below, _INK)


def _label(image: Array, x: int, y: int, text: str, *, end: bool = False) -> None:
    left = x - text_width(text) + 2 if end else x
    draw_text(image, max(0, left), y, text, _INK)


def _legend(image: Array, x: int, height: int, most: float) -> None:
    place = np.linspace(1, 0, height)[:, None].repeat(12, 1)
    image[_TOP : _TOP + height, x : x + 12] = _ramp(place)
    if not most:
        return
    _label(image, x + 16, _TOP, f"{most:.1E}".replace("E-0", "E-").replace("E+0", "E"))
    text = f"{most / 10**_DECADES:.1E}".replace("E-0", "E-").replace("E+0", "E")
    _label(image, x + 16, _TOP + height - 10, text)


def _gridded(image: Array, low: int, high: int) -> None:
    for decade in range(low, high + 1):
        x = _LEFT + round((decade - low) / (high - low) * (_PLOT_WIDTH - 1))
        image[_TOP : _TOP + _PLOT_HEIGHT, x] = _FAINT
        if (decade - low) % max(1, math.ceil((high - low) / 8)) == 0:
            text = f"1E{decade}"
            _label(image, x - text_width(text) // 2, _TOP + _PLOT_HEIGHT + 8, text)
