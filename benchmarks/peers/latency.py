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

from benchmarks.peers.judge import feeds_of, session

TURNS = 9
"""Turns that a latency is the median of."""


def latencies(original: Path, results: list[Path]) -> list[float]:
    """Return milliseconds of an inference of the original, of it again, and of each result.

    All optimisations of ONNX Runtime are on.
    """
    feeds = feeds_of(original)
    sessions = [
        session(path, optimised=True, threads=1) for path in (original, original, *results)
    ]
    times: list[list[float]] = [[] for _ in sessions]
    for turn in range(TURNS + 1):
        for started, taken in zip(sessions, times, strict=True):
            start = time.process_time()
            started.run(None, feeds)
            if turn:  # the first run allocates
                taken.append(time.process_time() - start)
    return [1000 * statistics.median(taken) for taken in times]


def main() -> None:
    """Print the milliseconds as JSON."""
    original, *results = map(Path, sys.argv[1:])
    print(json.dumps(latencies(original, results)))


if __name__ == "__main__":
    main()
