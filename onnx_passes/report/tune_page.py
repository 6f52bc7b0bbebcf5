"""The result of a search for precisions as one self-contained HTML page.

Its chart shows error against cost, one point for each model.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from onnx_passes.plain import PlainDict, PlainMapping
from onnx_passes.report.pages import BarRow, render_page, scaled
from onnx_passes.report.summary import Words
from onnx_passes.report.text import amount, ending_text, number, plural, size, snr_text

_WIDTH, _HEIGHT = 960, 420
_LEFT, _RIGHT, _TOP, _BOTTOM = 74, _WIDTH - 36, 18, _HEIGHT - 52
_LEAST = 1e-12
"""Shares of a budget below this are drawn as this."""


@dataclass(frozen=True)
class Point:
    """A model.

    The error is a share of the budget; 1 is the limit. The tone is "front" for a predicted
    model; "good", "bad" or "chosen" for a measured one.
    """

    cost: float
    error: float
    tone: str
    told: Sequence[str]


class FrontChart:
    """The plot in pixels; later points are drawn over earlier ones."""

    width, height = _WIDTH, _HEIGHT
    left, right, top, bottom = _LEFT, _RIGHT, _TOP, _BOTTOM

    def __init__(self, points: Sequence[Point], unit: str, highest: float) -> None:
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


_MOST_NAMES, _LONGEST = 3, 84
_SAVED = {"time": "less time", "size": "less memory for weights", "bops": "fewer operations"}
"""What is saved, by objective."""


def tune_page(data: PlainMapping, title: str) -> str:
    """Return a result, as ``--json`` has it, as a page for a browser."""
    cost = data["cost"]
    saved = 1 - cost["chosen"] / cost["original"] if cost["original"] else 0.0
    head = f"{saved:.1%} {_SAVED[data['objective']]}" if saved > 0 else "nothing was changed"
    words = Words(head, "good" if saved > 0 else "warn")
    points = list(_points(data))
    return render_page(
        "tune.html",
        f"{words.head}: {title[:200]}",
        "report.css",
        words=words,
        model=title,
        lead="; ".join(_lead(data)),
        # On a log axis, what has no error lies on the axis.
        front=FrontChart(points, data["unit"], cost["original"])
        if any(0 < point.error < math.inf for point in points)
        else None,
        costs=_costs(points, cost["original"], data["unit"]),
        measured=_measured(data),
        groups=[_group(group, data["unit"]) for group in data["groups"]],
        tried=_tried(data),
    )


def _lead(data: PlainMapping) -> Iterator[str]:
    for name, value in sorted(data["values"].items()):
        low, high = data["budget"][name]
        yield f"{name} {float(value):.6g}, allowed {low:g} to {high:g}"


def _costs(points: list[Point], original: float, unit: str) -> Sequence[BarRow]:
    rows = [BarRow("original", amount(original, unit), [[(original, "was")]])]
    for point in points:
        if point.tone != "front":
            style = "off" if point.tone == "bad" else "first"
            told = f"{amount(point.cost, unit)}, {1 - point.cost / (original or 1):.1%} less"
            rows.append(BarRow(point.told[0], told, [[(point.cost, style)]]))
    return scaled(rows)


def _points(data: PlainMapping) -> Iterator[Point]:
    start = data["cost"]["original"]
    for entry in data["front"]:
        share = float(entry["expected"])
        told = f"expected to use {share:.3g} of the budget"
        yield Point(entry["cost"], share, "front", _told(entry, start, data, told))
    best = {group["group"]: group["format"] for group in data["groups"]}
    for entry in data["tried"]:
        share = float(entry["measured"] if entry["measured"] is not None else "inf")
        chosen = entry["accepted"] and entry["names"] == best
        tone = "chosen" if chosen else "good" if entry["accepted"] else "bad"
        head = "chosen" if chosen else "accepted" if entry["accepted"] else "rejected"
        told = f"{head}: {entry['why'] or f'uses {share:.3g} of the budget'}"
        yield Point(entry["cost"], share, tone, _told(entry, start, data, told))


def _told(entry: PlainMapping, start: float, data: PlainMapping, head: str) -> list[str]:
    saved = 1 - entry["cost"] / start if start else 0.0
    lines = [head, f"cost {amount(entry['cost'], data['unit'])}, {saved:.1%} less"]
    by_format: dict[str, list[str]] = defaultdict(list)
    for group, name in entry["names"].items():
        by_format[name].append(group)
    for name, groups in sorted(by_format.items()):
        shown = ", ".join(groups[:_MOST_NAMES])
        more = f" and {len(groups) - _MOST_NAMES} more" if len(groups) > _MOST_NAMES else ""
        lines.append(f"{name}: {shown}{more}")
    return [line if len(line) <= _LONGEST else f"{line[: _LONGEST - 1]}…" for line in lines]


def _measured(data: PlainMapping) -> list[list[str]]:
    rows: list[list[str]] = []
    for name, value in sorted(data["values"].items()):
        low, high = data["budget"][name]
        share = float(data["shares"].get(name, 0.0))
        rows.append([name, f"{float(value):.6g}", f"{low:g} to {high:g}", f"{share:.3g}"])
    flips = data["flips"]
    if flips is not None:
        told = f"{flips['share']:.3%}, at most {flips['at most']:.3%} of all data"
        rows.append(["flips", told, f"{flips['confidence']:.0%} confidence", flips["kind"]])
    rows.append(
        [
            "cost",
            amount(data["cost"]["chosen"], data["unit"]),
            f"original {amount(data['cost']['original'], data['unit'])}",
            ending_text(data["gap"], data["ended"]),
        ]
    )
    return rows


def _group(group: PlainMapping, unit: str) -> PlainDict:
    """Return a group, and why it has no other format."""
    found = [
        f"{name}, {snr_text(other['snr'], 0)} dB, gain {amount(other['gain'], unit)}: "
        f"{other['why']}"
        for name, other in group["others"].items()
    ]
    refused = [f"{name}: refused, {why[:300]}" for name, why in group["refused"].items()]
    counts = [plural(len(found), "other format")] if found else []
    counts += [f"{len(refused)} refused"] if refused else []
    gain = amount(group["gain"], unit)
    return {
        "name": group["group"],
        "cells": [group["format"], snr_text(group["snr"], 1), gain],
        "counts": ", ".join(counts),
        "reasons": [*found, *refused],
    }


def _tried(data: PlainMapping) -> list[list[str]]:
    return [
        [
            str(place),
            amount(entry["cost"], data["unit"]),
            f"{float(entry['predicted']):.3g}",
            "" if entry["measured"] is None else f"{float(entry['measured']):.3g}",
            "accepted" if entry["accepted"] else entry["why"][:200],
        ]
        for place, entry in enumerate(data["tried"], 1)
    ]
