"""The figures of the page, each with its caption and, where it is capped, what is left out."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import accumulate

from onnx_passes.report import margins, summary
from onnx_passes.report.page.charts import Bar, Dot, bars, dots, paired, steps
from onnx_passes.report.page.markup import Element, tag
from onnx_passes.report.page.overview import share
from onnx_passes.report.pass_report import PassReport
from onnx_passes.report.run_report import RunReport
from onnx_passes.report.text import bound, duration, number, plural, size

_MOST_ROWS = 20
_MOST_METRICS = 4
_SHORTEST = 0.001  # seconds of verification worth a word


def figures(report: RunReport) -> Iterator[Element]:
    """Yield every figure that the report has data for."""
    for figure in (
        _errors(report),
        _along(report),
        _times(report),
        _operators(report),
        _rules(report),
    ):
        if figure is not None:
            yield figure


def _errors(report: RunReport) -> Element | None:
    rows = [dot for done in report.passes if (dot := _pass_dot(done))]
    exact = sum(row.error == 0 for row in rows)
    # Rows of zeros say little and are many: one line replaces them all.
    inexact = sorted((r for r in rows if r.error != 0), key=_nearness, reverse=True)
    shown = sorted(inexact[:_MOST_ROWS], key=rows.index)
    for check in report.final:
        worst = margins.margin([check])
        if worst is not None:
            label = f"end result on {check.engine}"
            tone = summary.check_words(check).tone
            shown.append(Dot(label, worst.error, worst.limit, _told(worst), tone))
    if not rows and not shown:
        return None
    kept = f" {plural(exact, 'more pass')} kept every output bit for bit." if exact else ""
    return _figure(
        "Error against limit",
        "Largest absolute error that a check saw (dot) and what was allowed there (bar; the "
        f"shaded side is beyond it). Logarithmic.{kept}",
        dots(shown) if shown else None,
        _left_out(len(inexact), _MOST_ROWS, "those nearest to their limits are shown"),
        wide=True,
    )


def _pass_dot(done: PassReport) -> Dot | None:
    worst = margins.margin(done.checks)
    if worst is None:
        return None
    tone = summary.verdict_words(done).tone
    return Dot(done.name, worst.error, worst.limit, _told(worst), tone, f"#pass-{done.index}")


def _nearness(dot: Dot) -> float:
    return dot.error / dot.limit if dot.limit else dot.error


def _told(worst: margins.Margin) -> str:
    return f"{bound(worst.error)}, {share(worst)}" if worst.error else share(worst)


def _along(report: RunReport) -> Element | None:
    passes = report.passes
    if not passes:
        return None
    nodes = [passes[0].nodes_before, *(p.nodes_after for p in passes)]
    weights = [passes[0].bytes_before, *(p.bytes_after for p in passes)]
    lines = [_line("Nodes", nodes, [f"{n:,}" for n in (nodes[0], nodes[-1])])]
    if any(weights):
        # A pass that measured nothing leaves a gap, which is not a drop to zero.
        known = [w for w in weights if w]
        lines.append(_line("Weights", known, [size(known[0]), size(known[-1])]))
    spent = [0.0, *accumulate(p.pass_seconds + p.verify_seconds for p in passes)]
    lines.append(_line("Time, with verification", spent, ["0", duration(spent[-1])]))
    lines += _metric_lines(report)
    if any(p.budget_spent is not None for p in passes):
        spent = [0.0]
        for done in passes:
            spent.append(spent[-1] if done.budget_spent is None else done.budget_spent)
        ends = [f"{number(100 * s, 2)} %" for s in (0.0, spent[-1])]
        lines.append(_line("Error budget spent", spent, ends, high=1.0))
    return _figure(
        "Along the pipeline",
        "Size, time and accuracy from the original, through "
        f"{plural(len(passes), 'pass')}, to the result.",
        tag("div", lines, class_="lines"),
    )


def _metric_lines(report: RunReport) -> Iterator[Element]:
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
        yield _line(f"Metric {name}{after}", [max(0.0, v) for v in values], ends, high=top)


def _line(
    label: str,
    values: list[int] | list[float],
    ends: list[str],
    high: float | None = None,
) -> Element:
    told = f"{label}: {ends[0]} at the start, {ends[1]} at the end"
    return tag(
        "div",
        tag("span", label, class_="key"),
        steps([*values, values[-1]] if len(values) < 2 else values, told, high),
        tag("span", tag("span", ends[0]), tag("span", ends[1]), class_="ends"),
    )


def _times(report: RunReport) -> Element | None:
    spent = [(p, p.pass_seconds + p.verify_seconds) for p in report.passes]
    slowest = sorted(spent, key=lambda pair: pair[1], reverse=True)[:_MOST_ROWS]
    rows = [
        Bar(
            p.name,
            [(p.pass_seconds, "first"), (p.verify_seconds, "second")],
            f"{duration(p.pass_seconds)} + {duration(p.verify_seconds)}"
            if p.verify_seconds >= _SHORTEST
            else duration(p.pass_seconds),
            f"#pass-{p.index}",
        )
        for p, _ in sorted(slowest, key=lambda pair: pair[0].index)
    ]
    if not rows:
        return None
    rest = sum(s for _, s in spent) - sum(s for _, s in slowest)
    checked = [_key("second", "its verification")] if report.verify_seconds else []
    left = f"the slowest are shown; the others took {duration(rest)} together"
    return _figure(
        "Time by pass",
        [_key("first", "the pass"), *checked],
        bars(rows),
        _left_out(len(spent), _MOST_ROWS, left),
    )


def _operators(report: RunReport) -> Element | None:
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
        rows.append((Bar(name, [(old, "was")], told), Bar(name, [(new, "first")], "")))
    return (
        _figure(
            "Operators",
            [_key("was", "before"), _key("first", "after")],
            paired(rows),
            _left_out(len(names), _MOST_ROWS, "the most frequent are shown"),
        )
        if rows
        else None
    )


def _rules(report: RunReport) -> Element | None:
    applied = summary.rules(report.passes).most_common()
    if not applied:
        return None
    rows = [
        Bar(rule, [(count, "first")], f"{count:,}") for rule, count in applied[:_MOST_ROWS]
    ]
    caption = f"{plural(sum(c for _, c in applied), 'rewrite')} in all."
    left = _left_out(len(applied), _MOST_ROWS, "the most frequent are shown")
    return _figure("Rewrites by rule", caption, bars(rows), left)


def _figure(
    title: str,
    caption: str | list[Element],
    chart: Element | None,
    left_out: str | None = None,
    *,
    wide: bool = False,
) -> Element:
    words = tag("p", caption, f" {left_out}" if left_out else None, class_="caption")
    head = tag("figcaption", tag("h3", title), words)
    return tag("figure", head, chart, class_="wide" if wide else None)


def _left_out(count: int, most: int, which: str) -> str | None:
    return f"Of {count:,}, {which} ({most})." if count > most else None


def _key(style: str, told: str) -> Element:
    swatch = tag(
        "svg",
        tag("rect", class_=style, width=12, height=12, rx=2),
        width=12,
        height=12,
        aria_hidden="true",
    )
    return tag("span", swatch, f" {told}", class_="legend")
