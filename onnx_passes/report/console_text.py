"""The console's lines, as rich text: one pass, its details, a failure, the summary."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onnx_passes.report import summary
from onnx_passes.report.console_failure import FailureRows, limits
from onnx_passes.report.pass_report import PassReport, RewriteSummary
from onnx_passes.report.run_report import ReadBackReport
from onnx_passes.report.text import (
    bound,
    duration,
    number,
    percent,
    plural,
    size,
    wrapped,
)
from onnx_passes.verify.result import Check, EngineSpread, OutputCheck

if TYPE_CHECKING:
    from rich.text import Text

STYLES = {"good": "green", "bad": "bold red", "warn": "yellow", "plain": "dim"}

_BOLD = {True: "bold", False: ""}
_MOST_BUDGETS = 5
_VERDICT = 15  # columns kept for the verdict: "structure kept", "within 4.1e-6"


class ConsoleText(FailureRows):
    """Writes the parts of a report as text."""

    def pass_lines(self, done: PassReport, width: int) -> list[Text]:
        """Return a pass as one line; a verdict that does not fit takes the next ones.

        Args:
            done: The pass.
            width: Columns there are, 40 or more.
        """
        from rich.text import Text

        roomy = width >= 100
        count = len(done.rewrites)
        applied = plural(count, "rewrite") if roomy else f"{count}x"
        nodes = self._glyphs.step(done.nodes_before, done.nodes_after)
        spent = duration(done.seconds)
        numbers = f" {nodes:>{15 if width >= 80 else 11}}"
        numbers += f" {applied if count else '':>{15 if roomy else 5}}"
        words = summary.verdict_words(done)
        # The error that follows says why, in its own words.
        why = Text(self._name(words.why) if not done.error else "")
        verdict = Text(self._name(words.head), STYLES[words.tone])

        columns = max(min(width - len(numbers) - 9 - _VERDICT, 44), 12)
        indent = "  " * len(done.group.split("/") if done.group else "")
        line = Text(no_wrap=True)
        line.append(self._title(indent + self._name(done.name), columns), _BOLD[done.changed])
        line.append(numbers, "" if done.changed else "dim").append(f" {spent:>7} ", "dim")
        if line.cell_len + verdict.cell_len > width:
            return [line, *_indented(verdict, width), *(_indented(why, width) if why else [])]
        line.append_text(verdict)
        if not why:
            return [line]
        if line.cell_len + 2 + why.cell_len <= width:
            return [line.append(": ").append_text(why)]
        return [line.append(":"), *_indented(why, width)]

    def _title(self, name: str, columns: int) -> str:
        """Fit a name into its column; its options give way first."""
        from rich.cells import cell_len, set_cell_size

        if cell_len(name) > columns and "{" in name:
            name = f"{name.partition('{')[0]}{{{self._glyphs.ellipsis}}}"
        if cell_len(name) > columns:
            name = (
                set_cell_size(name, columns - len(self._glyphs.ellipsis))
                + self._glyphs.ellipsis
            )
        return set_cell_size(name, columns)

    def rewrite(self, rewrite: RewriteSummary) -> str:
        """Return an application as ``#31 MergeClips: Clip(..) -> y => Clip(..) -> y``."""
        old, new = (
            "; ".join(node for _, node in self.nodes("", side))
            for side in (rewrite.nodes, rewrite.new_nodes)
        )
        return f"#{rewrite.number} {self._name(rewrite.rule)}: {old} => {new or 'nothing'}"

    def check(self, check: Check) -> str:
        """Return a check as ``tolerance on onnxruntime, region: within 3e-7, 31 ms``."""
        words = summary.check_words(check)
        where = f" on {self._name(check.engine)}, {check.scope}" if check.engine else ""
        why = f" ({self._name(words.why)})" if words.why else ""
        return f"{check.kind}{where}: {self._name(words.head)}{why}, {duration(check.seconds)}"

    def budget(self, check: Check) -> str | None:
        """Return what is spent of error budgets: ``budget y: 34 % spent (this pass 3 %)``."""
        told = [
            f"{self._name(spent.output)}: {percent(spent.total)} spent "
            f"(this pass {percent(spent.step)}, all steps {percent(spent.summed)})"
            for spent in sorted(check.budget, key=lambda s: s.total, reverse=True)[
                :_MOST_BUDGETS
            ]
        ]
        return f"budget {'; '.join(told)}" if told else None

    def read_back(self, found: ReadBackReport) -> str:
        """Return what reading the file again has shown: ``read back: equal, 31 ms``."""
        if found.result == "equal":
            told = f"{size(found.tensor_bytes)} of tensors, {duration(found.seconds)}"
            return f"read back: equal, {told}"
        return f"read back: {found.result}, {self._name(found.reason or '')}"

    def spread(self, spread: EngineSpread) -> str:
        """Return how far runs of the original are apart in one output."""
        return (
            f"{self._name(spread.output)} max abs {bound(spread.max_abs)}, max rel "
            f"{bound(spread.max_rel)} between {self._name(spread.between)}"
        )

    def output(self, output: OutputCheck) -> str:
        """Return the comparison of one output: its errors and the limit."""
        parts = [self._name(output.output)]
        if output.max_abs is not None:
            parts.append(f"max abs {bound(output.max_abs)}")
        if output.max_rel is not None:
            parts.append(f"max rel {bound(output.max_rel)}")
        if output.rmse_new is not None and output.rmse_old is not None:
            old, new = number(output.rmse_old, 3), number(output.rmse_new, 3)
            parts.append(f"error against float64 {new}, was {old}")
        else:
            parts.append(f"{output.mismatched:,} of {output.size:,} outside {limits(output)}")
        if output.reason:
            parts.append(self._name(output.reason))
        return ", ".join(parts)


def _indented(text: Text, width: int) -> list[Text]:
    from rich.text import Text

    return [Text(line, text.style) for line in wrapped(f"    {text.plain}", width, 4)]
