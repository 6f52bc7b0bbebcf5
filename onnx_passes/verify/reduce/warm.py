"""Commands that are Python scripts, started from a process that is warm."""

from __future__ import annotations

import json
import os
import queue
import shutil
import subprocess
import tempfile
import threading
import time
import weakref
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from onnx_passes.errors import UsageError
from onnx_passes.runtime import processes

_SERVER = Path(__file__).with_name("fork_server.py")

_Answers = dict[int, "queue.SimpleQueue[tuple[str, int]]"]


@dataclass
class Warm:
    """Runs a script in processes forked from one that has imported what the script imports.

    The first run shows which modules it needs, and later ones find them there too.

    Attributes:
        interpreter: The script's interpreter.
        script: The script.
    """

    interpreter: str
    script: str
    _process: subprocess.Popen[bytes] | None = None
    _answers: _Answers = field(default_factory=dict)
    _folder: Path = field(init=False)
    _count: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def run(self, arguments: Sequence[str], out: str, err: str, timeout: float) -> int | None:
        """Run the script once.

        Args:
            arguments: Its arguments.
            out: A file that is there, and gets what it prints.
            err: One that gets what it prints on its standard error.
            timeout: Seconds after which it is ended, with its process group.

        Returns:
            Its exit code, negative for a signal; None where it was ended.

        Raises:
            UsageError: It cannot be started.
        """
        answers: queue.SimpleQueue[tuple[str, int]] = queue.SimpleQueue()
        modules = ""
        with self._lock:
            if self._process is None:
                self._process = self._start()
                modules = str(self._folder / "modules.json")
            self._count += 1
            number = self._count
            self._answers[number] = answers
        request = {"id": number, "arguments": [*arguments], "out": out, "err": err}
        self._send({**request, "modules": modules})
        worker, end = 0, time.monotonic() + timeout
        try:
            while True:
                kind, told = answers.get(timeout=max(0.0, end - time.monotonic()))
                worker = told if kind == "pid" else 0
                if kind == "gone":
                    raise self._gone()
                if kind == "code":
                    if modules:
                        self._send({"import": modules})
                    return told
        except queue.Empty:
            return None
        finally:
            del self._answers[number]
            if worker:
                processes.kill_group(worker)

    def _start(self) -> subprocess.Popen[bytes]:
        folder = tempfile.TemporaryDirectory()
        self._folder = Path(folder.name)
        words = [self.interpreter, str(_SERVER), self.script]
        process = processes.start(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        listen = threading.Thread(target=_listen, args=(process, self._answers), daemon=True)
        listen.start()
        weakref.finalize(self, _end, process, listen, folder)
        return process

    def _send(self, request: dict[str, object]) -> None:
        stdin = None if self._process is None else self._process.stdin
        assert stdin is not None
        with self._lock:
            try:
                stdin.write(json.dumps(request).encode() + b"\n")
                stdin.flush()
            except BrokenPipeError as error:
                raise self._gone() from error

    def _gone(self) -> UsageError:
        return UsageError(
            f"--warm: {self.interpreter} does not run {self.script}, or no longer",
            help="leave --warm out",
        )


def script_of(words: Sequence[str]) -> tuple[str, str, int] | None:
    """Return the interpreter and script of a command, and the place of its first argument.

    Args:
        words: ``python check.py ...``, or a script whose first line names an interpreter.

    Returns:
        None for other commands, and where processes cannot be forked.
    """
    found = shutil.which(words[0])
    if found is None or not hasattr(os, "fork"):
        return None
    if Path(words[0]).name.startswith("python"):
        there = len(words) > 1 and Path(words[1]).is_file()
        return (words[0], words[1], 2) if there else None
    with open(found, "rb") as stream:
        line = stream.readline(500)
    interpreter = line[2:].decode(errors="replace").split() if line[:2] == b"#!" else []
    if interpreter and Path(interpreter[0]).name == "env":
        interpreter = interpreter[1:]
    if len(interpreter) != 1 or not Path(interpreter[0]).name.startswith("python"):
        return None
    return interpreter[0], found, 1


def _listen(process: subprocess.Popen[bytes], answers: _Answers) -> None:
    """Pass answers on until the server has gone; those who wait get a message then."""
    assert process.stdout is not None
    with process.stdout:
        for line in process.stdout:
            number, kind, value = line.split()
            if (told := answers.get(int(number))) is not None:
                told.put((kind.decode(), int(value)))
    for waiting in list(answers.values()):
        waiting.put(("gone", 0))


def _end(
    process: subprocess.Popen[bytes],
    listen: threading.Thread,
    folder: tempfile.TemporaryDirectory[str],
) -> None:
    assert process.stdin is not None
    with suppress(BrokenPipeError):
        process.stdin.close()
    with suppress(subprocess.TimeoutExpired):
        process.wait(5)
    processes.kill(process)
    listen.join(5)
    folder.cleanup()
