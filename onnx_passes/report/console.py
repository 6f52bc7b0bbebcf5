"""A run as it happens, for a person at a terminal or a log that a pipe fills."""

from __future__ import annotations

import os
from collections.abc import Iterable
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self, TextIO

from onnx_passes.report import summary
from onnx_passes.report.console_failure import AFTER, BEFORE, MISMATCH, Row
from onnx_passes.report.console_glyphs import Glyphs
from onnx_passes.report.console_summary import ConsoleSummary
from onnx_passes.report.console_text import STYLES, ConsoleText
from onnx_passes.report.pass_report import PassReport
from onnx_passes.report.run_report import RunReport
from onnx_passes.report.text import annotation, duration, terminal_width, wrapped
from onnx_passes.verify.result import Verdict

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress
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


_MOST_REWRITES = 20
# What is printed: each level adds to those before.
_ERRORS, _SUMMARY, _DETAILS, _EVERYTHING = range(-1, 3)


class ConsoleReporter(ConsolePrinter):
    """Prints a run on a stream, which should be stderr: stdout is for results.

    The summary comes when the run is over, in a pipe as on a terminal: the verdict first.
    Findings of analyses come at once.

    Args:
        stream: Where to print.
        verbosity: -1 prints errors only; 0 the summary; 1 each pass with its rewrites and
            checks; 2 also the comparison of each output.
        width: Columns; None for the terminal's own.
    """

    def __init__(
        self, stream: TextIO, *, verbosity: int = 0, width: int | None = None
    ) -> None:
        """Look at the stream; print nothing yet."""
        super().__init__(stream, width)
        self._level = max(_ERRORS, min(verbosity, _EVERYTHING))
        self._progress: Progress | None = None
        self._report: RunReport | None = None
        self._group = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Give the terminal back, whatever happened."""
        self._stop()

    def start(self, report: RunReport) -> None:
        """Remember what is about to be done."""
        self._report = report

    def pass_started(self, pass_report: PassReport) -> None:
        """Show that a pass is at work, on a terminal that can show it."""
        unable = not self._terminal or self._console.is_dumb_terminal
        if self._level < _SUMMARY or unable:
            return
        planned = self._report.planned if self._report else None
        total = planned if planned is not None and planned > pass_report.index else None
        of = f"/{total}" if total is not None else ""
        label = f"{pass_report.index + 1}{of} {self._glyphs.name(pass_report.name)}"
        if self._progress is None:
            from onnx_passes.report.console_progress import make_progress

            ascii_only = self._glyphs.encoding == "ascii"
            self._progress = make_progress(self._console, ascii_only=ascii_only)
            self._progress.add_task(label, total=total)
            self._progress.start()
        self._progress.update(
            self._progress.task_ids[0],
            description=label,
            completed=pass_report.index,
            total=total,
        )

    def pass_finished(self, pass_report: PassReport) -> None:
        """Print what an analysis found; if asked for more, each pass and its details."""
        if self._progress is not None:
            self._progress.update(self._progress.task_ids[0], completed=pass_report.index + 1)
        if self._level >= _DETAILS:
            self._pass(pass_report)
        elif self._level == _SUMMARY and pass_report.findings and not pass_report.error:
            self._say(f"{self._glyphs.name(pass_report.name)}:")
            for finding in pass_report.findings:
                self._detail(self._glyphs.name(finding))

    def finished(self, report: RunReport, page: Path | None = None) -> None:
        """Print how the run ended: the verdict, what changed, and what was checked.

        Args:
            report: The run.
            page: Where it stands as a page; None for nowhere.
        """
        self._stop()
        told = ConsoleSummary(self._glyphs, report, details=self._level >= _DETAILS)
        words = summary.outcome(report)
        failed = words.tone == "bad"
        if self._level == _ERRORS and not failed:
            return
        goal = f" {self._glyphs.arrow} {report.output}" if report.output else ""
        self._head(
            self._glyphs.name(told.head),
            words.tone,
            f"{self._glyphs.name(report.model + goal)}  {duration(report.seconds)}",
        )
        self._rows(told.failure() if failed else told.success())
        if self._level > _ERRORS:
            for doubt in told.doubts():
                self._say(doubt, STYLES["warn"])
            for remark in told.remarks(noise=self._level >= _DETAILS):
                self._say(remark)
            self._rows(told.next_steps(page))
        if failed and os.environ.get("GITHUB_ACTIONS") == "true":
            self._annotate(report.model, told.head, told.failure())

    def replay(self, report: RunReport) -> None:
        """Print a run that is over."""
        self.start(report)
        for done in report.passes:
            self.pass_finished(done)
        self.finished(report)

    def _pass(self, done: PassReport) -> None:
        if done.group != self._group:
            self._group = done.group
            if done.group:
                self._say(self._glyphs.name(done.group), "dim")
        tone = summary.verdict_words(done).tone
        self._say(self._told.pass_line(done), STYLES[tone] if tone != "good" else "")
        most = len(done.rewrites) if self._level >= _EVERYTHING else _MOST_REWRITES
        for rewrite in done.rewrites[:most]:
            self._detail(self._told.rewrite(rewrite))
        if len(done.rewrites) > most:
            self._detail(f"and {len(done.rewrites) - most:,} more rewrites (-vv shows all)")
        for check in done.checks:
            self._detail(self._told.check(check))
            if budget := self._told.budget(check):
                self._detail(budget)
            if self._level >= _EVERYTHING:
                for output in check.outputs:
                    self._detail(self._told.output(output), indent=8)
        for note in done.notes:
            self._detail(self._glyphs.name(note))
        if done.verdict is Verdict.FAILED:
            self._rows(self._told.of_pass(done))

    def _stop(self) -> None:
        if self._progress is not None:
            self._progress.stop()
            self._progress = None
