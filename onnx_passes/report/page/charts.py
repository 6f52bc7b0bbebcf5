"""The numbers of the charts of a page; ``templates/charts.html`` draws them.

Positions are in percent, so that a chart takes the width it gets and its text keeps its size.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from onnx_passes.report.text import number

# The log axis; left of it is a place for zero.
_LEFT, _RIGHT, _ZERO, _BEYOND = 10.0, 97.0, 2.5, 99.0
_MOST_TICKS = 6


@dataclass(frozen=True)
class Box:
    """A part of a bar.

    Attributes:
        start: Where it begins, in percent.
        length: How long it is, in percent.
        style: Its style class.
    """

    start: float
    length: float
    style: str


@dataclass
class BarRow:
    """A row of a bar chart.

    Attributes:
        label: Its name, which may come from the model.
        told: The numbers in words.
        bars: Bars, one or two: lengths and style classes, laid end to end.
        href: Where the label leads.
        lines: The same as boxes, which :func:`scaled` fills in.
    """

    label: str
    told: str
    bars: Sequence[Sequence[tuple[float, str]]]
    href: str | None = None
    lines: list[list[Box]] = field(default_factory=list)


def scaled(rows: Sequence[BarRow]) -> Sequence[BarRow]:
    """Return rows of a bar chart; all share one linear scale from 0."""
    longest = max((sum(n for n, _ in bar) for row in rows for bar in row.bars), default=0) or 1
    for row in rows:
        row.lines = [_boxes(bar, longest) for bar in row.bars]
    return rows


def _boxes(bar: Sequence[tuple[float, str]], longest: float) -> list[Box]:
    boxes: list[Box] = []
    start = 0.0
    for length, style in bar:
        boxes.append(Box(start, 100 * length / longest, style))
        start += boxes[-1].length
    return boxes


@dataclass(frozen=True)
class Dot:
    """A row of the error plot.

    Attributes:
        label: Its name, which may come from the model.
        error: The error; 0 and infinity have places of their own.
        limit: What was allowed, if that is known.
        told: The numbers in words.
        tone: "good", "bad", "warn" or "plain".
        href: Where the label leads.
    """

    label: str
    error: float
    limit: float | None
    told: str
    tone: str
    href: str | None = None


class DotChart:
    """Errors and their limits on one log axis over whole decades.

    Args:
        rows: The errors.
    """

    def __init__(self, rows: Sequence[Dot]) -> None:
        """Find the ends of the axis, and its ticks: places in percent and their texts."""
        self.rows = rows
        values = [v for row in rows for v in (row.error, row.limit or 0.0)]
        logs = [math.log10(v) for v in values if 0 < v < math.inf]
        self._low = math.floor(min(logs, default=-8.0))
        self._high = max(math.ceil(max(logs, default=0.0)), self._low + 1)
        step = math.ceil((self._high - self._low) / _MOST_TICKS)
        decades = range(self._low, self._high + 1, step)
        self.ticks = [(_ZERO, "0"), *((self._at(d), number(float(f"1e{d}"))) for d in decades)]

    def place(self, value: float) -> float:
        """Return where a value lies, in percent."""
        if value == 0:
            return _ZERO
        return self._at(math.log10(value)) if math.isfinite(value) else _BEYOND

    def _at(self, exponent: float) -> float:
        share = (exponent - self._low) / (self._high - self._low)
        return _LEFT + share * (_RIGHT - _LEFT)


@dataclass(frozen=True)
class Line:
    """Values along the pipeline.

    Attributes:
        label: What they are.
        ends: The first and the last as text.
        path: A path in SVG, in a box of 1000 by 100.
    """

    label: str
    ends: Sequence[str]
    path: str


def line(
    label: str, values: Iterable[float], ends: Sequence[str], high: float | None = None
) -> Line:
    """Return values along the pipeline as a line of steps.

    Args:
        label: What they are.
        values: At the start and after each pass.
        ends: The first and the last as text.
        high: The value at full height; None for the largest.
    """
    first, *rest = values
    rest = rest or [first]
    high = high or max(first, *rest) or 1.0
    levels = [number(100 - 92 * min(value / high, 1.08)) for value in (first, *rest)]
    points = [f"0 {levels[0]}"]
    for index, level in enumerate(levels[1:]):
        width = 1000 / len(rest)
        points += [f"{number((index + i) * width)} {level}" for i in (0, 1)]
    return Line(label, ends, "M" + " L".join(points))
