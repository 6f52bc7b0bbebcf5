"""The tables, from the figures in ``peers.json``."""

from __future__ import annotations

import json
import math
import statistics
from collections import Counter
from pathlib import Path
from typing import Any

import onnx

from benchmarks.peers.judge import TOLERANCE
from benchmarks.peers.measure import Cell, from_json
from benchmarks.peers.patterns import histogram
from benchmarks.peers.tools import PEERS, ours

OURS = [tool.name for tool in ours()]
NAMES = [*(tool.name for tool in PEERS), *OURS]


def describe(model: Path) -> dict[str, Any]:
    """Return nodes, operators and bytes of an original."""
    counts = histogram(onnx.load(model, load_external_data=False))
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

    def best_peer(self) -> str | None:
        """Return the peer with the fewest nodes whose result is right."""
        peers = [tool.name for tool in PEERS if self.right(tool.name)]
        return min(peers, key=lambda tool: (self.get(tool, "nodes"), tool), default=None)


def rows(cache: Path) -> list[Row]:
    """Read the figures."""
    data = json.loads((cache / "peers.json").read_text())
    return [Row(name, row) for name, row in data.items()]


def tables(cache: Path) -> list[str]:
    """Return all tables in Markdown."""
    found = rows(cache)
    runs = min(
        (len(c.seconds) for r in found for c in r.cells.values() if not c.error), default=0
    )
    return [
        *("### Nodes", "", *nodes(found), ""),
        *(
            f"### Whole processes, wall / processor seconds (medians of {runs}, in turns)",
            "",
            *times(found),
            "",
        ),
        *("### Inference by ONNX Runtime, all optimisations, over the original's", ""),
        *(*latency(found), ""),
        *("### File size over the original's", "", *sizes(found), ""),
        *("### Results that are wrong, and refusals", "", *faults(found), ""),
        *(
            "### What remains where ours has more nodes than the best peer",
            "",
            *remains(found),
        ),
    ]


def _header(first: str, names: list[str]) -> list[str]:
    return [f"| {first} | {' | '.join(names)} |", "|---" * (len(names) + 1) + "|"]


def nodes(found: list[Row]) -> list[str]:
    """Return nodes by tool, the fewest in bold, and geometric means of what remains."""
    names = [name for name in NAMES if ", " not in name]
    lines = _header("model", ["original", *names])
    for row in found:
        counts = {n: row.get(n, "nodes") for n in names if row.right(n)}
        least = min(counts.values(), default=0)
        cells = [
            (
                ("**{}**" if counts[n] == least else "{}").format(counts[n])
                if n in counts
                else "-"
            )
            if n in counts
            else "-"
            for n in names
        ]
        lines.append(f"| {row.name} | {row.original['nodes']} | {' | '.join(cells)} |")
    means = ["1"]
    for name in names:
        # A refused or wrong result leaves its user with the original.
        left = [
            (row.get(name, "nodes") if row.right(name) else row.original["nodes"])
            / row.original["nodes"]
            for row in found
            if name in row.cells
        ]
        means.append(f"{_mean(left):.3f}" if left else "-")
    return [*lines, f"| geometric mean of nodes left | {' | '.join(means)} |"]


def _mean(values: list[float]) -> float:
    return math.exp(sum(map(math.log, values)) / len(values))


def times(found: list[Row]) -> list[str]:
    """Return wall seconds by tool, and processor seconds behind a slash."""

    def of(row: Row, name: str) -> str:
        cell = row.cells.get(name)
        if cell is None or cell.error:
            return "-"
        return f"{cell.median:.1f} / {statistics.median(cell.processor):.1f}"

    lines = _header("model", NAMES)
    return lines + [
        f"| {row.name} | {' | '.join(of(row, name) for name in NAMES)} |" for row in found
    ]


def _ratios(found: list[Row], key: str, of: str) -> list[str]:
    names = [name for name in NAMES if ", " not in name]

    def ratio(row: Row, name: str) -> str:
        if not row.right(name):
            return "-"
        base = row.get(name, of) if of == "original_ms" else row.original[of]
        return f"{row.get(name, key) / base:.3f}"

    lines = _header("model", names)
    return lines + [
        f"| {row.name} | {' | '.join(ratio(row, name) for name in names)} |" for row in found
    ]


def latency(found: list[Row]) -> list[str]:
    """Return milliseconds over those of the original, timed in turns with it."""
    return _ratios(found, "ms", "original_ms")


def sizes(found: list[Row]) -> list[str]:
    """Return bytes over those of the original."""
    return _ratios(found, "bytes", "bytes")


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


def remains(found: list[Row]) -> list[str]:
    """Return the operators of which ours has more than the best peer, and fewer."""
    lines = []
    for row in found:
        best = row.best_peer()
        for name in ("simplify", "optimize"):
            own = next((n for n in (name, f"{name}, unverified") if row.right(n)), None)
            if best is None or own is None or row.get(own, "nodes") <= row.get(best, "nodes"):
                continue
            a, b = Counter(row.get(own, "operators")), Counter(row.get(best, "operators"))
            more = ", ".join(f"{op} {n}" for op, n in (a - b).most_common())
            fewer = ", ".join(f"{op} {n}" for op, n in (b - a).most_common())
            counts = f"`{name}` {row.get(own, 'nodes')}, {best} {row.get(best, 'nodes')}"
            lines.append(f"- {row.name}, {counts}: more {more}; fewer {fewer or 'none'}")
    return lines or ["None."]
