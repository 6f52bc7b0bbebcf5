"""One bad input, and what a command makes of it."""

from __future__ import annotations

import os
import re
import shlex
import signal
import tempfile
from dataclasses import dataclass
from pathlib import Path

SECONDS = 60


@dataclass(frozen=True)
class Case:
    """One bad input.

    Attributes:
        told: What is wrong with it.
        words: The words of the command line.
    """

    told: str
    words: tuple[str, ...]


@dataclass(frozen=True)
class End:
    """What a command made of it.

    Attributes:
        case: The input.
        code: The exit code; less than 0 if a signal ended it.
        text: What was printed, on both streams.
    """

    case: Case
    code: int
    text: str

    @property
    def faults(self) -> list[str]:
        """Return what must never be."""
        found = [word for word in ("Traceback", "internal error") if word in self.text]
        if self.code not in range(6):
            found.append(f"exit code {self.code}")
        raw = {c for c in self.text if not c.isprintable() and c != "\n"}
        return found + [f"raw {c!r}" for c in sorted(raw)]

    def row(self) -> str:
        """Return it as a row of Markdown."""
        lines = [line for line in self.text.splitlines() if line.strip()]
        errors = [line for line in lines if line.startswith("error")]
        first = re.sub(r" +[\d.]+ m?s$", "", (errors or lines or [""])[0])  # differs each time
        if first.startswith("FAILED"):
            first += f": {' '.join(' '.join(lines[1:2]).split())}"
        said = first[:150].replace("|", "\\|").replace("`", "'")
        command = shlex.join(["onnx-passes", *self.case.words])
        shown = "".join(c if c.isprintable() else "?" for c in command)[:90].replace(
            "|", "\\|"
        )
        return f"| {self.case.told} | `{shown}` | {self.code} | {said} |"


def run(case: Case, folder: Path) -> End:
    """Run a command in a child process that shares what this one has imported."""
    with tempfile.TemporaryFile() as printed:
        child = os.fork()
        if child == 0:
            try:
                os.chdir(folder)
                os.dup2(printed.fileno(), 1)
                os.dup2(printed.fileno(), 2)
                signal.alarm(SECONDS)
                from onnx_passes.cli import main

                main(case.words)
            except SystemExit as end:
                os._exit(end.code if isinstance(end.code, int) else 1)
            finally:
                os._exit(99)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        printed.seek(0)
        return End(case, code, printed.read().decode(errors="backslashreplace"))
