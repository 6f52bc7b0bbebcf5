"""Reports written whole or not at all, and the wall time of a run until then."""

from __future__ import annotations

import os
import time
from pathlib import Path

from onnx_passes.errors import UsageError


class Laps:
    """A clock that counts all time since its last lap as that of one part.

    The start is in seconds of ``time.perf_counter``; now if None.
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


def write_text(text: str, path: str | os.PathLike[str]) -> None:
    """Write a file as UTF-8, whole or not at all; raise UsageError if that fails."""
    from onnx_passes.model.save import pending  # reads onnx, which help needs not

    target = Path(path)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with pending(target) as file:
            file.write(text.encode())
            file.publish(target)
    except OSError as error:
        raise UsageError(
            f"cannot write the report {target}: {error.strerror or error}",
            help="give a path in a folder that you may write to",
        ) from error
