"""A line on a terminal that says that a command is at work, whenever it is silent for long."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TextIO

from onnx_passes.report.text import plural, whole_seconds

SILENCE = 2.0
"""Seconds without output after which the line appears."""

_PERIOD = 0.5
_CLEAR = "\r\x1b[2K"
_active: Ticker | None = None


@dataclass
class StepCount:
    """How far a command is, in steps that take about equally long.

    Attributes:
        unit: What a step is, in the singular.
        total: All steps.
        began: When the first one began, in seconds of the monotonic clock.
        done: Steps that have ended.
        latest: When the last of these ended.
    """

    unit: str
    total: int
    began: float
    done: int
    latest: float

    def text(self, now: float) -> str:
        """Return how many steps are done and how long the rest takes, if that is known.

        Args:
            now: Seconds of the monotonic clock.
        """
        count = f"{self.done:,} of {plural(self.total, self.unit)}"
        if not self.done:
            return count
        each = (self.latest - self.began) / self.done
        left = each * (self.total - self.done) - (now - self.latest)
        return f"{count}, about {whole_seconds(left)} left" if left >= 1 else count


class Ticker:
    """Draws the line from a thread while the command prints nothing.

    Args:
        stream: The terminal.
        label: What is at work.
    """

    def __init__(self, stream: TextIO, label: str) -> None:
        """Start to wait."""
        self._stream, self._label = stream, label
        self._begin = self._spoke = time.monotonic()
        # A signal's handler may print while the command itself prints.
        self._lock = threading.RLock()
        self._over = threading.Event()
        self._drawn, self._line_ended = False, True
        self._steps: StepCount | None = None
        threading.Thread(target=self._draw, daemon=True).start()

    def stop(self) -> None:
        """Remove the line, for good."""
        with self._lock:
            self._over.set()
            self._clear()

    def write(self, stream: TextIO, text: str) -> int:
        """Write what the command prints; the line goes, and returns after a full line.

        Args:
            stream: Where it is written.
            text: What is written.
        """
        with self._lock:
            self._clear()
            written = stream.write(text)
            self._spoke = time.monotonic()
            if text:
                self._line_ended = text.endswith("\n")
            return written

    def advance(self, done: int, total: int, unit: str) -> None:
        """Say how far the command is: see ``advance`` of this module.

        Args:
            done: How many are done.
            total: How many there are.
            unit: What is counted, in the plural.
        """
        now = time.monotonic()
        with self._lock:
            steps = self._steps
            if steps is None or (steps.unit, steps.total) != (unit, total) or not done:
                steps = self._steps = StepCount(unit, total, now, 0, now)
            steps.done, steps.latest = done, now

    def _clear(self) -> None:
        if self._drawn:
            self._stream.write(_CLEAR)
            self._stream.flush()
            self._drawn = False

    def _draw(self) -> None:
        while not self._over.wait(min(SILENCE, _PERIOD)):
            with self._lock:
                now = time.monotonic()
                # Half a line is a question, or the drawing of someone else.
                silent = self._line_ended and now - self._spoke >= SILENCE
                if self._over.is_set() or not silent:
                    continue
                text = f"{self._label}: {whole_seconds(now - self._begin)}"
                if self._steps is not None and self._steps.done < self._steps.total:
                    text += f", {self._steps.text(now)}"
                self._stream.write(_CLEAR + text)
                self._stream.flush()
                self._drawn = True


class _Watched:
    """A stream that removes the line before anything is written."""

    def __init__(self, stream: TextIO, ticker: Ticker) -> None:
        self._stream, self._ticker = stream, ticker

    def write(self, text: str) -> int:
        return self._ticker.write(self._stream, text)

    def __getattr__(self, name: str) -> object:
        if name == "buffer":
            self._ticker.stop()
        return getattr(self._stream, name)


@contextmanager
def ticking(label: str) -> Iterator[None]:
    """Draw the line while a command is silent; on a terminal that can move its cursor only."""
    global _active
    if sys.stderr is None or sys.stdout is None or not sys.stderr.isatty() or _is_dumb():
        yield
        return
    ticker = Ticker(sys.stderr, label)
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (_Watched(stream, ticker) for stream in before)
    outer, _active = _active, ticker
    try:
        yield
    finally:
        _active = outer
        sys.stdout, sys.stderr = before
        ticker.stop()


def advance(done: int, total: int, unit: str) -> None:
    """Say how far a command is; the line shows it, with the time that the rest takes.

    Args:
        done: Steps that have ended; 0 as the first begins.
        total: All steps. Each should take about as long as another.
        unit: What a step is, in the singular.
    """
    if _active is not None:
        _active.advance(done, total, unit)


def _is_dumb() -> bool:
    return os.environ.get("TERM", "").lower() in ("", "dumb", "unknown")
