"""Child processes: started, ended with all that they have started, and what they print.

Ctrl-C reaches them through this process only. If this process is killed, a guard ends them.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import IO, TypeAlias

from onnx_passes.errors import UsageError

_GUARD = """while read -r sign leader; do
    if [ "$sign" = + ]; then
        set -- "$@" "$leader"
    else
        for each; do shift; [ "$each" = "$leader" ] || set -- "$@" "$each"; done
    fi
done
for each; do kill -9 "-$each"; done"""
"""A script that reads which groups begin and end, and kills the others when its input ends."""

Stream: TypeAlias = int | IO[bytes] | None
"""Where a stream goes: as of :mod:`subprocess`, None for that of this process."""


@dataclass(frozen=True)
class Ended:
    """How a process ended.

    ``code`` is negative for a signal, and None for a process that was killed at its time
    limit.
    """

    code: int | None
    out: bytes = b""
    err: bytes = b""

    @property
    def last_line(self) -> str:
        """The last line that is not empty, of errors if there are any."""
        lines = (self.err or self.out).decode(errors="replace").splitlines()
        return next((line.strip() for line in reversed(lines) if line.strip()), "")


def start(
    words: Sequence[str],
    *,
    stdin: Stream = subprocess.DEVNULL,
    stdout: Stream = subprocess.DEVNULL,
    stderr: Stream = subprocess.DEVNULL,
    pass_fds: Sequence[int] = (),
    env: Mapping[str, str] | None = None,
) -> subprocess.Popen[bytes]:
    """Start a process; :func:`kill` ends it.

    ``env`` is by default that of this process. An OSError says why it cannot be started.
    """
    process = subprocess.Popen(
        words,
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
        pass_fds=pass_fds,
        env=env,
        start_new_session=True,
    )
    _tell_guard("+", process.pid)
    return process


@cache
def _guard(parent: int) -> int | None:
    """Start what kills the groups of a process that has ended; return where it reads."""
    shell = shutil.which("sh") if hasattr(os, "killpg") else None
    if shell is None:
        return None
    heard, told = os.pipe()
    nowhere = os.open(os.devnull, os.O_RDWR)
    places = [(os.POSIX_SPAWN_DUP2, one, k) for k, one in enumerate((heard, nowhere, nowhere))]
    os.posix_spawn(shell, ["sh", "-c", _GUARD], os.environ, file_actions=places, setsid=True)
    os.close(heard)
    os.close(nowhere)
    return told


def _tell_guard(sign: str, leader: int) -> None:
    place = _guard(os.getpid())  # a fork has one of its own
    if place is not None:
        with suppress(OSError):
            os.write(place, f"{sign} {leader}\n".encode())


def run(
    words: Sequence[str],
    seconds: float | None = None,
    *,
    stdout: Stream = subprocess.PIPE,
    stderr: Stream = subprocess.PIPE,
) -> Ended:
    """Run a process to its end, and end what it leaves behind.

    ``seconds`` may be None for no limit. An OSError says why it cannot be started.
    """
    process = start(words, stdout=stdout, stderr=stderr)
    try:
        out, err = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        return Ended(None)
    finally:
        kill(process)
        for pipe in (process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()
    return Ended(process.returncode, out or b"", err or b"")


def kill(process: subprocess.Popen[bytes]) -> None:
    """Kill a process with all that it has started, and wait until it is gone."""
    if hasattr(os, "killpg"):
        kill_group(process.pid)
    elif process.poll() is None:
        process.kill()
    process.wait()
    _tell_guard("-", process.pid)


def kill_group(leader: int) -> None:
    """Kill the processes of a group, if there are any."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, signal.SIGKILL)


def check_words(command: str | Sequence[str]) -> list[str]:
    """Return the words of a ``--check`` command, split as by a shell; else UsageError."""
    try:
        words = shlex.split(command) if isinstance(command, str) else list(command)
    except ValueError as error:
        raise UsageError(
            f"--check {command!r} is not a command: {str(error).lower()}",
            help="quote it as for a shell",
        ) from error
    if not words:
        raise UsageError("--check is empty", help="give a command: --check 'CMD {model}'")
    if shutil.which(words[0]) is None and Path(words[0]).is_file():
        raise UsageError(
            f"--check cannot be run: {words[0]!r} may not be executed",
            help="put its interpreter in front of it, or make it executable: chmod +x",
        )
    if shutil.which(words[0]) is None:
        raise UsageError(
            f"--check cannot be run: there is no command {words[0]!r}",
            help="give its path, and see that it may be executed",
        )
    return words


VARIABLE = "_ONNX_PASSES_STDERR"
"""Holds, in a child, the descriptor of the parent's stderr; empty if the parent has none."""


def own_stderr() -> list[int]:
    """Return a copy of this process' stderr to hand to a child; none if it is closed."""
    try:
        return [os.dup(2)]
    except OSError:
        return []


@contextlib.contextmanager
def forward_output() -> Iterator[None]:
    """Let what is printed inside reach the user, in a child process as well."""
    descriptor = os.environ.get(VARIABLE, "")
    if not descriptor:
        yield
        return
    with (
        open(int(descriptor), "w", closefd=False, errors="replace") as stream,
        contextlib.redirect_stdout(stream),
        contextlib.redirect_stderr(stream),
    ):
        yield


def cores() -> int:
    """Return how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
