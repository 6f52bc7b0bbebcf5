"""Plots of the tables of docs/benchmarks.md, where each number stands once."""

from __future__ import annotations

import io
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure

PAGE = Path(__file__).parent / "benchmarks.md"
# A browser uses these, or the dark ones below if its reader set a dark scheme.
_INK, _SOFT, _GRID, _BAR = "#17202b", "#55606f", "#d5dae1", "#a5b4f3"
_COLOURS = ("#3b5bdb", "#e8590c", "#2b8a3e", "#862e9c", "#a37600", "#0b7285")
_DARK = {_INK: "#e6ebf1", _SOFT: "#a3afbd", _GRID: "#364250", _BAR: "#46549c"} | dict(
    zip(
        _COLOURS,
        ("#8ea2ff", "#ff922b", "#69db7c", "#da77f2", "#ffd43b", "#66d9e8"),
        strict=True,
    )
)
# The same bytes each time; text stays text.
_SETTINGS = {
    "svg.fonttype": "none",
    "svg.hashsalt": "onnx-passes",
    "font.family": "sans-serif",
    "font.size": 9,
    "text.color": _INK,
    "text.parse_math": False,
    "xtick.labelcolor": _SOFT,
    "ytick.labelcolor": _INK,
}
_WIDTH, _LEFT, _RIGHT, _ROW, _TOP, _BOTTOM = 630, 225, 82, 15, 39, 25  # points
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


def _plot(
    title: str, rows: Sequence[str], low: float, high: float, unit: str = ""
) -> tuple[Figure, Axes]:
    """Return a plot with a title, rows of labels, and one axis."""
    tall = _TOP + len(rows) * _ROW + _BOTTOM
    figure = Figure((_WIDTH / 72, tall / 72))
    figure.text(0.01, 1 - 13 / tall, title, fontsize=10.5, fontweight="bold")
    wide = _WIDTH - _LEFT - _RIGHT
    place = (_LEFT / _WIDTH, _BOTTOM / tall, wide / _WIDTH, len(rows) * _ROW / tall)
    axes = figure.add_axes(place, frameon=False, xlim=(low, high), axisbelow=True)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    ticks = [low + (high - low) * step / 5 for step in range(6)]
    axes.set_xticks(ticks, labels=[f"{tick:,g}{unit}" for tick in ticks])
    shown = [name if len(name) <= _LONGEST else f"{name[: _LONGEST - 1]}…" for name in rows]
    axes.set_yticks(range(len(rows)), labels=shown)
    axes.tick_params(length=0)
    axes.grid(axis="x", color=_GRID)
    return figure, axes


def _bar(axes: Axes, row: int, value: float, told: str, colour: str) -> None:
    """Draw a bar from the low end of the axis, and its number."""
    axes.barh(row, value, height=0.7, color=colour)
    axes.annotate(told, (value, row), (4, 0), textcoords="offset points", va="center")


def _svg(figure: Figure) -> str:
    file = io.StringIO()
    figure.savefig(file, format="svg", transparent=True, metadata={"Date": None})
    text = file.getvalue()
    names = {light: f"--c{place}" for place, light in enumerate(_DARK)}
    light, dark = (
        "".join(f"{names[key]}: {value}; " for key, value in colours)
        for colours in (((key, key) for key in _DARK), _DARK.items())
    )
    style = f":root {{ {light}}} @media (prefers-color-scheme: dark) {{ :root {{ {dark}}} }}"
    for colour, name in names.items():
        text = text.replace(colour, f"var({name})")
    return text.replace("<defs>", f"<style>{style}</style>\n <defs>", 1)


