"""Wall times of runs, taken where the session is: in its child process, if it has one."""

from __future__ import annotations

import time
from collections.abc import Sequence

from onnx_passes.runtime.engine_base import Feeds, Session, TimedSession


def mean_without_first(seconds: Sequence[float]) -> float:
    """Return the mean of times without the first, which warms up, if there are more."""
    counted = seconds[1:] or seconds
    return sum(counted) / len(counted)


def time_runs(session: Session, feeds: Feeds, warm_up: int, iterations: int) -> list[float]:
    """Return the seconds of single runs.

    Args:
        session: A model made ready.
        feeds: What it is run on.
        warm_up: Number of runs before those that count.
        iterations: Number of runs that count.

    Raises:
        EngineError: A run failed.
    """
    if isinstance(session, TimedSession):
        return session.time_runs(feeds, warm_up, iterations)
    for _ in range(warm_up):
        session.run(feeds)
    seconds = []
    for _ in range(iterations):
        start = time.perf_counter()
        session.run(feeds)
        seconds.append(time.perf_counter() - start)
    return seconds
