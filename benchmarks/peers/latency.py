"""``python -m benchmarks.peers.latency ORIGINAL RESULT...``: inference with all, in turns.

Processor seconds of one thread, since other work on the machine disturbs them less than wall
time. The original runs twice in each turn, which shows the noise of a ratio.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.peers.judge import feeds_of, session

TOLERANCE = 1e-2
"""Beyond this part of the largest element a result is wrong; rivals round otherwise too."""
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
    """Return milliseconds of the original, and what the others take over it, or a fault.

    The first of the others is the original again. All optimisations of ONNX Runtime are on.
    """
    feeds = feeds_of(original)
    paths = (original, original, *results)
    sessions, faults, taken = [], [], [[] for _ in paths]  # type: ignore[var-annotated]
    expected = None
    for path in paths:
        try:
            started = session(path, optimised=True, threads=1)
            outputs = started.run(None, feeds)
        except Exception as error:  # ONNX Runtime has no common class of errors
            faults.append(str(error).splitlines()[0][:150])
            sessions.append(None)
            continue
        sessions.append(started)
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


if __name__ == "__main__":
    first, *others = map(Path, sys.argv[1:])
    print(json.dumps(times(first, others)))