@rc_context(_SETTINGS)
def dots(
    title: str, found: Table, columns: Sequence[str], base: str | None, high: float
) -> str:
    """Return a dot for each model and column, over the column that is 1."""
    whole = found.column(base) if base else [1.0] * len(found.rows)
    keep = [i for i, name in enumerate(found.models) if not name.startswith("geometric")]
    figure, axes = _plot(title, [found.models[i] for i in keep], 0 if base else 0.7, high)
    axes.axvline(1.0, color=_SOFT, linestyle="--", linewidth=0.8)
    for place in reversed(range(len(columns))):  # ours, the first, lies on top
        values = found.column(columns[place])
        shares = [
            (min(value / over, high), row)
            for row, index in enumerate(keep)
            if (value := values[index]) is not None and (over := whole[index])
        ]
        name = columns[place].strip("`")
        axes.scatter(
            *zip(*shares, strict=True), s=36, c=_COLOURS[place], label=name, clip_on=False
        )
    keys, names = axes.get_legend_handles_labels()
    tall = _TOP + len(keep) * _ROW + _BOTTOM
    figure.legend(
        keys[::-1],
        names[::-1],
        bbox_to_anchor=(1, 1 - 20 / tall),
        ncols=len(names),
        frameon=False,
        handlelength=0.6,
        columnspacing=1,
        borderpad=0,
    )
    return _svg(figure)


@rc_context(_SETTINGS)
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
    figure, axes = _plot(
        f"{title}, {len(rows)} models", [n.strip("`") for n in order], 0.0, 1.0
    )
    for row, name in enumerate(order):
        colour = _COLOURS[0] if name == columns[0] else _BAR
        _bar(axes, row, shares[name], f"{shares[name]:.3f}", colour)
    return _svg(figure)


@rc_context(_SETTINGS)
def pairs(title: str, found: Table, columns: Sequence[str], unit: str) -> str:
    """Return bars of each model and column, in one unit."""
    labels = [m if i == 0 else "" for m in found.models for i in range(len(columns))]
    values = [found.column(name) for name in columns]
    high = max(v for column in values for v in column if v is not None)
    step = 10 ** math.floor(math.log10(high))
    figure, axes = _plot(title, labels, 0.0, math.ceil(high / step) * step, unit)
    for model in range(len(found.rows)):
        for place, column in enumerate(values):
            value = column[model]
            if value is not None:
                row = model * len(columns) + place
                name = columns[place].partition(" (")[0] if len(columns) > 1 else ""
                _bar(axes, row, value, f"{value:,g}{unit} {name}".rstrip(), _COLOURS[place])
    return _svg(figure)


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
    speed = table(text, "## Speed\n", "networks")
    tools = ["optimize-ort", "optimize", "onnxslim", "onnxsim"]
    cost = table(text, "### Runs by the number of nodes", "model")
    reduced = table(text, "## Reducing a model", "fault")
    ratio = Table(
        ["fault", "Polygraphy", "own check"],
        [[f"{r[0]}, {r[1]} nodes", _processor(r[2]), _processor(r[5])] for r in reduced.rows],
    )
    streams = table(text, "## Data sets", "model")
    return {
        "nodes-mean.svg": means("Nodes left, of the original", nodes, peers, "original"),
        "nodes.svg": dots(
            "Nodes left, over the original (1.2 and more at the edge)",
            nodes,
            peers,
            "original",
            1.2,
        ),
        "speed.svg": dots(
            "Time of inference, over the original's, means", speed, tools, None, 1.1
        ),
        "verification.svg": pairs(
            "Seconds of a processor for a whole run",
            Table(cost.names, [r for r in cost.rows if not r[0].startswith("geometric")]),
            ["verified", "unverified", "onnxsim 0.8.1"],
            " s",
        ),
        "reduce.svg": pairs(
            "Seconds of a processor to reduce a model", ratio, ratio.names[1:], " s"
        ),
        "data-speed.svg": pairs(
            "Samples a second of processor time, two models",
            named(streams, "batch"),
            ["in process", "plain loop"],
            "",
        ),
    }


def _processor(cell: str) -> str:
    """Return the processor's seconds, which stand in the first brackets behind the counts."""
    match = re.search(r"\(([\d.]+)\)(?!,)", cell)
    return match[1] if match else "-"
