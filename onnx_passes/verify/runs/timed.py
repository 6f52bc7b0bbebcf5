"""Times of models on engines, as plain data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field

import numpy as np

from onnx_passes.plain import PlainDict
from onnx_passes.runtime.tensorrt.engine import EngineLayer


@dataclass(frozen=True)
class Latency:
    """Wall times of single runs, in seconds.

    Attributes:
        runs: Number of them.
    """

    runs: int
    mean: float
    median: float
    p90: float
    p99: float
    least: float
    most: float

    @classmethod
    def of(cls, seconds: Sequence[float]) -> Latency | None:
        """Summarise; None for no runs."""
        if not seconds:
            return None
        median, p90, p99 = (float(np.percentile(seconds, q)) for q in (50, 90, 99))
        mean = float(np.mean(seconds))
        return cls(len(seconds), mean, median, p90, p99, min(seconds), max(seconds))


@dataclass
class Timing:
    """What one model takes on one engine, on the first sample.

    Attributes:
        run: Name of the run.
        latency: Of single runs, timed where the session is; None where it does not run.
        warm_up: Number of runs before those.
        layers: Layers with their mean times, measured in a session of their own, in the order
            in which the engine reports them.
        before: What GPUs said of themselves before the timed runs; empty without one.
        after: The same after them.
        notes: What is not known, and why, a sentence each.
    """

    run: str
    latency: Latency | None = None
    warm_up: int = 0
    layers: list[EngineLayer] = field(default_factory=list)
    before: list[dict[str, str]] = field(default_factory=list)
    after: list[dict[str, str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def as_dict(self) -> PlainDict:
        """Return it as plain data."""
        return asdict(self)
