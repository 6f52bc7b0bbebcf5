"""A failure in rows of a label and a text: the nodes, the mismatch beside them, what next."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import replace

from onnx_passes.passes.patterns import shorten
from onnx_passes.report import margins, summary
from onnx_passes.report.console_glyphs import Glyphs
from onnx_passes.report.pass_report import Blame, PassReport
from onnx_passes.report.run_report import RunReport
from onnx_passes.report.text import ends, number, plural
from onnx_passes.verify.result import ENGINE, Check, OutputCheck

Row = tuple[str, str]

BEFORE, AFTER, MISMATCH = "before", "after", "differs"
_MOST_CULPRITS, _MOST_NODES, _LONGEST_NODE = 5, 8, 160


class FailureRows:
    """Describes a failure, in rows of a label and a text.

    Args:
        glyphs: The characters that the terminal has.
    """

    def __init__(self, glyphs: Glyphs) -> None:
        """Remember the characters."""
        self._glyphs, self._name = glyphs, glyphs.name

    def of_pass(self, done: PassReport) -> list[Row]:
        """Return what is known of a failure of a pass or a checkpoint."""
        rows = self._blames(blames(done))
        found = summary.failing(done.checks)
        of_engine = found is not None and found[0].kind == ENGINE
        unknown = all(blame.number is None for blame in blames(done))
        if done.rewrites and unknown and not of_engine:
            rows.append(("rewrite", f"one of {len(done.rewrites)}; not known which"))
        if found is not None:
            rows += self._check(*found, shown=_shown(blames(done)))
        rows += [("note", self._name(note)) for note in done.notes]
        if done.action != "kept":
            what = "the run" if done.action == "stopped" else "the pass was"
            rows.append(("then", f"{what} {self._name(done.action)}"))
        if done.reproducer:
            rows.append(("reproduce", self.command(done.reproducer)))
        if (
            done.action == "stopped"
            and done.culprits
            and len(done.rewrites) > len(done.culprits)
        ):
            rest = plural(len(done.rewrites) - len(done.culprits), "rewrite")
            told = "-s on_failure=rollback -s granularity=application"
            rows.append(("go on", f"{told} keeps the other {rest}"))
        return rows

    def of_result(self, report: RunReport) -> list[Row]:
        """Return what is known of a result that is too far from the original."""
        found = summary.failing(report.final)
        if found is None:
            return []
        rows = self._blames(report.blame)
        rows += self._check(*found, shown=_shown(report.blame))
        if report.reproducer:
            rows.append(("reproduce", self.command(report.reproducer)))
        return rows

    def _blames(self, found: Sequence[Blame]) -> list[Row]:
        """Return culprits with their nodes before and after, and the mismatch in its place."""
        rows: list[Row] = []
        for blame in found[:_MOST_CULPRITS]:
            if blame.number is not None:
                rows.append(("rewrite", f"#{blame.number} {self._name(blame.rule or '')}"))
            else:
                pass_ = "" if blame.step is None else f"pass {blame.step} "
                rows.append(("where", f"{pass_}{self._name(blame.name)}"))
            rows += self.nodes(BEFORE, blame.nodes)
            rows += self._with_mismatch(blame)
        if len(found) > _MOST_CULPRITS:
            rest = found[_MOST_CULPRITS:]
            numbers = ", ".join(
                f"#{b.number}" for b in rest[:_MOST_NODES] if b.number is not None
            )
            rows.append(("", f"and {len(rest)} more: {numbers}"))
        return rows

    def nodes(self, label: str, nodes: Sequence[str]) -> Iterator[Row]:
        """Yield nodes, a row each, as many as a reader takes in.

        Args:
            label: The label of each row.
            nodes: Nodes as text.
        """
        for node in nodes[:_MOST_NODES]:
            yield label, self._shortened(node)
        if len(nodes) > _MOST_NODES:
            yield label, f"and {plural(len(nodes) - _MOST_NODES, 'node')} more"

    def _with_mismatch(self, blame: Blame) -> Iterator[Row]:
        """Yield the nodes after, the value that differs behind the node that computes it."""
        nodes = blame.new_nodes
        if blame.value is None:
            yield from self.nodes(AFTER, nodes or ["nothing"])
            return
        sample = f", sample {blame.sample}" if blame.sample else ""
        mark = (MISMATCH, f"{self._difference(blame.value)}{sample}")
        place = next(
            (i for i, n in enumerate(nodes) if _computes(n, blame.value.output)), None
        )
        if place is None:
            yield from self.nodes(AFTER, nodes or ["nothing"])
            yield mark
            return
        first = max(0, min(place - _MOST_NODES // 2, len(nodes) - _MOST_NODES))
        if first:
            yield AFTER, f"{plural(first, 'node')} before these"
        shown = nodes[first : first + _MOST_NODES]
        for index, node in enumerate(shown, first):
            yield AFTER, self._shortened(node)
            if index == place:
                yield mark
        left = len(nodes) - first - len(shown)
        if left:
            yield AFTER, f"and {plural(left, 'node')} more"

    def _difference(self, value: OutputCheck) -> str:
        name = self._shortened(value.output)
        if value.expected is None or value.actual is None:
            return f"{name}: {self._name(value.reason or 'it differs')}"
        place = f" at [{', '.join(map(str, value.worst))}]" if value.worst is not None else ""
        expected, actual = (self._shortened(v) for v in (value.expected, value.actual))
        # No number says how far off a NaN is.
        error = f", off by {number(value.max_abs, 3)}" if value.max_abs else ""
        count = f"; {value.mismatched:,} of {value.size:,} differ" if value.size > 1 else ""
        return f"{name}{place}: expected {expected}, got {actual}{error}{count}"

    def _shortened(self, text: str) -> str:
        return self._name(ends(text, _LONGEST_NODE, self._glyphs.ellipsis))

    def command(self, folder: str) -> str:
        """Return the command that repeats a failure from its folder."""
        return self._name(f"python {shlex.quote(f'{folder}/repro.py')}")

    def _check(
        self, check: Check, output: OutputCheck | None, *, shown: frozenset[str]
    ) -> Iterator[Row]:
        """Yield the check that failed and its worst element.

        Args:
            check: The check.
            output: The output of it that is furthest off.
            shown: Values whose mismatch stands beside their node already.
        """
        where = f" on {self._name(check.engine)}" if check.engine else ""
        sample = f", sample {check.sample}" if check.sample is not None else ""
        yield "check", f"{check.kind}{where}{sample}"
        if check.reason and (output is None or check.kind == ENGINE):
            yield "reason", self._name(check.reason)
        for metric in check.metrics:
            if not metric.passed:
                low, high = number(metric.low), number(metric.high)
                told = f"{number(metric.value)}, not in [{low}, {high}]"
                yield "metric", f"{self._name(metric.name)} is {told}"
        if output is None:
            return
        if not (check.scope == "region" and output.output in shown):
            yield "output", self._difference(output)
        worst = margins.margin([replace(check, outputs=(output,))])
        if worst is not None:
            allowed = limits(output) if worst.limit is None else number(worst.limit, 3)
            yield (
                "error",
                f"{number(worst.error, 3)}, limit {allowed} ({limits(output)})",
            )


def blames(done: PassReport) -> list[Blame]:
    """Return what a failure was traced to, or the rewrites blamed for it."""
    if done.blame:
        return done.blame
    return [
        Blame(done.index, done.name, "", r.number, r.rule, r.nodes, r.new_nodes)
        for r in summary.blamed(done)
    ]


def plain_error(error: str) -> str:
    """Return an error without the names of Python's classes."""
    lines = [
        re.sub(r"^[A-Za-z]+(?:Error|Exception): ", "", line) for line in error.splitlines()
    ]
    if len(lines) > 1 and re.match(r"(Pre|Post)-condition for pass '", lines[0]):
        lines = lines[1:]
    return "\n".join(lines)


def _computes(node: str, value: str) -> bool:
    return shorten(value) in node.partition(" = ")[0].split(", ")


def _shown(found: Sequence[Blame]) -> frozenset[str]:
    return frozenset(blame.value.output for blame in found if blame.value is not None)


def limits(output: OutputCheck) -> str:
    """Return the limit that an output was held to."""
    if not output.rtol and not output.atol:
        return "equality"
    return f"rtol {number(output.rtol)}, atol {number(output.atol)}"
