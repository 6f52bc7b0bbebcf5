"""The tables, from the figures in ``peers.json``."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from benchmarks.peers.judge import TOLERANCE, histogram
from benchmarks.peers.measure import Cell, from_json
from benchmarks.peers.tools import OPTIMIZE, PEERS, ours

OURS = [tool.name for tool in ours()]
BEST = "best peer"
NAMES = [*(tool.name for tool in PEERS), *OURS]


def describe(model: Path) -> dict[str, Any]:
    """Return nodes, operators and bytes of an original."""
    counts = histogram(model)
    size = model.stat().st_size
    return {"nodes": counts.total(), "operators": dict(counts.most_common()), "bytes": size}


class Row:
    """One model of ``peers.json``."""

    def __init__(self, name: str, data: dict[str, Any]) -> None:
        self.name = name
        self.original: dict[str, Any] = data["original"]
        self.cells: dict[str, Cell] = from_json(data["cells"])

    def right(self, tool: str) -> bool:
        """Whether a tool made a valid model of this one that computes the same."""
        cell = self.cells.get(tool)
        return cell is not None and not cell.error and not cell.judged["fault"]

    def get(self, tool: str, key: str) -> Any:
        """Return what was measured of a right result."""
        return self.cells[tool].judged[key]

    def own(self) -> str | None:
        """Return the run of ours that has a right result, verified or not."""
        return next((name for name in OURS if self.right(name)), None)


def rows(cache: Path) -> list[Row]:
    """Read the figures."""
    data = json.loads((cache / "peers.json").read_text())
    return [Row(name, row) for name, row in data.items()]


def tables(cache: Path) -> list[str]:
    """Return all tables in Markdown."""
    found = rows(cache)
    return [
        *("### Nodes", "", *nodes(found), ""),
        *("### Inference by ONNX Runtime, all optimisations, over the original's", ""),
        *("Processor seconds of one thread; beside it the original's, measured again.", ""),
        *(*latency(found), ""),
        *("### File size over the original's", "", *sizes(found), ""),
        *("### Results that are wrong, and refusals", "", *faults(found)),
    ]


def _header(first: str, names: list[str]) -> list[str]:
    return [f"| {first} | {' | '.join(names)} |", "|---" * (len(names) + 1) + "|"]


def nodes(found: list[Row], preset: str = OPTIMIZE) -> list[str]:
    """Return nodes of a preset and its peers, the fewest in bold, and geometric means."""
    peers = [tool.name for tool in PEERS]
    lines = _header("model", ["original", *peers, preset])
    left: dict[str, list[float]] = {name: [] for name in (*peers, BEST, preset)}
    for row in found:
        counts = {n: row.get(n, "nodes") for n in peers if row.right(n)}
        own = row.own()
        original = counts[BEST] = row.original["nodes"]
        if any(name != BEST for name in counts):
            counts[BEST] = min(n for name, n in counts.items() if name != BEST)
        if own is not None:
            counts[preset] = row.get(own, "nodes")
        least = min(counts.values())
        cells = [_cell(counts.get(name), least) for name in (*peers, preset)]
        lines.append(f"| {row.name} | {original} | {' | '.join(cells)} |")
        for name, ratios in left.items():
            # A refused or wrong result leaves its user with the original.
            if name in counts or name in row.cells:
                ratios.append(counts.get(name, original) / original)
    means = [f"{_mean(left[n]):.3f}" if left[n] else "-" for n in (*peers, preset)]
    best = f"; of the best peer of each model {_mean(left[BEST]):.3f}" if left[BEST] else ""
    return [*lines, f"| geometric mean of nodes left{best} | 1 | {' | '.join(means)} |"]


def _cell(count: int | None, least: int) -> str:
    if count is None:
        return "-"
    return f"**{count}**" if count == least else str(count)


def _mean(values: list[float]) -> float:
    return math.exp(sum(map(math.log, values)) / len(values))


def latency(found: list[Row]) -> list[str]:
    """Return the time of an inference over the original's, and the original's again."""
    lines = _header("model", [*NAMES, "the original again"])
    for row in found:
        timed = [c.judged for c in row.cells.values() if "again" in c.judged]
        again = f"{timed[0]['again']:.3f}" if timed else "-"
        told = " | ".join(_ratio(row, name, "latency", 1) for name in NAMES)
        lines.append(f"| {row.name} | {told} | {again} |")
    return lines


def sizes(found: list[Row]) -> list[str]:
    """Return bytes over those of the original."""
    return _header("model", NAMES) + [
        f"| {row.name} | "
        f"{' | '.join(_ratio(row, name, 'bytes', row.original['bytes']) for name in NAMES)} |"
        for row in found
    ]


def _ratio(row: Row, tool: str, key: str, base: float) -> str:
    found = row.cells[tool].judged.get(key) if row.right(tool) else None
    return f"{found / base:.3f}" if isinstance(found, int | float) else "-"


def faults(found: list[Row]) -> list[str]:
    """Return what went wrong, by model and tool."""
    said = [
        "Outputs are compared with ONNX Runtime's optimisations off; a difference may be at "
        f"most {TOLERANCE:g} of the largest absolute value of an output.",
        "",
    ]
    wrong = [
        f"- {row.name}, {name}: {cell.error or cell.judged['fault']}"
        for row in found
        for name, cell in row.cells.items()
        if cell.error or cell.judged["fault"]
    ]
    return said + (wrong or ["None."])
