"""Run every tool on a model, in turns, and judge the last result of each."""

from __future__ import annotations

import json
import math
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.peers.tools import Tool
from benchmarks.processes import run

SECONDS = 900.0
"""Limit of a run of a tool whose processor time is not limited, and of a judgement."""
WALL_FACTOR = 10
"""A run is also stopped after so many times its limit of processor time, in wall time."""


@dataclass
class Cell:
    """What a tool made of a model.

    Attributes:
        seconds: Wall time of each whole process.
        processor: Processor seconds of each, which other work on the machine disturbs less.
        error: Why there is no result, empty if there is one.
        judged: What ``benchmarks.peers.judge`` said of the result.
        megabytes: Peak of anonymous memory of each, over all its processes.
    """

    seconds: list[float] = field(default_factory=list)
    processor: list[float] = field(default_factory=list)
    error: str = ""
    judged: dict[str, object] = field(default_factory=dict)
    megabytes: list[float] = field(default_factory=list)


def measure(
    cache: Path,
    model: Path,
    tools: Sequence[Tool],
    runs: int,
    keep: Path | None = None,
    *,
    timed: bool = True,
    processor: float = math.inf,
) -> dict[str, Cell]:
    """Run tools on a model in turns.

    Args:
        cache: Where environments and results are.
        model: An ONNX file.
        tools: What to run.
        runs: How often each.
        keep: Folder that keeps the results; by default they go when they are judged.
        timed: Whether inference with the results is timed; they are compared in any case.
        processor: Processor seconds beyond which a run is stopped.
    """
    limit = SECONDS if processor == math.inf else WALL_FACTOR * processor
    folder = keep or cache / "results"
    folder.mkdir(parents=True, exist_ok=True)
    places = {tool.name: folder / tool.name.replace(", ", "-") for tool in tools}
    targets = {name: place / "model.onnx" for name, place in places.items()}
    cells = {tool.name: Cell() for tool in tools}
    for _ in range(runs):
        for tool in tools:
            cell, target = cells[tool.name], targets[tool.name]
            if cell.error:
                continue
            # Some tools write weights beside the model, and append to what is there.
            shutil.rmtree(target.parent, ignore_errors=True)
            target.parent.mkdir()
            done = run(tool.command(cache, model, target), limit, processor=processor)
            cell.seconds.append(done.seconds)
            cell.megabytes.append(done.megabytes)
            cell.processor.append(done.processor)
            cell.error = done.error or ("" if target.exists() else "it wrote nothing")
    results = {name: targets[name] for name, c in cells.items() if not c.error}
    judge(model, results, cells)
    if timed:
        time_inference(model, results, cells)
    if keep is None:
        for place in places.values():
            shutil.rmtree(place, ignore_errors=True)
    return cells


def judge(model: Path, results: dict[str, Path], cells: dict[str, Cell]) -> None:
    """Fill ``judged`` of each result; a result that ends the process is one that crashes."""
    for name, path in results.items():
        try:
            cells[name].judged = ask("judge", model, path)
        except RuntimeError as error:
            cells[name].judged = {"fault": f"judging {error}"}


def time_inference(model: Path, results: dict[str, Path], cells: dict[str, Cell]) -> None:
    """Add the latencies of the results that are right, and of the original, to ``judged``."""
    right = {name: path for name, path in results.items() if not cells[name].judged["fault"]}
    original, again, *others = ask("latency", model, *right.values())
    for name, taken in zip(right, others, strict=True):
        cells[name].judged |= {"original_ms": original, "again": again, "latency": taken}


def ask(module: str, *paths: Path) -> Any:
    """Return what a module of this package prints as JSON, in a process of its own.

    Raises:
        RuntimeError: It says nothing.
    """
    command = [sys.executable, "-m", f"benchmarks.peers.{module}", *map(str, paths)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        raise RuntimeError(f"was still running after {SECONDS:g} s") from None
    lines = done.stdout.splitlines()
    if done.returncode or not lines:
        raise RuntimeError(f"ended with {done.returncode}: {done.stderr[-300:]}")
    return json.loads(lines[-1])


def to_json(cells: dict[str, Cell]) -> dict[str, object]:
    """Return cells as what ``json`` writes."""
    return {name: asdict(cell) for name, cell in cells.items()}


def from_json(data: dict[str, dict[str, object]]) -> dict[str, Cell]:
    """Return what ``to_json`` was given."""
    return {name: Cell(**cell) for name, cell in data.items()}  # type: ignore[arg-type]  # as written
