"""The figures of the page, each with its caption and, where it is capped, what is left out."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

from onnx_passes.report import margins, summary
from onnx_passes.report.page.charts import BarRow, Dot, DotChart, Line, line, scaled
from onnx_passes.report.pass_report import PassReport
from onnx_passes.report.run_report import EngineReport, RunReport
from onnx_passes.report.text import duration, number, plural, size

_MOST_ROWS = 20
_MOST_METRICS = 4
_SHORTEST = 0.001  # seconds of verification worth a word


@dataclass(frozen=True)
class Figure:
    """A chart with its caption.

    Attributes:
        kind: "bars", "dots" or "lines".
        title: Its heading.
        chart: What is drawn; None for nothing.
        caption: What it shows.
        keys: Style classes and what they mean.
        left_out: What is not shown.
        wide: Whether it takes the whole width.
    """

    kind: str
    title: str
    chart: Sequence[BarRow] | Sequence[Line] | DotChart | None
    caption: str = ""
    keys: Sequence[tuple[str, str]] = ()
    left_out: str | None = None
    wide: bool = False


def figures(report: RunReport) -> list[Figure]:
    """Return every figure that the report has data for."""
    made = (_errors, _along, _times, _operators, _rules)
    return [figure for make in made if (figure := make(report)) is not None]


def _errors(report: RunReport) -> Figure | None:
    rows = [dot for done in report.passes if (dot := _pass_dot(done))]
    exact = sum(row.error == 0 for row in rows)
    # Rows of zeros say little and are many: one line replaces them all.
    inexact = sorted((r for r in rows if r.error != 0), key=_nearness, reverse=True)
    shown = sorted(inexact[:_MOST_ROWS], key=rows.index)
    engines: dict[str | None, EngineReport] = {e.name: e for e in report.engines}
    for check in report.final:
        worst = margins.margin([check])
        if worst is not None:
            base, how = summary.engine_name(str(check.engine), engines.get(check.engine))
            label = f"end result on {base}{f' ({how})' if how else ''}"
            tone = summary.check_words(check).tone
            shown.append(Dot(label, worst.error, worst.limit, worst.told, tone))
    if not rows and not shown:
        return None
    kept = f" {plural(exact, 'more pass')} kept every output bit for bit." if exact else ""
    return Figure(
        "dots",
        "Error against limit",
        DotChart(shown) if shown else None,
        "Largest absolute error that a check saw (dot) and what was allowed there (bar; the "
        f"shaded side is beyond it). Logarithmic.{kept}",
        left_out=_left_out(len(inexact), "those nearest to their limits are shown"),
        wide=True,
    )


def _pass_dot(done: PassReport) -> Dot | None:
    worst = margins.margin(done.checks)
    if worst is None:
        return None
    tone = summary.verdict_words(done).tone
    return Dot(done.name, worst.error, worst.limit, worst.told, tone, f"#pass-{done.index}")


def _nearness(dot: Dot) -> float:
    return dot.error / dot.limit if dot.limit else dot.error


def _along(report: RunReport) -> Figure | None:
    passes = report.passes
    if not passes:
        return None
    nodes = [passes[0].nodes_before, *(p.nodes_after for p in passes)]
    weights = [passes[0].bytes_before, *(p.bytes_after for p in passes)]
    lines = [line("Nodes", nodes, [f"{n:,}" for n in (nodes[0], nodes[-1])])]
    if any(weights):
        # A pass that measured nothing leaves a gap, which is not a drop to zero.
        known = [w for w in weights if w]
        lines.append(line("Weights", known, [size(known[0]), size(known[-1])]))
    spent = [0.0, *accumulate(p.seconds for p in passes)]
    lines.append(line("Time, with verification", spent, ["0", duration(spent[-1])]))
    lines += _metric_lines(report)
    if any(p.budget_spent is not None for p in passes):
        spent = [0.0]
        for done in passes:
            spent.append(spent[-1] if done.budget_spent is None else done.budget_spent)
        ends = [f"{number(100 * s, 2)} %" for s in (0.0, spent[-1])]
        lines.append(line("Error budget spent", spent, ends, high=1.0))
    return Figure(
        "lines",
        "Along the pipeline",
        lines,
        "Size, time and accuracy from the original, through "
        f"{plural(len(passes), 'pass')}, to the result.",
    )


def _metric_lines(report: RunReport) -> Iterator[Line]:
    """Yield a line for each metric: what it was after each pass that it was measured after."""
    measured: dict[str, dict[int, tuple[float, float]]] = {}
    moments = [*(p.checks for p in report.passes), report.final]
    for moment, checks in enumerate(moments):
        for check in checks:
            for metric in check.metrics:
                if math.isfinite(metric.value):
                    found = measured.setdefault(metric.name, {})
                    found.setdefault(moment, (metric.value, metric.high))
    for name, points in list(measured.items())[:_MOST_METRICS]:
        values = [value for value, _ in points.values()]
        highest = max(high for _, high in points.values())
        top = highest if 0 < highest < math.inf else max(map(abs, values))
        ends = [number(values[0]) if len(values) > 1 else "", number(values[-1])]
        after = f", measured {plural(len(values), 'time')}"
        yield line(f"Metric {name}{after}", [max(0.0, v) for v in values], ends, high=top)


def _times(report: RunReport) -> Figure | None:
    slowest = sorted(report.passes, key=lambda p: p.seconds, reverse=True)[:_MOST_ROWS]
    rows = [
        BarRow(
            p.name,
            f"{duration(p.pass_seconds)} + {duration(p.verify_seconds)}"
            if p.verify_seconds >= _SHORTEST
            else duration(p.pass_seconds),
            [[(p.pass_seconds, "first"), (p.verify_seconds, "second")]],
            f"#pass-{p.index}",
        )
        for p in sorted(slowest, key=lambda p: p.index)
    ]
    rest = sum(p.seconds for p in report.passes) - sum(p.seconds for p in slowest)
    left = f"the slowest are shown; the others took {duration(rest)} together"
    keys = [("first", "the pass"), ("second", "its verification")]
    return _bars(
        "Time by pass", rows, len(report.passes), left, keys[: 1 + bool(report.verify_seconds)]
    )


def _operators(report: RunReport) -> Figure | None:
    if not (report.before and report.after):
        return None
    before, after = report.before.operators, report.after.operators
    # The changed ones first: they are what the page is read for.
    names = sorted(
        before.keys() | after.keys(),
        key=lambda n: (-max(before.get(n, 0), after.get(n, 0)), n),
    )
    rows = []
    for name in names[:_MOST_ROWS]:
        old, new = before.get(name, 0), after.get(name, 0)
        told = f"{old:,} → {new:,}" if old != new else f"{old:,}"
        rows.append(BarRow(name, told, [[(old, "was")], [(new, "first")]]))
    keys = [("was", "before"), ("first", "after")]
    return _bars("Operators", rows, len(names), "the most frequent are shown", keys)


def _rules(report: RunReport) -> Figure | None:
    applied = summary.rules(summary.kept(report)).most_common()
    rows = [
        BarRow(rule, f"{count:,}", [[(count, "first")]])
        for rule, count in applied[:_MOST_ROWS]
    ]
    caption = f"{plural(sum(c for _, c in applied), 'rewrite')} in all."
    left = "the most frequent are shown"
    return _bars("Rewrites by rule", rows, len(applied), left, caption=caption)


def _bars(
    title: str,
    rows: Sequence[BarRow],
    count: int,
    which: str,
    keys: Sequence[tuple[str, str]] = (),
    caption: str = "",
) -> Figure | None:
    left_out = _left_out(count, which)
    return Figure("bars", title, scaled(rows), caption, keys, left_out) if rows else None


def _left_out(count: int, which: str) -> str | None:
    return f"Of {count:,}, {which} ({_MOST_ROWS})." if count > _MOST_ROWS else None
