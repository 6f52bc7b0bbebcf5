"""Signals that end a run in order, and the parent process that repeats a crashed command.

The parent forks before anything large is imported. A child that dies on made-up values is
replaced by one that does without them.
"""

from __future__ import annotations

import math
import os
import select
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import NoReturn, TypeAlias

from onnx_passes import risky_runs
from onnx_passes.risky_runs import (
    AHEAD,
    ENGINES,
    GENERATED,
    GROUPS,
    INPUTS,
    RESULT,
    announce,
    group_of,
)

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
    """What was received; ``number`` is the last signal.

    ``watch`` has the files that the program may write. ``hint`` says how to continue; None
    without a saved state. Once it is ``ending``, more signals change nothing.
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
        if self.hint is not None:
            return f"{word}: the result was not written; {self.hint}"
        return f"{word}: nothing was written"

    def check(self) -> None:
        """Raise again what was raised for a signal, and got lost."""
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
    if (save := sys.modules.get("onnx_passes.model.save")) is not None:
        save.drop_unpublished()
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


SECONDS = 60.0
"""How long one run on made-up values may take."""

SECONDS_AT_FIRST = 600.0
"""How long one run on ordinary inputs may take if they are generated."""

TIMES = 20
"""How many times the longest run on ordinary inputs each may take besides."""

_TICK = 1.0
"""Seconds between two looks. Time that this process is stopped does not count."""

_MOST, _MOST_GENERATED = 4, 8
"""Number of crashes after which nothing of a group is run; of ordinary inputs, others."""

_PATIENCE = 10.0
"""Seconds that a child may take to end at a signal: native code may not hear it."""

_ECHO = 0.2
"""Seconds in which a signal to a whole process group has reached the child, too."""

_HELP = (
    "'isolate: true' of an engine runs it in a child process, and 'reference: {inputs: ...}' "
    "gives it your inputs"
)
_MEMORY = (
    "the system ends programs so that take too much memory: close others, or set "
    "reference.samples=1 and a smaller verify.memory_limit"
)
_EXIT = "let your function, plugin or hook return or raise an error instead"

Labels: TypeAlias = tuple[str, ...]


def supervise() -> None:
    """Fork, and return in the child only: the parent ends with the exit code of the child."""
    keeper = _Keeper()
    while keeper.fork():
        keeper.wait()


class _Keeper:
    """What the parent knows of its child, and of those before."""

    def __init__(self) -> None:
        self._avoided: dict[str, str] = {}
        self._counts: Counter[str] = Counter()
        self._handlers = {
            number: handler
            for number in (*ENDING, signal.SIGALRM)
            if (handler := signal.getsignal(number)) is not signal.SIG_IGN
        }
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # or nobody can wait for a child
        self._lifeline = os.pipe()
        self._received, self._alone, self._waited = 0, False, 0
        self._stuck: list[Labels] = []

    def fork(self) -> bool:
        """Start a child; return whether this process is its parent."""
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError, AttributeError):
                stream.flush()
        self._page, self._ticks = risky_runs.Page(), Counter[tuple[int, float]]()
        self._heard, told = os.pipe()
        signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
        try:
            child = self._child = os.fork()
            for number, handler in self._handlers.items():
                ours = self._look if number == signal.SIGALRM else self._pass_on
                signal.signal(number, ours if child else handler)
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)
        if child:
            os.close(told)
            return True
        os.close(self._heard)
        os.close(self._lifeline[1])
        os.set_blocking(told, False)
        signal.set_wakeup_fd(told, warn_on_full_buffer=False)
        threading.Thread(target=_end_with, args=(self._lifeline[0],), daemon=True).start()
        risky_runs.attach(self._page, self._avoided, alone=self._alone)
        return False

    def wait(self) -> None:
        """Wait for the child; end as it did, unless it is worth another try."""
        signal.setitimer(signal.ITIMER_REAL, _TICK, _TICK)
        _, status = os.waitpid(self._child, 0)
        self._child = 0
        signal.setitimer(signal.ITIMER_REAL, 0)
        os.close(self._heard)
        code, announced = os.waitstatus_to_exitcode(status), self._page.code
        if announced is not None:
            os._exit(code if code >= 0 else announced)
        if self._received or -code in ENDING:
            if code == -signal.SIGKILL:
                _tell("interrupted: nothing was written")
            os._exit(128 + (self._received or -code))
        running = list(self._page.active().values())
        if self._stuck:
            running = self._stuck
            cause = f"took longer than {self._limit(running[0][-1]):.0f} s"
        elif code < 0:
            cause = f"died of {_name_of(-code)}"
        else:
            cause = f"ended the process with exit code {code}"
        if not self._can_repeat(running, cause):
            every = (one for labels in running for one in labels)
            stages = [one for one in every if group_of(one) not in GROUPS] or ["the command"]
            # One that begins as the first does says more.
            _fail(code, max((s for s in stages if s.startswith(stages[0])), key=len))
        if self._received:
            _tell("interrupted: nothing was written")
            os._exit(128 + self._received)

    def _can_repeat(self, running: list[Labels], cause: str) -> bool:
        """Do without what ran when the child died; return whether that is more than before."""
        every = {one for labels in running for one in labels}
        groups = set(GROUPS)
        if not any(group_of(one) == ENGINES for one in every):
            groups.remove(GENERATED)  # what a pass made may die of inputs that are right
        wanted = {one for labels in running if (one := self._innermost(labels, groups))}
        # What one run is on says more than what is around it.
        wanted = {n for n in wanted if n != INPUTS and group_of(n) != ENGINES} or wanted
        alone, self._alone, self._stuck = self._alone, True, []
        if wanted and not alone and (len(wanted) > 1 or any(map(_is_pass, every))):
            return True  # one of them did it
        self._counts.update(set(map(group_of, wanted)))
        most = dict.fromkeys(GROUPS, _MOST) | {GENERATED: _MOST_GENERATED}
        wanted |= {group for group in GROUPS if self._counts[group] >= most[group]}
        new = sorted(wanted - self._avoided.keys())
        self._avoided |= dict.fromkeys(new, cause)
        return bool(new)

    def _innermost(self, labels: Labels, groups: set[str]) -> str | None:
        """Return the innermost label of a thread that may be avoided, and is not yet."""
        new = [one for one in labels if group_of(one) in groups and one not in self._avoided]
        return new[-1] if new else None

    def _limit(self, label: str) -> float:
        """Return the seconds that a run may take: infinity if its inputs are given."""
        group = group_of(label)
        if label == INPUTS or group not in GROUPS or group in (ENGINES, AHEAD):
            return math.inf
        first = SECONDS_AT_FIRST if group == GENERATED else SECONDS
        return first + TIMES * self._page.longest

    def _look(self, number: int, frame: FrameType | None) -> None:
        """Kill a child that does not get on with what was made up, or does not end."""
        self._waited += bool(self._received)
        if self._waited * _TICK > _PATIENCE and self._child:
            os.kill(self._child, signal.SIGKILL)
        active = self._page.active()
        self._ticks = Counter({place: self._ticks[place] + 1 for place in active})
        stuck = [n for k, n in active.items() if self._ticks[k] * _TICK > self._limit(n[-1])]
        if stuck and not self._stuck and self._child:
            self._stuck = stuck
            os.kill(self._child, signal.SIGKILL)

    def _pass_on(self, number: int, frame: FrameType | None) -> None:
        """Pass a signal on to the child, unless the sender meant both, as a terminal does."""
        self._received, heard = number, b""
        if not self._child:
            return
        end = time.monotonic() + _ECHO
        while number not in heard and (left := end - time.monotonic()) > 0:
            if not select.select([self._heard], [], [], left)[0]:
                break
            heard += os.read(self._heard, 4096) or bytes((number,))  # or the child has ended
        if number not in heard:
            with suppress(ProcessLookupError):
                os.kill(self._child, number)


def _end_with(lifeline: int) -> None:
    """End this process as soon as its parent is gone, whatever has ended that."""
    os.read(lifeline, 1)
    os.kill(os.getpid(), signal.SIGKILL)


def _name_of(number: int) -> str:
    with suppress(ValueError):
        return signal.Signals(number).name
    return f"signal {number}"


def _is_pass(label: str) -> bool:
    return label.startswith("pass ")


def _fail(code: int, stage: str) -> NoReturn:
    """Report a child that died of nothing that could be left out."""
    if code >= 0:
        what = f"error[usage]: code that the command called ended the program in {stage}"
        _tell(f"{what} (os._exit({code}))\n  = help: {_EXIT}")
        os._exit(2)
    kind, number, help_ = "engine-crashed", 3, _HELP
    if -code == signal.SIGKILL:
        kind, help_ = "memory", _MEMORY
    elif _is_pass(stage):
        kind, number, help_ = "pass", 1, "make the pass raise an error instead"
    elif stage.startswith(f"{RESULT} on "):
        name, _, options = stage.removeprefix(f"{RESULT} on ").rstrip("]").partition("[")
        options = f"{options.replace('=off', '=false')}, isolate=true".lstrip(", ")
        help_ = f"isolated, the run names the pass that made it: -e '{name}{{{options}}}'"
    _tell(
        f"error[{kind}]: the program died of {_name_of(-code)} in {stage}\n  = help: {help_}"
    )
    os._exit(number)


def _tell(text: str) -> None:
    with suppress(OSError, ValueError, AttributeError):
        # What was at work may have left half a line there.
        clear = "\r\x1b[2K" if sys.stderr.isatty() else ""
        print(f"{clear}{text}", file=sys.stderr, flush=True)
