"""How long the program takes to start, as a user waits for it: whole processes."""

from __future__ import annotations

import sys
from pathlib import Path

from benchmarks.environments import compile_bytecode
from benchmarks.processes import medians, run

RUNS = 11
DIGITS = Path(__file__).parents[1] / "examples" / "digits" / "model.onnx"
# What is asked of each, in seconds, where something is.
COMMANDS: tuple[tuple[tuple[str, ...], float | None], ...] = (
    (("--help",), 0.3),
    (("inspect", "model", str(DIGITS)), 1.0),
    (("lint", str(DIGITS)), None),
    (("-c", "cleanup", str(DIGITS)), None),
    (("-c", "optimize", "--no-verify", str(DIGITS)), 1.3),
    (("-c", "optimize", str(DIGITS)), 1.8),
)
# The floor: an interpreter, the two libraries that every command on a model imports, and those
# that presets use: a preset on a small model is to take at most 0.2 s more.
FLOOR: tuple[str, ...] = (
    "pass",
    "import onnx, onnx_ir",
    "import onnx, onnx_ir, onnxscript.rewriter, onnxruntime",
)


def tables() -> list[str]:
    """Return the table."""
    compile_bytecode()
    named = [(f'python -c "{code}"', ("-c", code), None) for code in FLOOR]
    for words, bar in COMMANDS:
        title = " ".join(["onnx-passes", *(Path(word).name for word in words)])
        named.append((title, ("-m", "onnx_passes", *words), bar))
    commands = [[sys.executable, *words] for _, words, _ in named]
    run(commands[-1])  # fills the file cache
    rows = zip(named, medians(commands, RUNS), strict=True)
    return [
        f"## Start-up (medians of {RUNS}, whole processes, taken in turns, processor seconds)",
        "",
        f"The model is `{DIGITS.parent.name}/{DIGITS.name}`. Compiled bytecode is in place.",
        "",
        "| command | median (s) | bar (s) |",
        "|---|---|---|",
        *(f"| `{title}` | {found:.2f} | {bar or ''} |" for (title, _, bar), found in rows),
    ]
