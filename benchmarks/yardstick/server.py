"""A process that answers a line with a line, started anew when it crashes or hangs."""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import Any

from benchmarks.environments import clean_environment


class Server:
    """One command; its first line on standard output says that it is ready."""

    def __init__(self, command: Sequence[str], limit: float, start_limit: float = 180) -> None:
        """Name the command, and the seconds that an answer and the start may take."""
        self.command = list(command)
        self.limit = limit
        self.start_limit = start_limit
        self.child: subprocess.Popen[str] | None = None

    def ask(self, question: Any) -> tuple[str, Any]:
        """Return ``answer`` and what it said, or ``crashed`` or ``hangs`` and why."""
        if self.child is None:
            self.child = subprocess.Popen(
                self.command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                env=clean_environment(),
                start_new_session=True,
            )
            if self._line(self.start_limit)[0] != "answer":
                raise SystemExit(f"{' '.join(self.command)}: it does not start")
        assert self.child.stdin is not None
        try:
            self.child.stdin.write(json.dumps(question) + "\n")
            self.child.stdin.flush()
        except BrokenPipeError:
            return self._gone()
        kind, line = self._line(self.limit)
        return (kind, json.loads(line)) if kind == "answer" else (kind, line)

    def _line(self, limit: float) -> tuple[str, str]:
        assert self.child is not None
        assert self.child.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(self.child.stdout, selectors.EVENT_READ)
            if not selector.select(limit):
                self.stop()
                return "hangs", f"no answer within {limit:g} s"
        line = self.child.stdout.readline()
        return ("answer", line) if line else self._gone()

    def _gone(self) -> tuple[str, str]:
        assert self.child is not None
        self.child.communicate()  # closes its streams
        code, self.child = self.child.returncode, None
        return "crashed", f"it ended with {code}"

    def stop(self) -> None:
        """End it and what it started."""
        if self.child is not None:
            os.killpg(self.child.pid, signal.SIGKILL)
            self.child.communicate()
            self.child = None


def serve(answer: Callable[[Any], object]) -> None:
    """Answer each line of standard input; what is printed meanwhile goes to standard error."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    print("ready", file=answers)
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line))), file=answers)
