"""Run commands as a user does, and read what they took."""

from __future__ import annotations

import math
import os
import resource
import signal
import statistics
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from benchmarks.environments import clean_environment

INTERVAL = 0.02
"""Seconds between samples of memory."""


@dataclass(frozen=True)
class Run:
    """What a process, and all that it started, took.

    Attributes:
        seconds: Wall time.
        processor: Processor time in seconds, which other work on the machine disturbs less.
        megabytes: Peak of anonymous memory, in 10^6 bytes.
        error: Why it failed; empty if it did not.
    """

    seconds: float
    processor: float
    megabytes: float
    error: str


def run(
    command: Sequence[str],
    limit: float | None = None,
    *,
    processor: float = math.inf,
    megabytes: float = math.inf,
) -> Run:
    """Run a command, and stop it beyond a limit.

    Args:
        command: The command.
        limit: Seconds of wall time.
        processor: Seconds of processor time, of all its processes.
        megabytes: 10^6 bytes of anonymous memory.
    """
    start, before = time.perf_counter(), _children()
    # In a session of its own, so that what it started ends with it.
    child = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env=clean_environment(),
        start_new_session=True,
    )
    error = ""
    with watch(child.pid, processor=processor, megabytes=megabytes) as used:
        try:
            said, _ = child.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            child.communicate()
            error = f"it was still running after {limit:g} s"
        seconds = time.perf_counter() - start
    if used.stopped:
        error = f"it was stopped after {used.stopped}"
    elif child.returncode and not error:
        last = " ".join(said.strip().splitlines()[-3:])
        error = f"it ended with {child.returncode}: {last[-300:]}"
    return Run(seconds, _children() - before, used.megabytes, error)


def medians(
    commands: Sequence[Sequence[str]], runs: int, limit: float | None = None
) -> list[float]:
    """Return the processor seconds of commands that take turns, "inf" of one that is stopped.

    Raises:
        SystemExit: One fails.
    """
    turns = []
    for _ in range(runs):
        done = [run(command, limit) for command in commands]
        for command, one in zip(commands, done, strict=True):
            if one.error.startswith("it ended"):
                raise SystemExit(f"{' '.join(command)}: {one.error}")
        turns.append([math.inf if one.error else one.processor for one in done])
    return [statistics.median(column) for column in zip(*turns, strict=True)]


def _children() -> float:
    """Return the processor seconds of all children so far."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@dataclass
class Used:
    """What a process and all that it has started used.

    Attributes:
        megabytes: The most anonymous memory at a time, in 10^6 bytes, and memory that is
            shared without a file. Pages of files, which the system takes back at will, are
            not counted.
        stopped: The limit beyond which all of them were killed; empty if none was.
    """

    megabytes: float = 0
    stopped: str = ""


@contextmanager
def watch(
    process: int, *, megabytes: float = math.inf, processor: float = math.inf
) -> Iterator[Used]:
    """Sample a process and all that it starts, and kill them beyond a limit.

    Args:
        process: A process that is waited for within the block.
        megabytes: Limit of anonymous memory, in 10^6 bytes.
        processor: Limit of processor seconds.
    """
    used, ended = Used(), threading.Event()

    def sample() -> None:
        while not used.stopped:
            family = _family(process)
            taken = sum(map(_anonymous, family)) / 1e6
            used.megabytes = max(used.megabytes, taken)
            if taken > megabytes:
                used.stopped = f"{megabytes:g} MB of memory"
            elif processor < math.inf and sum(map(_processor, family)) > processor:
                used.stopped = f"{processor:g} s of processor time"
            elif ended.wait(INTERVAL):
                return
        for each in family:
            with suppress(ProcessLookupError):
                os.kill(each, signal.SIGKILL)

    sampler = threading.Thread(target=sample)
    sampler.start()
    try:
        yield used
    finally:
        ended.set()
        sampler.join()


def _family(process: int) -> list[int]:
    """List a process and all that it has started."""
    found = [process]
    for each in found:
        with suppress(OSError):  # it has ended
            for tasks in Path(f"/proc/{each}/task").glob("*/children"):
                found += map(int, tasks.read_text().split())
    return found


def _anonymous(process: int) -> int:
    # smaps_rollup walks all pages, which slows down a process that maps gigabytes.
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
    except OSError:
        return 0  # it has ended
    kinds = ("RssAnon:", "RssShmem:")
    return sum(1024 * int(line.split()[1]) for line in lines if line.startswith(kinds))


def _processor(process: int) -> float:
    """Return the processor seconds of a process, and of its children that have ended."""
    try:
        # The name of the command, in parentheses, may hold spaces.
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0  # it has ended
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
