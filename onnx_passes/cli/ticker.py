"""A line on a terminal that says that a command is at work, if it is silent for long."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO

from onnx_passes.report.text import whole_seconds

SILENCE = 2.0
"""Seconds without output after which the line appears."""

_PERIOD = 0.5
_CLEAR = "\r\x1b[2K"


class Ticker:
    """Draws the line from a thread until the command prints something itself.

    Args:
        stream: The terminal.
        label: What is at work.
    """

    def __init__(self, stream: TextIO, label: str) -> None:
        """Start to wait."""
        self._stream, self._label = stream, label
        self._begin = time.monotonic()
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._drawn = False
        threading.Thread(target=self._draw, daemon=True).start()

    def stop(self) -> None:
        """Take the line away, for good."""
        if self._over.is_set():
            return
        with self._lock:
            self._over.set()
            if self._drawn:
                self._stream.write(_CLEAR)
                self._stream.flush()

    def _draw(self) -> None:
        wait = SILENCE
        while not self._over.wait(wait):
            wait = _PERIOD
            with self._lock:
                if self._over.is_set():
                    return
                spent = whole_seconds(time.monotonic() - self._begin)
                self._stream.write(f"{_CLEAR}{self._label}: {spent}")
                self._stream.flush()
                self._drawn = True


class _Watched:
    """A stream that takes the line away before anything is written."""

    def __init__(self, stream: TextIO, ticker: Ticker) -> None:
        self._stream, self._ticker = stream, ticker

    def write(self, text: str) -> int:
        self._ticker.stop()
        return self._stream.write(text)

    def __getattr__(self, name: str) -> Any:
        if name == "buffer":
            self._ticker.stop()
        return getattr(self._stream, name)


@contextmanager
def ticking(label: str) -> Iterator[None]:
    """Draw the line while a command is silent; on a terminal that can move its cursor only."""
    if sys.stderr is None or sys.stdout is None or not sys.stderr.isatty() or _is_dumb():
        yield
        return
    ticker = Ticker(sys.stderr, label)
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (_Watched(stream, ticker) for stream in before)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before
        ticker.stop()


def _is_dumb() -> bool:
    return os.environ.get("TERM", "").lower() in ("", "dumb", "unknown")
