"""A failure in rows of a label and a text: the nodes, the mismatch beside them, what next."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import replace

from onnx_passes.report import margins, summary
from onnx_passes.report.console_glyphs import Glyphs
from onnx_passes.report.pass_report import Blame, PassReport, RewriteSummary
from onnx_passes.report.run_report import RunReport
from onnx_passes.report.text import number, plural
from onnx_passes.verify.result import ENGINE, Check, OutputCheck

Row = tuple[str, str]

BEFORE, AFTER, MISMATCH = "before", "after", "differs"
_MOST_CULPRITS, _MOST_NODES, _LONGEST_NODE = 5, 8, 160
_SHOWN_NAME = 60  # as passes.patterns.describe shortens names


def failure_rows(done: PassReport, glyphs: Glyphs) -> list[Row]:
    """Return what is known of a failure of a pass or a checkpoint.

    Args:
        done: The report of the pass or checkpoint.
        glyphs: The characters that the terminal has.
    """
    rows = blame_rows(blames(done), glyphs)
    found = summary.failing(done.checks)
    of_engine = found is not None and found[0].kind == ENGINE
    if (
        not of_engine
        and done.rewrites
        and not any(blame.number is not None for blame in blames(done))
    ):
        rows.append(("rewrite", f"one of {len(done.rewrites)}; not known which"))
    if found is not None:
        rows += check_rows(*found, glyphs, shown=_shown(blames(done)))
    rows += [("note", glyphs.name(note)) for note in done.notes]
    if done.action != "kept":
        rows.append(("then", glyphs.name(done.action)))
    if done.reproducer:
        rows.append(("reproduce", _command(done.reproducer, glyphs)))
    if done.action == "stopped" and done.culprits and len(done.rewrites) > len(done.culprits):
        rest = plural(len(done.rewrites) - len(done.culprits), "rewrite")
        told = "-s on_failure=rollback -s granularity=application"
        rows.append(("go on", f"{told} keeps the other {rest}"))
    return rows


def final_rows(report: RunReport, glyphs: Glyphs) -> list[Row]:
    """Return what is known of a result that is too far from the original.

    Args:
        report: The report of the run.
        glyphs: The characters that the terminal has.
    """
    found = summary.failing(report.final)
    if found is None:
        return []
    rows = blame_rows(report.blame, glyphs)
    rows += check_rows(*found, glyphs, shown=_shown(report.blame))
    if report.reproducer:
        rows.append(("reproduce", _command(report.reproducer, glyphs)))
    return rows


def blames(done: PassReport) -> list[Blame]:
    """Return what a failure was traced to, or the rewrites blamed for it."""
    if done.blame:
        return done.blame
    return [
        Blame(done.index, done.name, "", r.number, r.rule, r.nodes, r.new_nodes)
        for r in summary.blamed(done)
    ]


def blame_rows(found: Sequence[Blame], glyphs: Glyphs) -> list[Row]:
    """Return culprits with their nodes before and after, and the mismatch in its place.

    Args:
        found: The culprits, the first ones shown.
        glyphs: The characters that the terminal has.
    """
    rows: list[Row] = []
    for blame in found[:_MOST_CULPRITS]:
        how = f", {glyphs.name(blame.how)}" if blame.how else ""
        if blame.number is not None:
            rows.append(("rewrite", f"#{blame.number} {glyphs.name(blame.rule or '')}{how}"))
        else:
            pass_ = "" if blame.step is None else f"pass {blame.step} "
            rows.append(("where", f"{pass_}{glyphs.name(blame.name)}{how}"))
        rows += node_rows(BEFORE, blame.nodes, glyphs)
        rows += _with_mismatch(blame, glyphs)
    if len(found) > _MOST_CULPRITS:
        rest = found[_MOST_CULPRITS:]
        numbers = ", ".join(f"#{b.number}" for b in rest[:_MOST_NODES] if b.number is not None)
        rows.append(("", f"and {len(rest)} more: {numbers}"))
    return rows


def node_rows(label: str, nodes: Sequence[str], glyphs: Glyphs) -> Iterator[Row]:
    """Yield nodes, a row each, as many as a reader takes in.

    Args:
        label: The label of each row.
        nodes: Nodes as text.
        glyphs: The characters that the terminal has.
    """
    for node in nodes[:_MOST_NODES]:
        yield label, _shortened(node, glyphs)
    if len(nodes) > _MOST_NODES:
        yield label, f"and {plural(len(nodes) - _MOST_NODES, 'node')} more"


def _with_mismatch(blame: Blame, glyphs: Glyphs) -> Iterator[Row]:
    """Yield the nodes after, the value that differs right behind the one that computes it."""
    nodes = blame.new_nodes
    if blame.value is None:
        yield from node_rows(AFTER, nodes or ["nothing"], glyphs)
        return
    mark = (MISMATCH, mismatch(blame, glyphs))
    place = next((i for i, n in enumerate(nodes) if _computes(n, blame.value.output)), None)
    if place is None:
        yield from node_rows(AFTER, nodes or ["nothing"], glyphs)
        yield mark
        return
    first = max(0, min(place - _MOST_NODES // 2, len(nodes) - _MOST_NODES))
    if first:
        yield AFTER, f"{plural(first, 'node')} before these"
    shown = nodes[first : first + _MOST_NODES]
    for index, node in enumerate(shown, first):
        yield AFTER, _shortened(node, glyphs)
        if index == place:
            yield mark
    left = len(nodes) - first - len(shown)
    if left:
        yield AFTER, f"and {plural(left, 'node')} more"


def mismatch(blame: Blame, glyphs: Glyphs) -> str:
    """Say in what a value differs, on one line.

    Args:
        blame: A culprit with a value.
        glyphs: The characters that the terminal has.
    """
    assert blame.value is not None
    sample = f", sample {blame.sample}" if blame.sample else ""
    return f"{_difference(blame.value, glyphs)}{sample}"


def _difference(value: OutputCheck, glyphs: Glyphs) -> str:
    name = _shortened(value.output, glyphs)
    if value.expected is None or value.actual is None:
        return f"{name}: {glyphs.name(value.reason or 'it differs')}"
    place = f" at [{', '.join(map(str, value.worst))}]" if value.worst is not None else ""
    expected, actual = (_shortened(v, glyphs) for v in (value.expected, value.actual))
    # No number says how far off a NaN is.
    error = f", off by {number(value.max_abs, 3)}" if value.max_abs else ""
    count = f"; {value.mismatched:,} of {value.size:,} differ" if value.size > 1 else ""
    return f"{name}{place}: expected {expected}, got {actual}{error}{count}"


def _computes(node: str, value: str) -> bool:
    half = (_SHOWN_NAME - 3) // 2
    name = value if len(value) <= _SHOWN_NAME else f"{value[:half]}...{value[-half:]}"
    return name in node.partition(" = ")[0].split(", ")


def _shown(found: Sequence[Blame]) -> frozenset[str]:
    return frozenset(blame.value.output for blame in found if blame.value is not None)


def _shortened(text: str, glyphs: Glyphs) -> str:
    if len(text) > _LONGEST_NODE:
        half = _LONGEST_NODE // 2
        text = f"{text[:half]} {glyphs.ellipsis} {text[-half:]}"
    return glyphs.name(text)


def _command(folder: str, glyphs: Glyphs) -> str:
    return glyphs.name(f"python {shlex.quote(f'{folder}/repro.py')}")


def limits(output: OutputCheck) -> str:
    """Return the limit that an output was held to."""
    if not output.rtol and not output.atol:
        return "equality"
    return f"rtol {number(output.rtol)}, atol {number(output.atol)}"


def check_rows(
    check: Check, output: OutputCheck | None, glyphs: Glyphs, *, shown: frozenset[str]
) -> Iterator[Row]:
    """Yield the check that failed and its worst element.

    Args:
        check: The check.
        output: The output of it that is furthest off.
        glyphs: Signs that the terminal can show.
        shown: Values whose mismatch stands beside their node already.
    """
    where = f" on {glyphs.name(check.engine)} ({check.scope})" if check.engine else ""
    sample = f", sample {check.sample}" if check.sample is not None else ""
    yield "check", f"{check.kind}{where}{sample}"
    if check.reason and (output is None or check.kind == ENGINE):
        yield "reason", glyphs.name(check.reason)
    for metric in check.metrics:
        if not metric.passed:
            low, high = number(metric.low), number(metric.high)
            told = f"{number(metric.value)}, not in [{low}, {high}]"
            yield "metric", f"{glyphs.name(metric.name)} is {told}"
    if output is None:
        return
    if not (check.scope == "region" and output.output in shown):
        yield "output", _difference(output, glyphs)
    worst = margins.margin([replace(check, outputs=(output,))])
    if worst is not None:
        allowed = limits(output) if worst.limit is None else number(worst.limit, 3)
        yield "error", f"at most {number(worst.error, 3)}, limit {allowed} ({limits(output)})"


def rewrite_nodes(rewrite: RewriteSummary, glyphs: Glyphs) -> tuple[str, str]:
    """Return the nodes before and after, each side on one line.

    Args:
        rewrite: The rewrite.
        glyphs: The characters that the terminal has.
    """
    before, after = (
        "; ".join(node for _, node in node_rows("", side, glyphs))
        for side in (rewrite.nodes, rewrite.new_nodes)
    )
    return before, after
