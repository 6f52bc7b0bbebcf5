"""Time for questions that samples do not ask: a share of that of a run."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

LEAST = 2.0
"""Seconds that any run may spend, so that what a short run asks does not hang on the clock."""


@dataclass
class Allowance:
    """What of the time of a run may go into drawn values.

    Attributes:
        share: The share, from 0 to 1; 0 asks nothing.
        begun: When the run began, in seconds of a monotonic clock.
        spent: Seconds spent.
        refused: How many questions were not asked.
    """

    share: float
    begun: float = field(default_factory=time.monotonic)
    spent: float = 0.0
    refused: int = 0

    def grants(self) -> bool:
        """Whether one more question may be asked; otherwise it is counted."""
        granted = self.lasts
        self.refused += not granted
        return granted

    @property
    def lasts(self) -> bool:
        """Whether time is left."""
        within = max(LEAST, self.share * (time.monotonic() - self.begun))
        return self.share > 0 and self.spent < within

    @contextmanager
    def charged(self) -> Iterator[None]:
        """Charge the time of a question."""
        start = time.monotonic()
        try:
            yield
        finally:
            self.spent += time.monotonic() - start

    @property
    def note(self) -> str | None:
        """What a reader should know of what was not asked."""
        if not self.refused:
            return None
        parts = "1 part was" if self.refused == 1 else f"{self.refused:,} parts were"
        return (
            f"{parts} not run on values that samples may lack: verify.drawn_share, "
            f"{self.share:g} of the time, was spent"
            if self.share
            else f"{parts} not run on values that samples may lack: verify.drawn_share is 0"
        )
