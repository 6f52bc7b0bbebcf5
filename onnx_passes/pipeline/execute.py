"""Run one pass, whatever it does."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

import onnx_ir as ir

from onnx_passes.errors import LostWeightsError, OnnxPassesError, PassError, TimeLimitError
from onnx_passes.model.save import changed_files, stamps_of
from onnx_passes.passes.base import Analysis, Pass, is_shipped
from onnx_passes.risky_runs import running
from onnx_passes.verify.snapshot import Change


def execute(pass_: Pass, model: ir.Model, seconds: float | None) -> ir.passes.PassResult:
    """Run a pass under a time limit.

    Args:
        pass_: The pass.
        model: The model; the pass may change it.
        seconds: The time limit; None for none.

    Raises:
        PassError: It raised, did not end, or returned something else than a result.
        LostWeightsError: It wrote to a file that the model reads.
        OnnxPassesError: What the pass itself raised of our own errors.
    """
    name = pass_.name
    stamps = {} if is_shipped(type(pass_)) else stamps_of(model)
    try:
        with running(f"pass {name!r}"), time_limit(seconds, f"pass {name!r}"):
            result = pass_(model)
    except OnnxPassesError:
        raise
    except (ir.passes.PassError, ir.passes.InvariantError) as error:
        cause = error.__cause__
        if isinstance(cause, OnnxPassesError):
            raise cause from error
        reason = f"{error}: {type(cause).__name__}: {cause}" if cause else str(error)
        raise PassError(f"pass {name!r}: {reason}") from error
    except RecursionError as error:
        raise PassError(f"pass {name!r} recursed without end") from error
    except MemoryError as error:
        raise PassError(f"pass {name!r} ran out of memory") from error
    except Exception as error:
        raise PassError(
            f"pass {name!r} raised {type(error).__name__}: {error}",
            help="run again with --debug for the traceback",
        ) from error
    if changed := changed_files(stamps):
        raise LostWeightsError(
            f"pass {name!r} wrote to {', '.join(changed)}, where the weights of the model are",
            help="restore the file; a pass gives a value another tensor, not another file",
        )
    if not isinstance(result.model, ir.Model):
        raise PassError(
            f"pass {name!r} returned a {type(result.model).__name__} in place of a model",
            help="return onnx_ir.passes.PassResult(model, modified)",
        )
    return result


def complaint(pass_: Pass, change: Change) -> str | None:
    """Say what a pass of its kind must not have done.

    Args:
        pass_: The pass.
        change: What it changed.
    """
    if isinstance(pass_, Analysis) and change is not Change.NONE:
        return f"pass {pass_.name!r} is an analysis and changed the model ({change})"
    return None


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
