"""Plots of the tables of docs/benchmarks.md, where each number stands once."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree as ET

PAGE = Path(__file__).parent / "benchmarks.md"
_STYLE = """
text { fill: #17202b; font: 12px system-ui, sans-serif; } .title { font-weight: bold; font-size: 14px; }
.soft { fill: #55606f; } .end { text-anchor: end; } .middle { text-anchor: middle; }
.grid { stroke: #d5dae1; } .one { stroke: #55606f; stroke-dasharray: 4 3; }
.c0 { fill: #3b5bdb; } .c1 { fill: #e8590c; } .c2 { fill: #2b8a3e; } .c3 { fill: #862e9c; }
.c4 { fill: #a37600; } .c5 { fill: #0b7285; } .bar { fill: #a5b4f3; } .ours { fill: #3b5bdb; }
@media (prefers-color-scheme: dark) {
  text { fill: #e6ebf1; } .soft { fill: #a3afbd; } .grid { stroke: #364250; } .one { stroke: #a3afbd; }
  .c0 { fill: #8ea2ff; } .c1 { fill: #ff922b; } .c2 { fill: #69db7c; } .c3 { fill: #da77f2; }
  .c4 { fill: #ffd43b; } .c5 { fill: #66d9e8; } .bar { fill: #46549c; } .ours { fill: #8ea2ff; }
}
"""  # noqa: E501
_WIDTH, _LEFT, _RIGHT, _ROW = 840, 300, 110, 20
_LONGEST = 44  # letters that fit in front of the axis


@dataclass(frozen=True)
class Table:
    """A table of the page.

    Attributes:
        names: Headings of the columns.
        rows: The cells of each row, as text.
    """

    names: list[str]
    rows: list[list[str]]

    def column(self, name: str) -> list[float | None]:
        """Return the numbers of a column; None if a cell holds none."""
        place = self.names.index(name)
        return [number(row[place]) if place < len(row) else None for row in self.rows]

    @property
    def models(self) -> list[str]:
        """The first column."""
        return [row[0] for row in self.rows]


def number(cell: str) -> float | None:
    """Return the first number of a cell."""
    match = re.search(r"-?\d[\d,]*(?:\.\d+)?", cell.replace("**", ""))
    return float(match[0].replace(",", "")) if match else None


def table(text: str, heading: str, first: str) -> Table:
    """Return the first table behind a heading whose first column has that name.

    Raises:
        ValueError: There is none.
    """
    part = text.partition(f"\n{heading}")[2]
    match = re.search(rf"^\| {re.escape(first)} \|.*?(?=\n\n)", part, re.S | re.M)
    if match is None:
        raise ValueError(f"{heading}: no table of {first}")
    lines = [
        [c.strip() for c in line.strip("| ").split(" | ")] for line in match[0].splitlines()
    ]
    return Table(lines[0], [row for row in lines[2:] if len(row) > 2])


class Plot:
    """An SVG with a title, rows of labels, and one axis."""

    def __init__(
        self, title: str, rows: Sequence[str], low: float, high: float, unit: str
    ) -> None:
        """Draw the axis and the labels."""
        self.low, self.high = low, high
        self.top = 52
        self.height = self.top + len(rows) * _ROW + 34
        self.root = ET.Element("svg", xmlns="http://www.w3.org/2000/svg")
        self.root.set("viewBox", f"0 0 {_WIDTH} {self.height}")
        self.root.set("width", str(_WIDTH))
        ET.SubElement(self.root, "title").text = title
        ET.SubElement(self.root, "style").text = _STYLE
        self.text(8, 18, title, "title")
        for step in range(6):
            value = low + (high - low) * step / 5
            x = self.x(value)
            self.line(x, self.top - 8, x, self.height - 30, "grid")
            self.text(x, self.height - 14, f"{value:,g}{unit}", "soft middle")
        for index, name in enumerate(rows):
            label = name if len(name) <= _LONGEST else f"{name[: _LONGEST - 1]}…"
            self.text(_LEFT - 8, self.y(index) + 4, label, "end")

    def x(self, value: float) -> float:
        """Return where a value lies."""
        share = (min(value, self.high) - self.low) / (self.high - self.low)
        return _LEFT + share * (_WIDTH - _LEFT - _RIGHT)

    def y(self, row: int) -> float:
        """Return the middle of a row."""
        return self.top + row * _ROW + _ROW / 2

    def text(self, x: float, y: float, told: str, style: str = "") -> None:
        """Draw text."""
        self._add("text", x=x, y=y, style=style).text = told

    def line(self, x1: float, y1: float, x2: float, y2: float, style: str) -> None:
        """Draw a line."""
        self._add("line", x1=x1, y1=y1, x2=x2, y2=y2, style=style)

    def bar(self, row: int, value: float, told: str, style: str) -> None:
        """Draw a bar from the low end of the axis, and its number."""
        left, right = self.x(self.low), self.x(value)
        at = {"x": left, "y": self.y(row) - 7, "width": max(right - left, 1), "height": 14}
        self._add("rect", style=style, **at)
        self.text(right + 6, self.y(row) + 4, told)

    def dot(self, row: int, value: float, style: str) -> None:
        """Draw a dot."""
        self._add("circle", cx=self.x(value), cy=self.y(row), r=4.5, style=style)

    def legend(self, names: Sequence[str]) -> None:
        """Draw which colour means what."""
        x = float(_LEFT)
        for index, name in enumerate(names):
            self._add("circle", cx=x, cy=34, r=4.5, style=f"c{index}")
            self.text(x + 9, 38, name)
            x += 26 + 6.6 * len(name)

    def svg(self) -> str:
        """Return the file."""
        return ET.tostring(self.root, encoding="unicode") + "\n"

    def _add(self, name: str, *, style: str, **at: float) -> ET.Element:
        found = ET.SubElement(self.root, name)
        for key, value in at.items():
            found.set(key, f"{value:.1f}".rstrip("0").rstrip("."))
        if style:
            found.set("class", style)
        return found


def dots(
    title: str, found: Table, columns: Sequence[str], base: str | None, high: float
) -> str:
    """Return a dot for each model and column, over the column that is 1."""
    whole = found.column(base) if base else [1.0] * len(found.rows)
    keep = [i for i, name in enumerate(found.models) if not name.startswith("geometric")]
    plot = Plot(title, [found.models[i] for i in keep], 0.0 if base else 0.7, high, "")
    plot.line(plot.x(1.0), plot.top - 8, plot.x(1.0), plot.height - 30, "one")
    for place in reversed(range(len(columns))):  # ours, the first, lies on top
        values = found.column(columns[place])
        for row, index in enumerate(keep):
            value, over = values[index], whole[index]
            if value is not None and over:
                plot.dot(row, value / over, f"c{place}")
    plot.legend([name.strip("`") for name in columns])
    return plot.svg()


def means(title: str, found: Table, columns: Sequence[str], base: str) -> str:
    """Return the geometric mean of each column over another, on models that all have."""
    whole = found.column(base)
    values = {name: found.column(name) for name in columns}
    rows = [i for i, w in enumerate(whole) if w and all(values[n][i] for n in columns)]
    rows = [i for i in rows if not found.models[i].startswith("geometric")]
    shares = {
        name: math.exp(sum(math.log((v[i] or 1) / (whole[i] or 1)) for i in rows) / len(rows))
        for name, v in values.items()
    }
    order = sorted(columns, key=lambda name: shares[name])
    plot = Plot(f"{title}, {len(rows)} models", [n.strip("`") for n in order], 0.0, 1.0, "")
    for row, name in enumerate(order):
        style = "ours" if name == columns[0] else "bar"
        plot.bar(row, shares[name], f"{shares[name]:.3f}", style)
    return plot.svg()


def pairs(title: str, found: Table, columns: Sequence[str], unit: str) -> str:
    """Return bars of each model and column, in one unit."""
    labels = [m if i == 0 else "" for m in found.models for i in range(len(columns))]
    values = [found.column(name) for name in columns]
    high = max(v for column in values for v in column if v is not None)
    step = 10 ** math.floor(math.log10(high))
    plot = Plot(title, labels, 0.0, math.ceil(high / step) * step, unit)
    for model in range(len(found.rows)):
        for place, column in enumerate(values):
            value = column[model]
            if value is not None:
                row = model * len(columns) + place
                name = columns[place].partition(" (")[0] if len(columns) > 1 else ""
                told = f"{value:,g}{unit} {name}".rstrip()
                plot.bar(row, value, told, f"c{place}")
    return plot.svg()


def caught(found: Table) -> Table:
    """Return the share of planted faults that were caught, now and before, in percent."""
    now, before = "now", "before"
    rows = []
    for row in found.rows:
        cells = dict(zip(found.names, row, strict=True))
        whole = total(cells["faults"])
        shares = [
            f"{100 * total(cells[name]) / whole:.0f}"
            for name in ("by default", "before the rebuild, by default")
        ]
        rows.append([f"{row[0]} ({whole})", *shares])
    return Table(["family", now, before], rows)


def total(cell: str) -> int:
    """Return the sum of the counts of a cell: ``6 / 5`` are two halves."""
    return sum(map(int, re.findall(r"\d+", cell)))


def named(found: Table, *columns: str) -> Table:
    """Return a table whose rows are named by more of its columns than the first."""
    places = [(name, found.names.index(name)) for name in columns]
    rows = [
        [", ".join([row[0], *(f"{name} {row[at]}" for name, at in places)]), *row[1:]]
        for row in found.rows
    ]
    return Table(found.names, rows)


def plots() -> dict[str, str]:
    """Return each plot by the name of its file."""
    text = PAGE.read_text("utf-8")
    nodes = table(text, "### Nodes\n", "model")
    peers = ["`optimize`", "onnxslim", "onnxsim", "onnxoptimizer", "onnxscript", "polygraphy"]
    speed = table(text, "## Speed\n", "model")
    tools = ["optimize-ort", "optimize", "onnxslim", "onnxsim"]
    cost = table(text, "### Verified and unverified runs", "model")
    reduced = table(text, "## Reducing a model", "fault")
    ratio = Table(
        ["fault", "Polygraphy", "own check"],
        [[f"{r[0]}, {r[1]} nodes", _processor(r[2]), _processor(r[5])] for r in reduced.rows],
    )
    faults = table(text, "### Planted faults\n", "family")
    gate = table(text, "### Cost\n", "model")
    streams = table(text, "## Data sets", "model")
    workers = table(text, "## Data sets", "workers")
    stops = table(text, "## Data sets", "true drop")
    return {
        "nodes-mean.svg": means("Nodes left, of the original", nodes, peers, "original"),
        "nodes.svg": dots(
            "Nodes left, over the original (1.2 and more at the edge)",
            nodes,
            peers,
            "original",
            1.2,
        ),
        "speed.svg": dots("Time of inference, over the original's", speed, tools, None, 1.2),
        "verification.svg": pairs(
            "Seconds of a whole run of optimize",
            cost,
            ["verified (s)", "unverified (s)"],
            " s",
        ),
        "reduce.svg": pairs(
            "Seconds of a processor to reduce a model", ratio, ratio.names[1:], " s"
        ),
        "faults.svg": pairs(
            "Planted faults that a check by default refuses, and did before the rebuild",
            caught(faults),
            ["now", "before"],
            " %",
        ),
        "gate.svg": pairs(
            "Seconds of a whole run of optimize, quiet machine",
            gate,
            ["verified (s)", "unverified (s)"],
            " s",
        ),
        "data-speed.svg": pairs(
            "Samples a second of processor time, two models",
            named(streams, "batch"),
            ["in process", "plain loop"],
            "",
        ),
        "data-workers.svg": pairs(
            "Seconds for 2,000 samples of five convolutions", workers, ["seconds"], " s"
        ),
        "data-stop.svg": pairs(
            "Samples until a verdict, of 50,000, by true drop (the limit is 1 %)",
            named(stops, "lost, gained"),
            ["mean samples"],
            "",
        ),
    }


def _processor(cell: str) -> str:
    """Return the processor's seconds, which stand in the first brackets behind the counts."""
    match = re.search(r"\(([\d.]+)\)(?!,)", cell)
    return match[1] if match else "-"
