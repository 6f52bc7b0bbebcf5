"""One bad input, and what a command makes of it."""

from __future__ import annotations

import os
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

    @property
    def message(self) -> str:
        """Return the first error as it stands in a table, cut; empty if there is none."""
        errors = [line for line in self.text.splitlines() if line.startswith("error[")]
        return (errors or [""])[0][:90].replace("|", "\\|").replace("`", "'")

    @property
    def error(self) -> str:
        """Return the kind of error; empty if there is none."""
        return self.message.partition("[")[2].partition("]")[0]


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
