"""What ``benchmarks.speed`` starts: ``write TOOL SOURCE TARGET``, or ``time SOURCE ...``."""

from __future__ import annotations

import json
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.peers.judge import feeds_of, session
from benchmarks.speed import TOLERANCE, WRITERS

TURNS = 25
LEAST = 0.02
"""Seconds that the runs of one turn take together."""


def fault(expected: list[Any], actual: list[Any]) -> str:
    """Return what is wrong with the outputs of a result, empty if nothing is."""
    for a, b in zip(expected, actual, strict=True):
        if a.shape != b.shape or a.dtype != b.dtype:
            return f"{b.dtype}{b.shape} and not {a.dtype}{a.shape}"
        most = float(np.max(np.abs(a), initial=0))
        if not np.allclose(a, b, rtol=0, atol=TOLERANCE * most, equal_nan=True):
            return f"off by {float(np.max(np.abs(a - b))):.3g} of {most:.3g}"
    return ""


def times(original: Path, results: list[Path]) -> list[float | str]:
    """Return milliseconds of the original, and what the others take over it, or a fault."""
    feeds = feeds_of(original)
    paths = (original, original, *results)
    sessions, faults, taken = [], [], [[] for _ in paths]  # type: ignore[var-annotated]
    expected = None
    for path in paths:
        try:
            sessions.append(session(path, optimised=True, threads=1))
            outputs = sessions[-1].run(None, feeds)
        except Exception as error:  # ONNX Runtime has no common class of errors
            faults.append(str(error).splitlines()[0][:150])
            sessions.append(None)
            continue
        expected = outputs if expected is None else expected
        faults.append(fault(expected, outputs))
    start = time.process_time()
    sessions[0].run(None, feeds)
    repeats = max(1, round(LEAST / max(time.process_time() - start, 1e-6)))
    for _ in range(TURNS):
        for started, spent in zip(sessions, taken, strict=True):
            if started is None:
                continue
            start = time.process_time()
            for _ in range(repeats):
                started.run(None, feeds)
            spent.append((time.process_time() - start) / repeats)
    medians = [statistics.median(spent) if spent else 0.0 for spent in taken]
    ratios = [
        fault or spent / medians[0] for fault, spent in zip(faults, medians, strict=True)
    ]
    return [1000 * medians[0], *ratios[1:]]


def main() -> None:
    """Write a model, or print times as JSON."""
    what, *words = sys.argv[1:]
    if what == "write":
        WRITERS[words[0]](Path(words[1]), Path(words[2]))
    else:
        print(json.dumps(times(Path(words[0]), [Path(word) for word in words[1:]])))


if __name__ == "__main__":
    main()
