"""Run every tool on a model, in turns, and judge the last result of each."""

from __future__ import annotations

import json
import math
import os
import resource
import shutil
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.environments import clean_environment
from benchmarks.peers.tools import Tool
from benchmarks.processes import watch

SECONDS = 900.0
"""Limit of one run of a tool, unless its processor time is limited."""
WALL_FACTOR = 10
"""A run is also stopped after so many times its limit of processor time, in wall time."""
JUDGE_SECONDS = 900.0


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

    @property
    def median(self) -> float:
        """Median of ``seconds``."""
        return statistics.median(self.seconds)


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
            command, before = tool.command(cache, model, target), _processor()
            seconds, megabytes, error = run(command, limit, processor)
            cell.seconds.append(seconds)
            cell.megabytes.append(megabytes)
            cell.processor.append(_processor() - before)
            cell.error = error or ("" if target.exists() else "it wrote nothing")
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
        said, fault = _ask("judge", model, path)
        cells[name].judged = {"fault": f"judging {fault}"} if fault else said


def time_inference(model: Path, results: dict[str, Path], cells: dict[str, Cell]) -> None:
    """Add the latencies of the results that are right, and of the original, to ``judged``."""
    right = {name: path for name, path in results.items() if not cells[name].judged["fault"]}
    said, fault = _ask("latency", model, *right.values())
    if fault:
        raise RuntimeError(f"timing inference {fault}")
    original, again, *others = said
    for name, taken in zip(right, others, strict=True):
        cells[name].judged |= {"original_ms": original, "again_ms": again, "ms": taken}


def _ask(module: str, *paths: Path) -> tuple[Any, str]:
    """Return what a module of this package prints, or why it ended without; else empty."""
    command = [sys.executable, "-m", f"benchmarks.peers.{module}", *map(str, paths)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=JUDGE_SECONDS)
    except subprocess.TimeoutExpired:
        return None, f"was still running after {JUDGE_SECONDS:g} s"
    lines = done.stdout.splitlines()
    if done.returncode or not lines:
        return None, f"ended with {done.returncode}: {done.stderr[-300:]}"
    return json.loads(lines[-1]), ""


def run(
    command: Sequence[str], limit: float, processor: float = math.inf
) -> tuple[float, float, str]:
    """Run a command, and stop it beyond a limit.

    Args:
        command: The command.
        limit: Seconds of wall time.
        processor: Seconds of processor time, of all its processes.

    Returns:
        Its wall time, its peak of anonymous memory in 10^6 bytes, and why it failed, empty if
        it did not.
    """
    start = time.perf_counter()
    # In a session of its own, so that what it started ends with it.
    child = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env=clean_environment(),
        start_new_session=True,
    )
    error = ""
    with watch(child.pid, processor=processor) as used:
        try:
            said, _ = child.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            child.communicate()
            error = f"it was still running after {limit:g} s"
        seconds = time.perf_counter() - start
    if used.stopped:
        error = f"it was stopped after {used.stopped}"
    elif child.returncode and not error:
        last = " ".join(said.strip().splitlines()[-3:])
        error = f"it ended with {child.returncode}: {last[-300:]}"
    return seconds, used.megabytes, error


def to_json(cells: dict[str, Cell]) -> dict[str, object]:
    """Return cells as what ``json`` writes."""
    return {name: asdict(cell) for name, cell in cells.items()}


def from_json(data: dict[str, dict[str, object]]) -> dict[str, Cell]:
    """Return what ``to_json`` was given."""
    return {name: Cell(**cell) for name, cell in data.items()}  # type: ignore[arg-type]  # as written


def _processor() -> float:
    """Return the processor seconds of all children so far."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
