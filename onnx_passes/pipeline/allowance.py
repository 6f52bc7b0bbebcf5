"""A number of parts that may be run on values that samples may lack."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Allowance:
    """How many parts of a run may be run on drawn values.

    Attributes:
        parts: The most parts; 0 runs none.
        spent: How many were run.
        refused: How many were not.
    """

    parts: int
    spent: int = 0
    refused: int = 0

    @property
    def left(self) -> int:
        """How many parts may still be run."""
        return self.parts - self.spent

    def grants(self) -> bool:
        """Whether one more part may be run; it is counted."""
        granted = self.left > 0
        self.spent += granted
        self.refused += not granted
        return granted

    @property
    def note(self) -> str | None:
        """What a reader should know of what was not run."""
        if not self.refused:
            return None
        parts = "1 part was" if self.refused == 1 else f"{self.refused:,} parts were"
        return (
            f"{parts} not run on values that samples may lack: verify.drawn_parts is "
            f"{self.parts:,}"
        )
