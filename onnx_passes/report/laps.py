"""The wall time of a run, divided among its parts with nothing left out."""

from __future__ import annotations

import time


class Laps:
    """A clock that counts all time since its last lap as that of one part.

    Args:
        start: When the first part began, in seconds of ``time.perf_counter``; now if None.
    """

    def __init__(self, start: float | None = None) -> None:
        self.times: dict[str, float] = {}
        self._last = time.perf_counter() if start is None else start

    def end(self, part: str) -> float:
        """Count the time since the last lap as that of a part, and return all seconds."""
        now = time.perf_counter()
        self.times[part] = self.times.get(part, 0.0) + now - self._last
        self._last = now
        return sum(self.times.values())
