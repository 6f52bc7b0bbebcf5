"""Error against cost, one point for each model, which shows what changed when pointed at."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from onnx_passes.report.page.markup import Element, tag
from onnx_passes.report.text import number, size

_WIDTH, _HEIGHT = 960, 420
_LEFT, _RIGHT, _TOP, _BOTTOM = 74, 36, 18, 52
_LINE, _LETTER, _MOST_LINES = 17, 7.0, 9
_LEAST = 1e-4
"""Shares of a budget below this stand at the bottom."""


@dataclass(frozen=True)
class Point:
    """A model.

    Attributes:
        cost: What it costs.
        error: Which share of the budget it uses; 1 is the limit.
        tone: "front" for one that was predicted; "good", "bad" or "chosen" for one that was
            measured.
        told: What it is and what changed, as lines.
    """

    cost: float
    error: float
    tone: str
    told: Sequence[str]


def plot(points: Sequence[Point], unit: str, highest: float) -> Element:
    """Return the plot.

    Args:
        points: The models; later ones are drawn over earlier ones.
        unit: Of the cost.
        highest: The cost at the right end, that of the original.
    """
    axes = _Axes(points, highest)
    order = sorted(points, key=lambda p: ("front", "bad", "good", "chosen").index(p.tone))
    line = [p for p in points if p.tone == "front"]
    return tag(
        "svg",
        list(_grid(axes, unit)),
        _path(axes, line),
        [_mark(axes, point) for point in order],
        class_="front",
        viewBox=f"0 0 {_WIDTH} {_HEIGHT}",
        role="img",
        aria_label=f"Share of the budget against cost in {unit}, {len(points)} models",
    )


class _Axes:
    def __init__(self, points: Sequence[Point], highest: float) -> None:
        finite = [p.error for p in points if 0 < p.error < math.inf]
        self.low = math.floor(math.log10(max(_LEAST, min([*finite, 0.1]))))
        self.high = max(1, math.ceil(math.log10(max([*finite, 1.0])) + 0.05))
        self.most = max([highest, *(p.cost for p in points)]) or 1.0

    def x(self, cost: float) -> float:
        return _LEFT + (_WIDTH - _LEFT - _RIGHT) * cost / self.most

    def y(self, error: float) -> float:
        if error <= 0 or math.isnan(error):
            return _HEIGHT - _BOTTOM
        exponent = self.high if math.isinf(error) else math.log10(error)
        share = (min(max(exponent, self.low), self.high) - self.low) / (self.high - self.low)
        return _HEIGHT - _BOTTOM - share * (_HEIGHT - _BOTTOM - _TOP)


def _grid(axes: _Axes, unit: str) -> Iterator[Element]:
    for decade in range(axes.low, axes.high + 1):
        y = axes.y(10.0**decade)
        style = "limit" if decade == 0 else "grid"
        yield tag("line", class_=style, x1=_LEFT, x2=_WIDTH - _RIGHT, y1=y, y2=y)
        shown = "0" if decade == axes.low else f"{10.0**decade:g}"
        yield tag("text", shown, x=_LEFT - 10, y=y + 4, text_anchor="end")
    for share in (0, 0.25, 0.5, 0.75, 1):
        x = axes.x(share * axes.most)
        yield tag("line", class_="grid", x1=x, x2=x, y1=_TOP, y2=_HEIGHT - _BOTTOM)
        cost = share * axes.most
        told = size(round(cost)) if unit == "B" else number(cost)
        yield tag("text", told, x=x, y=_HEIGHT - _BOTTOM + 20, text_anchor="middle")
    middle = (_LEFT + _WIDTH - _RIGHT) / 2
    yield tag("text", f"cost [{unit}]", x=middle, y=_HEIGHT - 8, text_anchor="middle")
    yield tag(
        "text",
        "share of the budget",
        x=16.0,
        y=_HEIGHT / 2,
        transform=f"rotate(-90 16 {_HEIGHT / 2:g})",
        text_anchor="middle",
    )
    yield tag("text", "limit", x=_WIDTH - _RIGHT, y=axes.y(1.0) - 6, text_anchor="end")


def _path(axes: _Axes, points: Sequence[Point]) -> Element | None:
    if len(points) < 2:
        return None
    found = sorted(points, key=lambda p: p.cost)
    line = " L".join(f"{axes.x(p.cost):.1f} {axes.y(p.error):.1f}" for p in found)
    return tag("path", class_="path", d=f"M{line}", fill="none")


def _mark(axes: _Axes, point: Point) -> Element:
    x, y = axes.x(point.cost), axes.y(point.error)
    size = 8 if point.tone == "chosen" else 5
    return tag(
        "g",
        tag("title", "\n".join(point.told)),
        tag("circle", class_="halo", cx=x, cy=y, r=13),
        tag("circle", class_=f"point {point.tone}", cx=x, cy=y, r=size),
        _tip(x, y, point.told[:_MOST_LINES]),
        class_="model",
        tabindex=0,
    )


def _tip(x: float, y: float, lines: Sequence[str]) -> Element:
    width = max(map(len, lines)) * _LETTER + 24
    height = len(lines) * _LINE + 16
    left = min(max(_LEFT, x + 14), _WIDTH - width - 4)
    top = y + 14 if y + 14 + height < _HEIGHT else y - 14 - height
    top = max(2.0, top)
    texts = [
        tag("text", line, x=left + 12, y=top + 20 + _LINE * place, class_="line")
        for place, line in enumerate(lines)
    ]
    box = tag("rect", x=left, y=top, width=width, height=float(height), rx=8)
    return tag("g", box, texts, class_="tip")
