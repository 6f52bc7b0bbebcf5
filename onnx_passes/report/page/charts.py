"""The charts of the HTML page: rows of text with inline SVG, which need no scripts.

Positions are in percent, so that a chart takes the width it gets and its text keeps its size.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from onnx_passes.report.page.markup import Element, named, tag
from onnx_passes.report.text import number

_HEIGHT = 16
# The log axis; left of it is a place for zero.
_LEFT, _RIGHT, _ZERO = 10.0, 97.0, 2.5
_MOST_TICKS = 6


@dataclass(frozen=True)
class Bar:
    """A row of a bar chart.

    Attributes:
        label: Its name, which may come from the model.
        parts: Lengths and style classes, laid end to end.
        told: The numbers in words.
        href: Where the label leads.
    """

    label: str
    parts: Sequence[tuple[float, str]]
    told: str
    href: str | None = None


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


def bars(rows: Sequence[Bar]) -> Element:
    """Return a bar chart; all rows share one linear scale from 0."""
    longest = max((sum(length for length, _ in row.parts) for row in rows), default=0) or 1.0
    return tag(
        "ol",
        [_row(row.label, _bar(row, longest), row.told, row.href) for row in rows],
        class_="rows",
    )


def paired(rows: Sequence[tuple[Bar, Bar]]) -> Element:
    """Return a bar chart with two bars a row; the first one's label and words are shown."""
    longest = max((sum(p for p, _ in bar.parts) for pair in rows for bar in pair), default=0)
    return tag(
        "ol",
        [
            _row(
                first.label,
                tag(
                    "span",
                    _bar(first, longest or 1.0, 8),
                    _bar(second, longest or 1.0, 8),
                    class_="pair",
                ),
                first.told,
                first.href,
            )
            for first, second in rows
        ],
        class_="rows",
    )


def dots(rows: Sequence[Dot]) -> Element:
    """Return errors and their limits on one log axis."""
    axis = _Axis([v for row in rows for v in (row.error, row.limit or 0.0)])
    shown = [_row(row.label, _dot(row, axis), row.told, row.href) for row in rows]
    ticks = tag(
        "svg", axis.labels(), class_="axis", width="100%", height=18, aria_hidden="true"
    )
    scale = tag(
        "li",
        tag("span", class_="label"),
        ticks,
        tag("span", class_="told"),
        class_="row",
        aria_hidden="true",
    )
    return tag("ol", shown, scale, class_="rows dots")


def steps(values: Sequence[float], described: str, high: float | None = None) -> Element:
    """Return values along the pipeline as a line with an area below it.

    Args:
        values: At the start and after each pass; two at least.
        described: What the line shows, for those who cannot see it.
        high: The value at full height; None for the largest.
    """
    high = high or max(values) or 1.0
    width = 1000 / (len(values) - 1)
    points = [f"0 {_level(values[0], high)}"]
    for index, value in enumerate(values[1:]):
        points += [
            f"{number(index * width)} {_level(value, high)}",
            f"{number((index + 1) * width)} {_level(value, high)}",
        ]
    line = "M" + " L".join(points)
    return tag(
        "svg",
        tag("path", class_="area", d=f"{line} L1000 100 L0 100 Z"),
        tag("path", class_="line", d=line, fill="none"),
        class_="steps",
        viewBox="0 0 1000 100",
        preserveAspectRatio="none",
        role="img",
        aria_label=described,
    )


def _level(value: float, high: float) -> str:
    return number(100 - 92 * min(value / high, 1.08))


def _row(label: str, chart: Element, told: str, href: str | None) -> Element:
    name = named(label, title=label[:400])
    linked = tag("a", name, href=href) if href else name
    return tag(
        "li",
        tag("span", linked, class_="label"),
        chart,
        tag("span", told, class_="told"),
        class_="row",
    )


def _bar(row: Bar, longest: float, height: int = _HEIGHT) -> Element:
    def boxes() -> Iterator[Element]:
        start = 0.0
        for length, style in row.parts:
            share = 100 * length / longest
            yield tag(
                "rect",
                class_=style,
                x=_percent(start),
                width=_percent(share),
                height=height,
                rx=2,
            )
            start += share

    return tag("svg", boxes(), width="100%", height=height, aria_hidden="true")


class _Axis:
    """A log axis over whole decades."""

    def __init__(self, values: Sequence[float]) -> None:
        logs = [math.log10(v) for v in values if 0 < v < math.inf]
        self.low = math.floor(min(logs, default=-8.0))
        self.high = max(math.ceil(max(logs, default=0.0)), self.low + 1)

    def place(self, value: float) -> float:
        if value == 0:
            return _ZERO
        if not math.isfinite(value):
            return 99.0
        return self.at(math.log10(value))

    def at(self, exponent: float) -> float:
        share = (exponent - self.low) / (self.high - self.low)
        return _LEFT + share * (_RIGHT - _LEFT)

    def decades(self) -> range:
        step = math.ceil((self.high - self.low) / _MOST_TICKS)
        return range(self.low, self.high + 1, step)

    def labels(self) -> Iterator[Element]:
        yield tag("text", "0", x=_percent(_ZERO), y=13, text_anchor="middle")
        for decade in self.decades():
            x = _percent(self.at(decade))
            yield tag("text", f"1e{decade}", x=x, y=13, text_anchor="middle")


def _dot(row: Dot, axis: _Axis) -> Element:
    middle = _HEIGHT // 2
    x = axis.place(row.error)
    marks = [_line(axis.at(d), "grid") for d in axis.decades()]
    marks.append(tag("line", class_="track", x1=0, x2="100%", y1=middle, y2=middle))
    if row.limit:
        edge = axis.place(row.limit)
        marks.append(
            tag(
                "rect",
                class_="beyond",
                x=_percent(edge),
                width=_percent(100 - edge),
                height=_HEIGHT,
            )
        )
        marks.append(_line(edge, "limit"))
    marks.append(tag("circle", class_=f"dot {row.tone}", cx=_percent(x), cy=middle, r=5))
    return tag("svg", marks, width="100%", height=_HEIGHT, aria_hidden="true")


def _line(x: float, style: str) -> Element:
    return tag("line", class_=style, x1=_percent(x), x2=_percent(x), y1=0, y2=_HEIGHT)


def _percent(value: float) -> str:
    return f"{number(value)}%"
