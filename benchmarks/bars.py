"""``python -m benchmarks bars CACHE FOLDER``: every table that the bars are read from.

FOLDER holds exported networks (``benchmarks.export.families``), CACHE is that of ``peers``.
Both keep what was measured, so that a run that is stopped continues.
"""

from __future__ import annotations

from pathlib import Path

import click

from benchmarks import driver, growth, optimize, speed, startup, verification
from benchmarks.peers import table
from benchmarks.peers.__main__ import fill
from benchmarks.peers.corpus import listed
from benchmarks.peers.tools import OPTIMIZE, PEERS, ours

TOOLS = tuple(tool.name for tool in (*PEERS[:2], *ours((OPTIMIZE,))))
HALVES = ("looked at", "held back")


@click.command()
@click.argument("cache", type=click.Path(file_okay=False, path_type=Path))
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--runs", default=3, show_default=True, help="How often each tool is run.")
def main(cache: Path, folder: Path, runs: int) -> None:
    """Print nodes, time and inference of both halves, then cost, start-up and memory."""
    for half, half_name in enumerate(HALVES):
        names = tuple(name for name in listed(folder) if speed.half_of(name) == half)
        if not names:
            continue
        fill(cache, names, runs, TOOLS, timed=False, folder=folder)
        rows = [row for row in table.rows(cache) if row.name in names]
        _print(f"## Nodes, half {half_name}", table.nodes(rows, OPTIMIZE))
        _print(f"## Time, half {half_name}", table.times(rows))
        _print(f"## Inference, half {half_name}", [])
        words = [str(folder), "--cache", str(cache), "--half", str(half)]
        speed.main(words, standalone_mode=False)
    growth.main([str(cache), "--runs", str(runs)], standalone_mode=False)
    for section in (optimize, driver, startup, verification):
        _print("", section.tables())


def _print(title: str, lines: list[str]) -> None:
    print("\n".join(["", title, "", *lines]), flush=True)
