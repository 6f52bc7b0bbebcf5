"""Run the command line as a user does, and read what it took."""

from __future__ import annotations

import json
import math
import os
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

INTERVAL = 0.02
"""Seconds between samples of memory."""


@dataclass(frozen=True)
class Measured:
    """One run of a command.

    Attributes:
        seconds: Wall time of the process.
        megabytes: Its peak resident memory.
        report: The run's own report, as JSON.
    """

    seconds: float
    megabytes: float
    report: dict[str, Any]


def run(model: Path, *words: str) -> Measured:
    """Run ``onnx-passes`` on a model in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        report, out = Path(folder, "report.json"), Path(folder, "out.onnx")
        command = [sys.executable, "-m", "benchmarks.processes", "-m", "onnx_passes", *words]
        command += ["--json", str(report), "-o", str(out), str(model)]
        start = time.perf_counter()
        done = subprocess.run(command, capture_output=True, text=True)
        seconds = time.perf_counter() - start
        if done.returncode:
            raise SystemExit(f"{' '.join(command)}\n{done.stderr}")
        peak = float(done.stdout.splitlines()[-1])
        return Measured(seconds, peak, json.loads(report.read_text()))


def anonymous_peak(command: list[str], most: float) -> tuple[float, float, int, str]:
    """Run a command, and sample the memory that it cannot give back.

    Args:
        command: The command.
        most: 10^6 bytes at which it is stopped.

    Returns:
        The peak in 10^6 bytes, the seconds, the exit code, and what it wrote to stderr.
    """
    start = time.perf_counter()
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=errors)
        with watch(process.pid, megabytes=most) as used:
            process.wait()
        seconds = time.perf_counter() - start
        errors.seek(0)
        return used.megabytes, seconds, process.returncode, errors.read()


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


if __name__ == "__main__":
    # A parent per run: the peak of all children would hide the smaller ones.
    code = subprocess.call([sys.executable, *sys.argv[1:]])
    print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024)
    raise SystemExit(code)
