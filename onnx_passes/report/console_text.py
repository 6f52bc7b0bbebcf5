"""The console's lines: one pass, its details, a failure."""

from __future__ import annotations

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
)
from onnx_passes.verify.result import Check, EngineSpread, OutputCheck

STYLES = {"good": "green", "bad": "bold red", "warn": "yellow", "plain": "dim"}

_MOST_BUDGETS = 5


class ConsoleText(FailureRows):
    """Writes the parts of a report as text."""

    def pass_line(self, done: PassReport) -> str:
        """Return a pass as one line: nodes, rewrites, time, the verdict and why."""
        words, count = summary.verdict_words(done), len(done.rewrites)
        indent = "  " * len(done.group.split("/") if done.group else "")
        nodes = self._glyphs.step(done.nodes_before, done.nodes_after)
        applied = plural(count, "rewrite") if count else ""
        numbers = f"{nodes:>11} {applied:>11} {duration(done.seconds):>7}"
        # The error that follows says why, in its own words.
        why = f": {self._name(words.why)}" if words.why and not done.error else ""
        return f"{indent + self._name(done.name):<32} {numbers}  {self._name(words.head)}{why}"

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
