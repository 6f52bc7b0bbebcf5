"""A run as it happens, for a person at a terminal or a log that a pipe fills."""

from __future__ import annotations

from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Self, TextIO

from onnx_passes.report import summary
from onnx_passes.report.console_printer import ConsolePrinter
from onnx_passes.report.console_text import STYLES
from onnx_passes.report.pass_report import PassReport
from onnx_passes.report.run_report import RunReport
from onnx_passes.report.text import NOISE, duration, plural
from onnx_passes.verify.result import Verdict

if TYPE_CHECKING:
    from rich.progress import Progress

_MOST_REWRITES, _MOST_IDLE = 20, 2
# What is printed: each level adds to those before.
_ERRORS, _BRIEF, _PASSES, _DETAILS, _EVERYTHING = range(5)


class ConsoleReporter(ConsolePrinter):
    """Prints a run on a stream, which should be stderr: stdout is for results.

    On a terminal each pass is a line as soon as it ends (three or more in a row that change
    nothing are one), and a summary follows. In a pipe only failures, findings of analyses, a
    one-line summary and what was not verified appear, unless asked for more.

    Args:
        stream: Where to print.
        verbosity: -1 prints errors only; 0 what fits the stream; 1 each pass with its rewrites
            and checks; 2 also the comparison of each output.
        width: Columns; None for the terminal's own.
    """

    def __init__(
        self, stream: TextIO, *, verbosity: int = 0, width: int | None = None
    ) -> None:
        """Look at the stream; print nothing yet."""
        super().__init__(stream, width)
        default = _PASSES if self._terminal else _BRIEF
        self._level = _ERRORS if verbosity < 0 else max(default, verbosity and verbosity + 2)
        self._level = min(self._level, _EVERYTHING)
        self._progress: Progress | None = None
        self._report: RunReport | None = None
        self._group = ""
        self._idle: list[PassReport] = []

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
        self._flush()

    def start(self, report: RunReport) -> None:
        """Print what is about to be done."""
        self._report = report
        if self._level < _PASSES:
            return
        self._print(self._glyphs.name(report.model), "bold")
        if not report.verify:
            self._off()

    def pass_started(self, pass_report: PassReport) -> None:
        """Show that a pass is at work, on a terminal that can show it."""
        if self._level < _PASSES or not self._terminal or self._console.is_dumb_terminal:
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
        """Print a pass: its line, its details, its failure."""
        if self._progress is not None:
            self._progress.update(self._progress.task_ids[0], completed=pass_report.index + 1)
        if self._level == _PASSES and _says_nothing(pass_report):
            if self._idle and self._idle[0].group != pass_report.group:
                self._flush()
            self._idle.append(pass_report)
            return
        self._flush()
        if self._level >= _PASSES:
            self._pass(pass_report)
        if pass_report.error:
            self._failure(pass_report)
        elif self._level in (_BRIEF, _PASSES):
            self._findings(pass_report)

    def finished(self, report: RunReport) -> None:
        """Print how the run ended, and above all what was not verified."""
        self._stop()
        self._flush()
        if error := summary.run_error(report):
            self._error(error)
        if self._level == _ERRORS:
            return
        self._panel("the result", self._told.of_result(report))
        if self._level >= _PASSES:
            self._table(report)
        else:
            self._one_line(report)
        for told in map(str, report.waivers):
            self._print(self._glyphs.name(told))
        for note in report.notes:
            if NOISE in note and self._level < _DETAILS:
                continue
            self._print(f"note: {self._glyphs.name(note)}")
        if not report.verify:
            self._off()
        self._doubts("NOT VERIFIED", report.not_verified)
        self._doubts("PRECONDITION", report.preconditions)

    def replay(self, report: RunReport) -> None:
        """Print a run that is over, as it would have been printed on a terminal."""
        self._level = max(self._level, _PASSES if self._level > _ERRORS else _ERRORS)
        self.start(report)
        for done in report.passes:
            self.pass_finished(done)
        self.finished(report)

    def _flush(self) -> None:
        """Print the passes that changed nothing, of more than a few their number."""
        idle, self._idle = self._idle, []
        if len(idle) > _MOST_IDLE:
            seconds = sum(done.seconds for done in idle)
            name = plural(len(idle), "pass")
            idle = [replace(idle[-1], name=name, pass_seconds=seconds, verify_seconds=0.0)]
        for done in idle:
            self._pass(done)

    def _pass(self, done: PassReport) -> None:
        if done.group != self._group:
            self._group = done.group
            if done.group:
                self._print(self._glyphs.name(done.group), "dim")
        for line in self._told.pass_lines(done, self._width):
            self._put(line)
        if self._level < _DETAILS:
            return
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

    def _findings(self, done: PassReport) -> None:
        if self._level == _BRIEF and done.findings:
            self._print(f"{self._glyphs.name(done.name)}:")
        for finding in done.findings:
            self._detail(self._glyphs.name(finding))

    def _failure(self, done: PassReport) -> None:
        self._error(done.error or "")
        if self._level > _ERRORS:
            self._panel(done.name, self._told.of_pass(done))

    def _table(self, report: RunReport) -> None:
        from rich.table import Table
        from rich.text import Text

        words = summary.outcome(report)
        style = STYLES[words.tone]
        head = Text("\n").append(words.head, f"bold {style}")
        goal = f" {self._glyphs.arrow} {report.output}" if report.output else ""
        if told := summary.evidence_text(report):
            head.append(f"  {told}", style)
        head.append(f"  {self._glyphs.name(report.model + goal)}  {duration(report.seconds)}")
        self._put(head)
        if words.why and words.tone != "bad":
            self._print(f"  {self._glyphs.name(words.why)}", style)
        grid = Table.grid(padding=(0, 2), pad_edge=True)
        grid.add_column(style="dim", no_wrap=True)
        grid.add_column(overflow="fold")
        for label, told in self._told.summary_rows(report):
            grid.add_row(f"{label}", Text(told))
        if self._level >= _DETAILS and report.read_back is not None:
            grid.add_row("file", self._told.read_back(report.read_back))
        if self._level >= _DETAILS:
            for engine in report.engines:
                for spread in engine.spreads:
                    grid.add_row("noise", Text(self._told.spread(spread)))
        self._console.print(grid)

    def _one_line(self, report: RunReport) -> None:
        words = summary.outcome(report)
        goal = f" {self._glyphs.arrow} {report.output}" if report.output else ""
        told = summary.evidence_text(report)
        parts = [told] if told else []
        parts.append(f"{report.model}{goal}")
        if report.before and report.after:
            nodes = self._glyphs.step(f"{report.before.nodes:,}", f"{report.after.nodes:,}")
            parts.append(f"{nodes} node{'s' * (report.after.nodes != 1)}")
        count = summary.rules(report.passes).total()
        if report.passes:
            parts += [plural(len(report.passes), "pass"), plural(count, "rewrite")]
        parts.append(duration(report.seconds))
        self._print(f"{words.head}: {self._glyphs.name(', '.join(parts))}")
        if words.why and words.tone == "warn" and report.verify:
            self._print(f"  {self._glyphs.name(words.why)}")

    def _off(self) -> None:
        loud = "VERIFICATION IS OFF: nothing that the passes do is checked"
        self._print(loud, "bold black on yellow")

    def _stop(self) -> None:
        if self._progress is not None:
            self._progress.stop()
            self._progress = None


def _says_nothing(done: PassReport) -> bool:
    return done.verdict is Verdict.UNCHANGED and not (
        done.changed or done.error or done.findings or done.rewrites
    )
