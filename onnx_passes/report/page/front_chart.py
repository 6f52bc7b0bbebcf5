"""Error against cost, one point for each model, which shows what changed when pointed at."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from onnx_passes.plain import PlainDict
from onnx_passes.report.text import number, size

_WIDTH, _HEIGHT = 960, 420
_LEFT, _RIGHT, _TOP, _BOTTOM = 74, _WIDTH - 36, 18, _HEIGHT - 52
_LEAST = 1e-12
"""Shares of a budget below this are drawn as this."""


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


class FrontChart:
    """The plot in pixels.

    Args:
        points: The models; later ones are drawn over earlier ones.
        unit: Of the cost.
        highest: The cost at the right end, that of the original.
    """

    width, height = _WIDTH, _HEIGHT
    left, right, top, bottom = _LEFT, _RIGHT, _TOP, _BOTTOM

    def __init__(self, points: Sequence[Point], unit: str, highest: float) -> None:
        """Place the points, the lines of the grid, and the front."""
        self.unit = unit
        finite = [p.error for p in points if 0 < p.error < math.inf]
        # The line below the least error is that of none.
        self._low = math.floor(math.log10(max(_LEAST, min([*finite, 0.1])))) - 1
        self._high = max(1, math.ceil(math.log10(max([*finite, 1.0])) + 0.05))
        self._most = max([highest, *(p.cost for p in points)]) or 1.0
        self.limit = self._y(1.0)
        self.rows = [
            (
                self._y(10.0**decade),
                "0"
                if decade == self._low
                else f"1e{decade}"
                if decade < -2
                else f"{10.0**decade:g}",
                "grid" if decade else "limit",
            )
            for decade in range(self._low, self._high + 1)
        ]
        costs = [self._most * quarter / 4 for quarter in range(5)]
        self.columns = [
            (self._x(cost), size(round(cost)) if unit == "B" else number(cost))
            for cost in costs
        ]
        order = sorted(points, key=lambda p: ("front", "bad", "good", "chosen").index(p.tone))
        self.marks = [self._mark(point) for point in order]
        front = sorted((p for p in points if p.tone == "front"), key=lambda p: p.cost)
        line = " L".join(f"{self._x(p.cost):.1f} {self._y(p.error):.1f}" for p in front)
        self.path = f"M{line}" if len(front) > 1 else ""

    def _x(self, cost: float) -> float:
        return _LEFT + (_RIGHT - _LEFT) * cost / self._most

    def _y(self, error: float) -> float:
        if error <= 0 or math.isnan(error):
            return _BOTTOM
        exponent = self._high if math.isinf(error) else math.log10(error)
        share = (min(max(exponent, self._low), self._high) - self._low) / (
            self._high - self._low
        )
        return _BOTTOM - share * (_BOTTOM - _TOP)

    def _mark(self, point: Point) -> PlainDict:
        x, y = self._x(point.cost), self._y(point.error)
        return {"x": x, "y": y, "tone": point.tone, "told": point.told}
