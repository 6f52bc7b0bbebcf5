"""What commands print and write: checks of destinations, lines, and a progress line.

The progress line is shown on a terminal whenever a command is silent for long.
"""

from __future__ import annotations

import io
import os
import re
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

import click

from onnx_passes.errors import UsageError
from onnx_passes.report.text import one_line, plural, terminal_width, whole_seconds, wrapped

_FOREIGN = (".ort", ".json", ".textproto", ".prototxt", ".pbtxt", ".engine", ".plan", ".npz")


def check_destinations(
    output: Path | None,
    reports: Mapping[str, Path | None],
    inputs: Mapping[str, Sequence[Path]],
) -> None:
    """Check that files can be written, and that none takes the place of what is read.

    The model may be written over itself: it is replaced in one step, once all is verified.
    Reports are by option, ``inputs`` by what they are. UsageError if a path cannot be a file,
    or is in use.
    """
    if output is not None and "the model" in inputs and output.suffix.lower() in _FOREIGN:
        other = f"models are written as ONNX, and {output.suffix} names another form"
        raise UsageError(f"-o {output}: {other}", help=f"-o {output.with_suffix('.onnx')}")
    wanted = {"-o": output, **reports}
    taken: dict[Path, str] = {}
    for option, path in wanted.items():
        if path is None:
            continue
        _check_place(option, path)
        for what, files in inputs.items():
            if what == "the model" and option == "-o":
                continue
            if any(_same(path, file) for file in files):
                raise UsageError(
                    f"{option} {path} would write over {what}", help="give another path"
                )
        other = taken.setdefault(Path(os.path.realpath(path)), option)
        if other != option:
            raise UsageError(
                f"{option} and {other} name the same file {path}", help="give two paths"
            )


def check_folder(option: str, path: Path) -> None:
    """Raise UsageError if a folder can neither be written to nor made."""
    if os.path.lexists(path) and not path.is_dir():
        raise UsageError(f"{option} {path} is not a folder", help="name a folder")
    _check_writable(option, path, path.absolute())


def _check_place(option: str, path: Path) -> None:
    from onnx_passes.model.save import is_device

    if option != "-o" and path.name == str(path) == "-":
        example = f"report.{'xml' if option == '--junit' else option[2:]}"
        raise UsageError(f"{option} prints nothing on -", help=f"name a file: {example}")
    if path.is_dir():
        raise UsageError(f"{option} {path} is a folder", help="name a file in it")
    if is_device(path):
        raise UsageError(
            f"{option} {path} is a pipe or device",
            help="name a file; -o - prints the model" if option == "-o" else "name a file",
        )
    _check_writable(option, path, path.absolute().parent)


def _check_writable(option: str, path: Path, folder: Path) -> None:
    while not os.path.lexists(folder):  # folders are made
        folder = folder.parent
    if not folder.is_dir():
        raise UsageError(
            f"{option} {path}: {folder} is not a folder", help="give another path"
        )
    if not os.access(folder, os.W_OK | os.X_OK):
        raise UsageError(
            f"{option} {path}: the folder {folder} may not be written to",
            help="give a path in a folder that you may write to",
        )


def _same(path: Path, other: Path) -> bool:
    try:
        return path.samefile(other)
    except OSError:
        return False


def abandon_stdout() -> None:
    """Let nothing more be written to a pipe that nobody reads."""
    with suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def keep_stdout() -> None:
    """Send to stderr what libraries print by themselves: stdout is for results."""
    with suppress(OSError, ValueError, AttributeError):
        old, own = sys.stdout, os.dup(sys.stdout.fileno())
        os.dup2(2, old.fileno())
        stream = os.fdopen(own, "wb")
        lines = old.isatty()
        sys.stdout = io.TextIOWrapper(stream, old.encoding, old.errors, line_buffering=lines)


def echo_line(text: str, *, err: bool = False, color: str | None = None) -> None:
    r"""Print one line; control characters of names are shown as ``\x1b`` or ``\n``.

    On a terminal it breaks between words, and continues below its last column.
    """
    stream = sys.stderr if err else sys.stdout
    encoding = getattr(stream, "encoding", None) or "utf-8"
    for line in fitted(one_line(text, encoding), stream):
        click.echo(line if color is None else click.style(line, fg=color), err=err)


def echo_lines(lines: Iterable[str], *, err: bool = False) -> None:
    """Print lines, as :func:`echo_line` does each."""
    for line in lines:
        echo_line(line, err=err)


