"""Run the command line as a user does, and read what it took."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
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

    That is anonymous memory, and memory that is shared without a file, of the process and all
    that it starts. Pages of files, which the system takes back at will, are not counted.

    Args:
        command: The command.
        most: 10^6 bytes at which it is stopped.

    Returns:
        The peak in 10^6 bytes, the seconds, the exit code, and what it wrote to stderr.
    """
    start, peak = time.perf_counter(), 0
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=errors)
        while process.poll() is None:
            peak = max(peak, sum(map(_anonymous, _family(process.pid))))
            if peak > most * 1e6:
                process.kill()
            time.sleep(INTERVAL)
        seconds = time.perf_counter() - start
        errors.seek(0)
        return peak / 1e6, seconds, process.returncode, errors.read()


def _family(process: int) -> list[int]:
    """List a process and all that it has started."""
    found = [process]
    for each in found:
        for tasks in Path(f"/proc/{each}/task").glob("*/children"):
            with suppress(OSError):
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


if __name__ == "__main__":
    # A parent per run: the peak of all children would hide the smaller ones.
    code = subprocess.call([sys.executable, *sys.argv[1:]])
    print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024)
    raise SystemExit(code)
