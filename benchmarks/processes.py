"""Run the command line as a user does, and read what it took."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any


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


if __name__ == "__main__":
    # A parent per run: the peak of all children would hide the smaller ones.
    code = subprocess.call([sys.executable, *sys.argv[1:]])
    print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024)
    raise SystemExit(code)
