"""How long the program takes to start, as a user waits for it: whole processes."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from pathlib import Path

from benchmarks.environments import compile_bytecode

RUNS = 11
DIGITS = Path(__file__).parents[1] / "examples" / "digits" / "model.onnx"
# What is asked of each, in seconds, where something is.
COMMANDS: tuple[tuple[tuple[str, ...], float | None], ...] = (
    (("--help",), 0.3),
    (("inspect", "model", str(DIGITS)), 1.0),
    (("lint", str(DIGITS)), None),
    (("-c", "cleanup", str(DIGITS)), None),
    (("-c", "optimize", str(DIGITS)), None),
)
# The floor: an interpreter, the two libraries that every command on a model imports, and those
# that presets use: a preset on a small model is to take at most 0.2 s more.
FLOOR = (
    "pass",
    "import onnx, onnx_ir",
    "import onnx, onnx_ir, onnxscript.rewriter, onnxruntime",
)


def tables() -> list[str]:
    """Return the table."""
    size = DIGITS.stat().st_size // 1000
    return [
        f"## Start-up (medians of {RUNS}, whole processes, taken in turns)",
        "",
        f"The model is `{DIGITS.parent.name}/{DIGITS.name}`, {size} KB. "
        "Compiled bytecode is in place.",
        "",
        "| command | median (s) | fastest (s) | bar (s) |",
        "|---|---|---|---|",
        *_rows(),
    ]


def _rows() -> list[str]:
    compile_bytecode()
    commands = {f'python -c "{code}"': ["-c", code] for code in FLOOR}
    bars: dict[str, float | None] = {}
    for words, bar in COMMANDS:
        name = " ".join(Path(word).name for word in words)
        commands[f"onnx-passes {name}"] = ["-m", "onnx_passes", *words]
        bars[f"onnx-passes {name}"] = bar
    taken: dict[str, list[float]] = {name: [] for name in commands}
    for turn in range(RUNS + 1):
        for name, words in commands.items():
            seconds = _seconds(words)
            if turn:  # the first fills the file cache
                taken[name].append(seconds)
    return [
        f"| `{name}` | {statistics.median(found):.2f} | {min(found):.2f} | "
        f"{bars.get(name) or ''} |"
        for name, found in taken.items()
    ]


def _seconds(words: list[str]) -> float:
    start = time.perf_counter()
    done = subprocess.run([sys.executable, *words], capture_output=True)
    seconds = time.perf_counter() - start
    if done.returncode:
        raise SystemExit(f"{words}\n{done.stderr.decode(errors='replace')}")
    return seconds
