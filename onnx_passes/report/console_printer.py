"""How a run is printed on a terminal or in a pipe: heads, rows, panels and lines."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import TYPE_CHECKING, TextIO

from onnx_passes.report.console_failure import AFTER, BEFORE, MISMATCH, Row
from onnx_passes.report.console_glyphs import Glyphs
from onnx_passes.report.console_text import STYLES, ConsoleText

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

        width = self._asked_width
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

        head = Text(verdict, STYLES[tone]).append(f"  {rest}", "not bold default")
        if self._terminal:
            self._console.print(head)
        else:
            self._put(head)

    def _rows(self, rows: Iterable[Row]) -> None:
        """Print rows of a label and a text; a label that is the one before is left out."""
        from rich.table import Table
        from rich.text import Text

        last = ""
        grid = Table.grid(padding=(0, 2), pad_edge=True)
        grid.add_column(style="dim", no_wrap=True, min_width=_LABEL)
        grid.add_column(overflow="fold")
        for label, told in rows:
            shown = "" if label == last else label
            last = label or last
            text = Text(told, _LABELS.get(last, ""))
            if self._terminal:
                grid.add_row(shown, text)
            else:
                self._put(Text(f"  {shown:<{_LABEL}}  ", "dim").append_text(text))
        if self._terminal and grid.row_count:
            self._console.print(grid)

    def _say(self, told: str, style: str = "") -> None:
        """Print a sentence; on a terminal it breaks between words."""
        from rich.text import Text

        if self._terminal:
            self._console.print(Text(told, style))
        else:
            self._print(told, style)

    def _annotate(self, file: str, title: str, rows: Iterable[Row]) -> None:
        """Print what GitHub shows beside a commit."""
        told = "%0A".join(
            f"{label} {text}".strip().replace("%", "%25") for label, text in rows
        )
        file = self._glyphs.name(file)
        self._print(f"::error file={file},title={title}::{told}")

    def _detail(self, told: str, indent: int = 4) -> None:
        from rich.padding import Padding
        from rich.text import Text

        if self._terminal:
            self._console.print(Padding(Text(told, "dim"), (0, 0, 0, indent)))
        else:
            self._print(" " * indent + told)

    def _print(self, told: str, style: str = "") -> None:
        from rich.text import Text

        self._put(Text(told, style))

    def _put(self, text: Text) -> None:
        # A log is read by tools too: there a line stays a line.
        self._console.print(text, soft_wrap=True)
