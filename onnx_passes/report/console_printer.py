"""How a run is printed on a terminal or in a pipe: heads, rows, panels and lines."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import TYPE_CHECKING, TextIO

from onnx_passes.report.console_failure import AFTER, BEFORE, MISMATCH, Row
from onnx_passes.report.console_glyphs import Glyphs
from onnx_passes.report.console_text import STYLES, ConsoleText
from onnx_passes.report.text import annotation, terminal_width, wrapped

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

_LABELS = {
    "verdict": "yellow",
    "wrong": "red",
    BEFORE: "green",
    AFTER: "red",
    MISMATCH: "bold red",
}
_LABEL = 10
_NARROWEST, _WIDEST = 40, 200


class ConsolePrinter:
    """Prints on a stream: styled on a terminal, a line for each statement in a pipe.

    Args:
        stream: Where to print.
        width: Columns; None for the terminal's own.
    """

    def __init__(self, stream: TextIO, width: int | None) -> None:
        """Look at the stream; print nothing yet."""
        self._stream, self._asked_width = stream, width
        self._glyphs = Glyphs.of(getattr(stream, "encoding", None))
        self._told = ConsoleText(self._glyphs)
        # FORCE_COLOR makes rich call a pipe a terminal; what is printed does not depend on it.
        self._terminal = stream.isatty()

    @cached_property
    def _console(self) -> Console:
        """Made when something is printed: to import rich takes as long as to fold a model."""
        from rich.console import Console, ConsoleDimensions

        width = self._asked_width or terminal_width(self._stream)
        console = Console(
            file=self._stream, width=width, highlight=False, markup=False, emoji=False
        )
        columns = min(max(width or console.width, _NARROWEST), _WIDEST)
        console.size = ConsoleDimensions(columns, console.height)
        return console

    @property
    def _width(self) -> int:
        return self._console.width

    def _head(self, verdict: str, tone: str, rest: str) -> None:
        from rich.text import Text

        for index, line in enumerate(self._wrapped(f"{verdict}  {rest}", 2)):
            text = Text(line)
            text.stylize(STYLES[tone], 0, 0 if index else len(verdict))
            self._put(text)

    def _rows(self, rows: Iterable[Row]) -> None:
        """Print rows of a label and a text; a label that is the one before is left out."""
        from rich.text import Text

        last = ""
        for label, told in rows:
            shown = "" if label == last else label
            last = label or last
            head = f"  {shown:<{_LABEL}}"
            for line in self._wrapped(told, 0, len(head)):
                self._put(Text(head, "dim").append(line, _LABELS.get(last, "")))
                head = " " * len(head)

    def _say(self, told: str, style: str = "") -> None:
        """Print a sentence."""
        for line in self._wrapped(told, 2):
            self._print(line, style)

    def _wrapped(self, text: str, hang: int, taken: int = 0) -> list[str]:
        """Break a line where a terminal ends. A log is read by tools too: there it stays one.

        Args:
            text: The line.
            hang: Spaces in front of all lines but the first.
            taken: Columns that something else takes.
        """
        return wrapped(text, self._width - taken, hang) if self._terminal else [text]

    def _annotate(self, file: str, title: str, rows: Iterable[Row]) -> None:
        """Print what GitHub shows beside a commit."""
        told = "\n".join(f"{label} {text}".strip() for label, text in rows)
        self._print(annotation(title, told, self._glyphs.name(file)))

    def _detail(self, told: str, indent: int = 4) -> None:
        for line in self._wrapped(" " * indent + told, indent + 2):
            self._print(line, "dim")

    def _print(self, told: str, style: str = "") -> None:
        from rich.text import Text

        self._put(Text(told, style))

    def _put(self, text: Text) -> None:
        self._console.print(text, soft_wrap=True)
