"""A time limit for code that may not end."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from onnx_passes.errors import TimeLimitError


@contextmanager
def time_limit(seconds: float | None, what: str) -> Iterator[None]:
    """Raise in the code inside when it runs past ``seconds``.

    Python can only interrupt its main thread, and only between two of its own instructions:
    in another thread, and where the platform has no alarm, there is no limit.

    Args:
        seconds: The limit; None for none.
        what: What runs, for the message.

    Raises:
        TimeLimitError: The time is up.
    """
    main = threading.current_thread() is threading.main_thread()
    if seconds is None or not main or not hasattr(signal, "setitimer"):
        yield
        return

    def stop(number: int, frame: FrameType | None) -> None:
        raise TimeLimitError(
            f"{what} did not end within {seconds:g} s",
            help="raise limits.pass_seconds if it should have",
        )

    previous = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