def fitted(line: str, stream: TextIO | None) -> list[str]:
    """Break a line where the terminal of a stream ends; elsewhere it stays one."""
    width = terminal_width(stream)
    if width is None:
        return [line]
    columns = [found.end() for found in re.finditer(r"\S {2,}(?=\S)", line)]
    own = len(line) - len(line.lstrip())
    hang = max((at for at in columns if at <= 0.6 * width), default=own + 2)
    return wrapped(line, width, hang)


SILENCE = 2.0
"""Seconds without output after which the line appears."""

_PERIOD = 0.5
_CLEAR = "\r\x1b[2K"
_active: Ticker | None = None


@dataclass
class StepCount:
    """How far a command is, in steps that take about equally long.

    ``began`` and ``latest``, the end of the last step, are seconds of the monotonic clock.
    ``unit`` is in the singular, and ``name`` that of the step that is at work, if it has one.
    """

    unit: str
    total: int
    began: float
    done: int
    latest: float
    name: str = ""

    def text(self, now: float) -> str:
        """Return how many steps are done and how long the rest takes, if that is known."""
        count = f"{self.done:,} of {plural(self.total, self.unit)}"
        count += f", {self.name}" if self.name else ""
        if not self.done:
            return count
        each = (self.latest - self.began) / self.done
        left = each * (self.total - self.done) - (now - self.latest)
        return f"{count}, about {whole_seconds(left)} left" if left >= 1 else count


class Ticker:
    """Draws the line from a thread while the command prints nothing."""

    def __init__(self, stream: TextIO, label: str) -> None:
        """Start to wait."""
        self._stream, self._label = stream, label
        self._begin = self._spoke = time.monotonic()
        # A signal's handler may print while the command itself prints.
        self._lock = threading.RLock()
        self._over = threading.Event()
        self._drawn, self._line_ended = False, True
        self._steps: StepCount | None = None
        threading.Thread(target=self._draw, daemon=True).start()

    def stop(self) -> None:
        """Remove the line, for good."""
        with self._lock:
            self._over.set()
            self._clear()

    def write(self, stream: TextIO, text: str) -> int:
        """Write what the command prints; the line goes, and returns after a full line."""
        with self._lock:
            self._clear()
            written = stream.write(text)
            self._spoke = time.monotonic()
            if text:
                self._line_ended = text.endswith("\n")
            return written

    def advance(self, done: int, total: int, unit: str, name: str) -> None:
        """Say how far the command is: see ``advance`` of this module."""
        now = time.monotonic()
        with self._lock:
            steps = self._steps
            if steps is None or (steps.unit, steps.total) != (unit, total) or not done:
                steps = self._steps = StepCount(unit, total, now, 0, now)
            steps.done, steps.latest, steps.name = done, now, name

    def _clear(self) -> None:
        if self._drawn:
            self._stream.write(_CLEAR)
            self._stream.flush()
            self._drawn = False

    def _draw(self) -> None:
        while not self._over.wait(min(SILENCE, _PERIOD)):
            with self._lock:
                now = time.monotonic()
                # Half a line is a question, or the drawing of someone else.
                silent = self._line_ended and now - self._spoke >= SILENCE
                if self._over.is_set() or not silent:
                    continue
                text = f"{self._label}: {whole_seconds(now - self._begin)}"
                if self._steps is not None and self._steps.done < self._steps.total:
                    text += f", {self._steps.text(now)}"
                self._stream.write(_CLEAR + text)
                self._stream.flush()
                self._drawn = True


class _Watched:
    """A stream that removes the line before anything is written."""

    def __init__(self, stream: TextIO, ticker: Ticker) -> None:
        self._stream, self._ticker = stream, ticker

    def write(self, text: str) -> int:
        return self._ticker.write(self._stream, text)

    def __getattr__(self, name: str) -> object:
        if name == "buffer":
            self._ticker.stop()
        return getattr(self._stream, name)


@contextmanager
def ticking(label: str) -> Iterator[None]:
    """Draw the line while a command is silent; on a terminal that can move its cursor only."""
    global _active
    if sys.stderr is None or sys.stdout is None or not sys.stderr.isatty() or _is_dumb():
        yield
        return
    ticker = Ticker(sys.stderr, label)
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (_Watched(stream, ticker) for stream in before)
    outer, _active = _active, ticker
    try:
        yield
    finally:
        _active = outer
        sys.stdout, sys.stderr = before
        ticker.stop()


def advance(done: int, total: int, unit: str, name: str = "") -> None:
    """Say how far a command is; the line shows it, with the time that the rest takes.

    ``done`` is 0 as the first step begins. Each step should take about as long as another.
    ``unit`` is in the singular. ``name`` is that of the step that begins.
    """
    if _active is not None:
        _active.advance(done, total, unit, name)


def _is_dumb() -> bool:
    return os.environ.get("TERM", "").lower() in ("", "dumb", "unknown")
