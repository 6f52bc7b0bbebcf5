"""Samples run at the same time, each on one thread."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from onnx_passes import risky_runs
from onnx_passes.runtime.engine_base import Engine, Feeds, Outputs, Session, label_of_feeds


def run_each(
    engine: Engine,
    session: Session,
    samples: Sequence[Feeds],
    names: Sequence[str] | None = None,
) -> list[Outputs]:
    """Run a session on every sample, on as many cores as there are.

    Engines that say ``concurrent`` have one thread a run, which keeps sums in a fixed order
    and leaves the other cores idle. The rest take one sample after the other, as do sessions
    that say ``in_turn``.

    Args:
        engine: The engine that made the session.
        session: A model made ready.
        samples: The inputs.
        names: The outputs wanted; None for all.

    Raises:
        EngineError: A run failed; of several, the first sample's.
    """
    workers = min(len(samples), _cores())
    in_turn = getattr(session, "in_turn", False) or risky_runs.one_at_a_time()
    if workers < 2 or in_turn or not concurrent(engine):
        return [run_one(session, feeds, names) for feeds in samples]
    with ThreadPoolExecutor(workers) as pool:
        return list(pool.map(lambda feeds: run_one(session, feeds, names), samples))


def run_one(session: Session, feeds: Feeds, names: Sequence[str] | None = None) -> Outputs:
    """Run a session on a sample, and note what is special about that.

    Args:
        session: A model made ready.
        feeds: The inputs.
        names: The outputs wanted; None for all.

    Raises:
        EngineError: The run failed.
    """
    with risky_runs.engine_run(label_of_feeds(feeds)):
        return session.run(feeds, names)


def concurrent(engine: Engine) -> bool:
    """Whether sessions of an engine may run beside each other, and gain by it."""
    return bool(getattr(engine, "concurrent", False)) and _cores() > 1


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
