"""Signals that end a run: in order, with nothing half written, and with a true message."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from onnx_passes.risky_runs import announce

STARTED = time.perf_counter() - time.process_time()
"""When the process began, about: what Python does until here takes processor time only."""
PATIENCE = 5.0
"""Seconds after a signal in which the program may end by itself."""

_DEFAULTS = (signal.SIG_DFL, signal.default_int_handler)
ENDING = tuple(
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
)
"""The signals that ask the program to end."""


class Watch:
    """Knows which of some files were written since."""

    def __init__(self, paths: Sequence[Path | None] = ()) -> None:
        """Look at the files as they are."""
        absolute = {path: path.absolute() for path in paths if path is not None}
        self._before = {path: (at, _stamp(at)) for path, at in absolute.items()}

    def written(self) -> list[Path]:
        """Return the files that have changed since."""
        return [path for path, (at, stamp) in self._before.items() if _stamp(at) != stamp]


@dataclass
class Signals:
    """What was received.

    Attributes:
        number: The last signal; None while there was none.
        watch: The files that the program may write.
        hint: How to continue; None if there is no saved state.
        ending: Whether the program reports the signal and ends; more signals change nothing.
    """

    number: int | None = None
    watch: Watch | None = None
    hint: str | None = None
    ending: bool = False
    _timer: threading.Timer | None = None

    @contextmanager
    def unhurried(self) -> Iterator[None]:
        """Let the program take its time for a block after a signal; another signal ends it."""
        self.stop_timer()
        try:
            yield
        finally:
            if self.number is not None:
                self.start_timer()

    def start_timer(self) -> None:
        """End the process after :data:`PATIENCE`."""
        self.stop_timer()
        self._timer = threading.Timer(PATIENCE, _end)
        self._timer.daemon = True
        self._timer.start()

    def stop_timer(self) -> None:
        """Let the process continue."""
        if self._timer is not None:
            self._timer.cancel()

    @property
    def exit_code(self) -> int:
        """The exit code that a shell expects."""
        return 128 + (self.number or signal.SIGINT)

    @property
    def message(self) -> str:
        """What happened, and whether it came in time."""
        word = "terminated" if self.number not in (None, signal.SIGINT) else "interrupted"
        written = self.watch.written() if self.watch is not None else []
        if written:
            return f"{word}: {', '.join(map(str, written))} was complete by then"
        hint = f"; {self.hint}" if self.hint else ""
        return f"{word}: nothing was written{hint}"

    def check(self) -> None:
        """Raise again what was raised for a signal, and got lost.

        Raises:
            KeyboardInterrupt: A signal was received.
        """
        if self.number is not None:
            raise KeyboardInterrupt


received = Signals()
"""Of the program that is running."""


@contextmanager
def interruptible() -> Iterator[None]:
    """Raise KeyboardInterrupt for each signal that asks the program to end.

    Where that gets lost, as in finalizers and where a compiled module is being imported, the
    process ends after :data:`PATIENCE`. Signals that somebody else handles, or ignores as
    nohup does, are unchanged.
    """
    received.number, received.watch, received.hint = None, None, None
    received.ending = False

    def stop(number: int, frame: FrameType | None) -> None:
        if received.ending:
            return
        if received.number is None:
            received.start_timer()
        received.number = number
        raise KeyboardInterrupt

    kept = {}
    if threading.current_thread() is threading.main_thread():
        for number in ENDING:
            if signal.getsignal(number) in _DEFAULTS:
                kept[number] = signal.signal(number, stop)
    try:
        yield
    finally:
        for number, handler in kept.items():
            signal.signal(number, handler)
        received.stop_timer()


def _end() -> None:
    if sys.stderr is not None:
        sys.stderr.write(f"{received.message}\n")
        sys.stderr.flush()
    announce(received.exit_code)
    os._exit(received.exit_code)


def _stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return (found.st_ino, found.st_mtime_ns, found.st_size)
