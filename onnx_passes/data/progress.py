"""How far a run is: samples, speed, time left, and the number in question so far."""

from __future__ import annotations

from dataclasses import dataclass

from onnx_passes.data.accumulators.pair import PairState
from onnx_passes.data.confidence import Interval
from onnx_passes.data.demand import Demand, flips_of
from onnx_passes.data.evaluation_job import DataJob


@dataclass(frozen=True)
class Progress:
    """How far a run is.

    Attributes:
        done: Samples that were added up.
        total: All samples that may be needed.
        speed: Samples a second.
        failing: Samples of the first candidate that differ.
        drop: The drop of accuracy so far with its bounds; None where it is not asked for.
    """

    done: int
    total: int
    speed: float
    failing: int
    drop: Interval | None

    @property
    def seconds_left(self) -> float | None:
        """Seconds until all samples are evaluated; None before it is known."""
        return (self.total - self.done) / self.speed if self.speed else None

    @classmethod
    def of(
        cls,
        job: DataJob,
        rule: Demand,
        states: list[PairState],
        done: int,
        elapsed: float,
        evaluated: int,
    ) -> Progress:
        """Describe a run.

        Args:
            job: What is evaluated.
            rule: What is demanded.
            states: What was added up, by candidate.
            done: Samples that were added up.
            elapsed: Seconds since the start.
            evaluated: Samples that workers evaluated in that time.
        """
        drop = None
        if rule.accuracy is not None and states[0].samples:
            drop = rule.accuracy.interval(flips_of(states[0]))
        speed = evaluated / elapsed if elapsed else 0.0
        return cls(done, job.plan.used, speed, states[0].failing, drop)

    def __str__(self) -> str:
        left = self.seconds_left
        parts = [f"{self.done:,} of {self.total:,} samples", f"{self.speed:,.0f}/s"]
        if left is not None:
            parts.append(f"{left:,.0f} s left")
        if self.drop is not None:
            low, high = self.drop.low, self.drop.high
            parts.append(f"drop {self.drop.value:.3%} ({low:.3%} to {high:.3%})")
        else:
            parts.append(f"{self.failing:,} differ")
        return ", ".join(parts)
