"""What a run prints on a terminal or in a pipe: lines, errors, panels and doubts."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, TextIO

from onnx_passes.report.console_failure import AFTER, BEFORE, MISMATCH, Row
from onnx_passes.report.console_glyphs import Glyphs
from onnx_passes.report.console_text import STYLES, ConsoleText
from onnx_passes.report.text import printable

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

_ROW_STYLES = {BEFORE: "red", AFTER: "green", MISMATCH: "bold red", "reproduce": "bold"}
_ROW_SIGNS = {BEFORE: "- ", AFTER: "+ ", MISMATCH: "^ "}
_MOST_UNVERIFIED = 20
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

    def _panel(self, title: str, rows: list[Row]) -> None:
        """Show a failure: nodes as a diff, the mismatch where it is."""
        from rich.panel import Panel
        from rich.table import Table
        from rich.text import Text

        if not rows:
            return
        if not self._terminal:
            for label, told in rows:
                self._print(f"  {label:<9} {told}")
            return
        grid = Table.grid(padding=(0, 2))
        grid.add_column(style="dim", no_wrap=True)
        grid.add_column(overflow="fold")
        last = ""
        for label, told in rows:
            text = Text(_ROW_SIGNS.get(label, "") + told, _ROW_STYLES.get(label, ""))
            grid.add_row("" if label in (last, MISMATCH) else label, text)
            last = label if label != MISMATCH else last
        head = Text(self._glyphs.name(title), STYLES["bad"])
        self._console.print(Panel(grid, title=head, title_align="left", border_style="red"))

    def _error(self, text: str) -> None:
        shown = printable(text.rstrip(), self._glyphs.encoding)
        first, _, rest = shown.partition("\n")
        self._print(first, STYLES["bad"])
        if rest:
            self._print(rest)

    def _doubts(self, title: str, sentences: list[str]) -> None:
        from rich.panel import Panel
        from rich.text import Text

        if not sentences:
            return
        told = [self._glyphs.name(s) for s in sentences[:_MOST_UNVERIFIED]]
        if len(sentences) > len(told):
            told.append(f"and {len(sentences) - len(told):,} more, in the JSON report")
        if not self._terminal:
            for sentence in told:
                self._print(f"{title.lower()}: {sentence}")
            return
        style = STYLES["warn"]
        head = Text(title, f"bold {style}")
        self._console.print(
            Panel(Text("\n".join(told)), title=head, title_align="left", border_style=style)
        )

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
