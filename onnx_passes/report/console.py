"""A run on the console: as it happens, and in rows of a label and a text when it is over.

The writer is the same for a person at a terminal and for a log that a pipe fills.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TextIO

import click

from onnx_passes.plain import Plain
from onnx_passes.report import summary
from onnx_passes.report.run_report import PassReport, ReadBackReport, RewriteSummary, RunReport
from onnx_passes.report.summary import EngineTally, FailureRows, Row, limits
from onnx_passes.report.text import (
    NOISE,
    Glyphs,
    annotation,
    asked_color,
    bound,
    change,
    duration,
    ends,
    number,
    percent,
    plural,
    size,
    terminal_width,
    wrapped,
)
from onnx_passes.verify.evidence import (
    AS_WRITTEN,
    EXECUTED,
    Check,
    EngineSpread,
    OutputCheck,
    Verdict,
)

STYLES: dict[str, dict[str, Plain]] = {
    "good": {"fg": "green"},
    "bad": {"fg": "red", "bold": True},
    "warn": {"fg": "yellow"},
    "plain": {"dim": True},
    "wrong": {"fg": "red"},
    "": {},
}

_MOST_BUDGETS, _MOST_NODES, _LONGEST_NODE = 5, 8, 160


class ConsoleText:
    """Writes the parts of a report as text."""

    def __init__(self, glyphs: Glyphs) -> None:
        self._glyphs, self._name = glyphs, glyphs.name

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
        old, new = map(self._nodes, (rewrite.nodes, rewrite.new_nodes))
        return f"#{rewrite.number} {self._name(rewrite.rule)}: {old} => {new or 'nothing'}"

    def _nodes(self, nodes: Sequence[str]) -> str:
        shown = [
            self._name(ends(node, _LONGEST_NODE, self._glyphs.ellipsis))
            for node in nodes[:_MOST_NODES]
        ]
        more = len(nodes) - len(shown)
        return "; ".join([*shown, f"and {plural(more, 'node')} more"] if more else shown)

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


_MOST, _MOST_DOUBTS, _LONGEST = 5, 20, 70
_BOTH = "optimisations off, optimisations on", "optimisations off and on"
MADE_UP = "generated"
"""What the source of inputs begins with that nobody gave."""


class ConsoleSummary:
    """Says how a run ended."""

    def __init__(self, glyphs: Glyphs, report: RunReport, *, details: bool) -> None:
        self._glyphs, self._name = glyphs, glyphs.name
        self._told, self._failures = ConsoleText(glyphs), FailureRows(glyphs, report)
        self._report, self._details = report, details
        self._kept = summary.kept(report)

    @property
    def head(self) -> str:
        """The verdict, and where the run failed."""
        head = summary.outcome(self._report).head
        failed = self._failed()
        if failed is not None:
            name = ends(failed.name, _LONGEST, self._glyphs.ellipsis)
            return f"{head} at pass {failed.index}: {name}"
        undone = [p.name for p in self._report.passes if p.action == "rolled back"]
        return f"{head} without {', '.join(undone)}" if undone else head

    def success(self) -> Iterator[Row]:
        """Yield what changed, and what was checked."""
        report = self._report
        before, after = report.before, report.after
        words = summary.outcome(report)
        if words.head == "UNCHANGED" and before is not None:
            written = "; written as they are" if report.output else ""
            yield "nodes", f"no pass changes the {plural(before.nodes, 'node')}{written}"
        elif before and after:
            for label, told, old, new in summary.sizes(before, after):
                by = change(old, new)
                text = self._glyphs.step(told(old), told(new))
                yield label.lower(), f"{text} ({by})" if by else text
            if self._details or before.opsets != after.opsets:
                yield "opset", ", ".join(self._opsets(before.opsets, after.opsets))
            yield from self._changes()
        yield from self._undone()
        if words.why and words.tone == "warn" and report.verify:
            yield "verdict", self._name(words.why)
        if report.verify:
            yield from self._checked()
        if self._details:
            yield from self._costs()

    def _undone(self) -> Iterator[Row]:
        for done in self._report.passes:
            if done.action == "rolled back":
                why = self._failures.reason(done)
                yield "without", f"{self._name(done.name)}, rolled back: {why}"

    def failure(self) -> Iterator[Row]:
        """Yield what is wrong, where it was seen, and what became of the file."""
        failed = self._failed()
        yield from self._failures.brief(failed)
        yield from self._undone()
        if self._report.output is None:
            yield "file", "nothing was written"
        elif failed is not None and failed.action == "warned":
            yield "file", "it was written all the same, as on_failure is warn"
        if self._details:
            yield from self._costs()

    def doubts(self) -> Iterator[str]:
        """Yield what was not verified, and what holds on the values seen alone."""
        report = self._report
        if not report.verify:
            yield "VERIFICATION IS OFF: nothing that the passes do is checked"
        parts = {"not verified": report.not_verified, "precondition": report.preconditions}
        for label, sentences in parts.items():
            yield from (f"{label}: {self._name(told)}" for told in sentences[:_MOST_DOUBTS])
            if len(sentences) > _MOST_DOUBTS:
                rest = len(sentences) - _MOST_DOUBTS
                yield f"{label}: and {rest:,} more, in the JSON report"

    def remarks(self, *, noise: bool) -> Iterator[str]:
        """Yield waivers and notes; with ``noise`` also limits that noise raised."""
        yield from (self._name(str(each)) for each in self._report.waivers)
        kept = []
        for done in self._kept:
            if not done.contract or done.error:
                continue
            name, told = done.name.partition("{")[0], list(done.notes)
            if done.changed and (noise or "metric" not in done.contract):
                continue  # the lines of passes have them
            if not told and not done.changed and "metric" in done.contract:
                told = [
                    f"changed nothing; onnx-passes explain {name} says what it leaves alone"
                ]
            kept += [f"{done.name}: {note}" for note in told]
        for note in dict.fromkeys((*self._report.notes, *kept)):
            if noise or NOISE not in note:
                yield f"note: {self._name(note)}"

    def next_steps(self, page: Path | None) -> Iterator[Row]:
        """Yield what a reader may do now; ``page`` is where the run is shown, if anywhere."""
        report, failed = self._report, self._failed()
        shows = "--html FILE" if page is None else self._name(str(page))
        if summary.outcome(report).tone == "bad":
            yield from (("try", way) for way in self._ways_on(failed))
        elif report.output is None:
            yield "next", "-o FILE writes the result"
        elif report.verify and self._is_made_up:
            yield "next", f"--inputs FILE checks on your data, {shows} shows each change"
        else:
            yield "next", f"{shows} shows each change"

    @property
    def _is_made_up(self) -> bool:
        reference = self._report.reference
        return reference is not None and reference.source.startswith(MADE_UP)

    def _ways_on(self, failed: PassReport | None) -> Iterator[str]:
        folder = self._report.reproducer if failed is None else failed.reproducer
        if folder:
            yield self._failures.command(folder)
        if failed is not None and failed.action != "stopped":
            return
        checks = self._report.final if failed is None else failed.checks
        if any(not metric.passed for check in checks for metric in check.metrics):
            if self._is_made_up:
                yield "--inputs FILE measures on your data; what overflows there stays float32"
            yield "--metric NAME=LOW:HIGH allows a greater loss"
        elif failed is not None and 0 < len(failed.culprits) < len(failed.rewrites):
            rest = plural(len(failed.rewrites) - len(failed.culprits), "rewrite")
            told = "-s on_failure=rollback -s granularity=application"
            yield f"{told} keeps the other {rest}"
        if failed is not None:
            yield "-s on_failure=rollback goes on without this pass"

    def _failed(self) -> PassReport | None:
        """Return the pass at which the run failed; None if it is not one pass."""
        accepted = ("rolled back", "waived")
        failed = [p for p in self._report.passes if p.verdict is Verdict.FAILED or p.error]
        return next((p for p in failed if p.action not in accepted), None)

    def _changes(self) -> Iterator[Row]:
        applied = summary.rules(self._kept)
        if applied:
            names: Counter[str] = Counter()
            for rule, count in applied.items():
                names[rule.partition("[")[0]] += count  # of several rules of one pass
            first = [f"{count:,} {name}" for name, count in names.most_common(_MOST)]
            more = f", {self._glyphs.ellipsis} (-v lists all)" if len(names) > _MOST else ""
            by = f"{plural(applied.total(), 'rewrite')} by {plural(len(applied), 'rule')}"
            yield "changed", f"{by}: {self._name(', '.join(first))}{more}"
        nodes: Counter[str] = Counter()
        groups = {part.partition("#")[0] for p in self._kept for part in p.group.split("/")}
        for done in self._kept:
            if done.changed and not done.rewrites and done.name not in groups:
                nodes[done.name.partition("{")[0]] += done.nodes_after - done.nodes_before
        told = [
            f"{name} {'+' if by > 0 else '-'}{plural(abs(by), 'node')}"
            for name, by in nodes.items()
            if by
        ]
        if told:
            yield ("" if applied else "changed"), self._name(", ".join(told))
        elif nodes and not applied:
            by = self._name(", ".join(nodes))
            yield "changed", f"weights, names, types or order, by {by}"

    def _checked(self) -> Iterator[Row]:
        if not any(done.changed for done in self._kept):
            return
        if told := summary.evidence_text(self._report):
            yield "checked", told
        yield from (("checked", text) for text in self._engines())
        if self._report.reference is not None:
            yield "checked", f"inputs: {self._name(str(self._report.reference))}"

    def _engines(self) -> Iterator[str]:
        """Yield what was found on engines, those of one kind that agree in one line."""
        found: dict[tuple[str, str], list[str]] = {}
        for name, tally in summary.tallies(self._report).items():
            if tally.engine is None and not (tally.passed or tally.failed):
                continue  # another engine stands in for it
            base, how = summary.engine_name(name, tally.engine)
            found.setdefault((base, self._result_on(name, tally)), []).append(how)
        for (base, told), ways in found.items():
            each = dict.fromkeys(w for way in ways for w in way.split(", ") if w)
            how = ", ".join(each).replace(*_BOTH)
            yield f"{self._name(base)}{f' ({self._name(how)})' if how else ''}: {told}"
        for engine in self._report.engines:
            if engine.fallback_for:
                yield self._name(engine.fallback_for)

    def _result_on(self, name: str, tally: EngineTally) -> str:
        final = [check for check in self._report.final if check.engine == name]
        if final and all(check.verdict is Verdict.UNCHANGED for check in final):
            return "not needed, as nothing is computed differently"
        ran = [check for check in final if check.verdict is not Verdict.UNCHANGED]
        if ran and all(check.verdict is Verdict.PASSED for check in ran):
            # Behind a pass that promises metrics, drift is measured from its result.
            by_metric = any(d.changed and d.contract.startswith("metric") for d in self._kept)
            scores = [check for check in ran if check.metrics]
            if by_metric and scores:
                return summary.passed_text([replace(c, outputs=()) for c in scores])
            reasons = [c.reason for c in ran if c.reason and any(o.reason for o in c.outputs)]
            notes = "\n".join(self._report.notes)
            steps = [reason for reason in reasons if reason not in notes]
            told = summary.passed_text(ran)
            if told != "equal" and any(check.reason == AS_WRITTEN for check in ran):
                told += " of the original as written"
            told = "; ".join([told, *steps[:1]])
            return f"outputs {self._name(told)}"
        if tally.level not in (None, EXECUTED) and not tally.failed:
            return f"{tally.level}, not verified"  # why is among what was not verified
        words = tally.words
        told = f"{words.head}, {words.why}" if words.why else words.head
        worst = f", largest error {bound(tally.max_abs)}" if tally.max_abs else ""
        return f"{self._name(told)}{worst}"

    def _costs(self) -> Iterator[Row]:
        report = self._report
        if report.times:
            yield "time", summary.times_text(report)
        if report.read_back is not None:
            yield "file", self._told.read_back(report.read_back)
        for check in report.final:
            yield "result", self._told.check(check)
        spreads = [self._told.spread(s) for e in report.engines for s in e.spreads]
        yield from (("noise", told) for told in dict.fromkeys(spreads))

    def _opsets(self, before: dict[str, int], after: dict[str, int]) -> Iterator[str]:
        for domain in sorted(before.keys() | after.keys()):
            old, new = before.get(domain, "none"), after.get(domain, "none")
            if old == new and not self._details:
                continue
            yield f"{self._name(domain) or 'ai.onnx'} {self._glyphs.step(old, new)}"


_LABELS = {"verdict": "warn", "wrong": "wrong"}
_LABEL = 10
_NARROWEST, _WIDEST = 40, 200


_MOST_REWRITES = 20
# What is printed: each level adds to those before.
_ERRORS, _SUMMARY, _DETAILS, _EVERYTHING = range(-1, 3)


class ConsoleReporter:
    """Prints a run on a stream, which should be stderr: stdout is for results.

    The summary comes when the run is over, in a pipe as on a terminal: the verdict first.
    Findings of analyses come at once. Verbosity -1 prints errors only; 0 the summary; 1 each
    pass with its rewrites and checks; 2 also the comparison of each output. The width is in
    columns.
    """

    def __init__(
        self, stream: TextIO, *, verbosity: int = 0, width: int | None = None
    ) -> None:
        self._stream, self._terminal = stream, stream.isatty()
        self._width = max(min(width or terminal_width(stream) or _WIDEST, _WIDEST), _NARROWEST)
        self._glyphs = Glyphs.of(getattr(stream, "encoding", None))
        self._told = ConsoleText(self._glyphs)
        asked, dumb = asked_color(), os.environ.get("TERM") in ("dumb", "unknown")
        self._color = asked if asked is not None else self._terminal and not dumb
        self._level = max(_ERRORS, min(verbosity, _EVERYTHING))
        self._report: RunReport | None = None
        self._group = ""

    def start(self, report: RunReport) -> None:
        self._report = report

    def pass_finished(self, pass_report: PassReport) -> None:
        """Print what an analysis found; if asked for more, each pass and its details."""
        if self._level >= _DETAILS:
            self._pass(pass_report)
        elif self._level == _SUMMARY and pass_report.findings and not pass_report.error:
            self._say(f"{self._glyphs.name(pass_report.name)}:")
            for finding in pass_report.findings:
                self._detail(self._glyphs.name(finding))

    def finished(self, report: RunReport, page: Path | None = None) -> None:
        """Print how the run ended: the verdict, what changed, and what was checked."""
        told = ConsoleSummary(self._glyphs, report, details=self._level >= _DETAILS)
        words = summary.outcome(report)
        failed, quiet = words.tone == "bad", self._level == _ERRORS
        if quiet and not failed and not report.exit_code:
            return
        goal = f" {self._glyphs.arrow} {report.output}" if report.output else ""
        self._head(
            self._glyphs.name(told.head),
            words.tone,
            f"{self._glyphs.name(report.model + goal)}  {duration(report.seconds)}",
        )
        if failed or not quiet:
            self._rows(told.failure() if failed else told.success())
        if not failed or not quiet:
            for doubt in told.doubts():
                self._say(doubt, "warn")
        if not quiet:
            for remark in told.remarks(noise=self._level >= _DETAILS):
                self._say(remark)
            self._rows(told.next_steps(page))
        if failed and os.environ.get("GITHUB_ACTIONS") == "true":
            self._annotate(report.model, told.head, told.failure())

    def _pass(self, done: PassReport) -> None:
        if done.group != self._group:
            self._group = done.group
            if done.group:
                self._say(self._glyphs.name(done.group), "plain")
        tone = summary.verdict_words(done).tone
        self._say(self._told.pass_line(done), tone if tone != "good" else "")
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
        if done.verdict is Verdict.FAILED and self._report is not None:
            self._rows(FailureRows(self._glyphs, self._report).full(done))

    def _head(self, verdict: str, tone: str, rest: str) -> None:
        for index, line in enumerate(self._wrapped(f"{verdict}  {rest}", 2)):
            at = 0 if index else len(verdict)
            self._put((line[:at] if at else line, tone), (line[at:] if at else "", ""))

    def _rows(self, rows: Iterable[Row]) -> None:
        """Print rows of a label and a text; a label that is the one before is left out."""
        last = ""
        for label, told in rows:
            shown = "" if label == last else label
            last = label or last
            head = f"  {shown:<{_LABEL}}"
            for line in self._wrapped(told, 0, len(head)):
                self._put((head, "plain"), (line, _LABELS.get(last, "")))
                head = " " * len(head)

    def _say(self, told: str, style: str = "") -> None:
        for line in self._wrapped(told, 2):
            self._put((line, style))

    def _wrapped(self, text: str, hang: int, taken: int = 0) -> list[str]:
        """Break a line where a terminal ends. A log is read by tools too: there it stays one.

        ``hang`` and ``taken`` are in columns.
        """
        return wrapped(text, self._width - taken, hang) if self._terminal else [text]

    def _annotate(self, file: str, title: str, rows: Iterable[Row]) -> None:
        """Print what GitHub shows beside a commit."""
        told = "\n".join(f"{label} {text}".strip() for label, text in rows)
        self._put((annotation(title, told, self._glyphs.name(file)), ""))

    def _detail(self, told: str, indent: int = 4) -> None:
        for line in self._wrapped(" " * indent + told, indent + 2):
            self._put((line, "plain"))

    def _put(self, *parts: tuple[str, str]) -> None:
        """Print a line of texts, each in a style."""
        line = "".join(click.style(text, **STYLES[style]) for text, style in parts if text)
        click.echo(line, self._stream, color=self._color)
