"""Models side by side as one self-contained HTML page: the largest errors first."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from onnx_passes.contracts.scores import shape_text
from onnx_passes.plain import PlainDict
from onnx_passes.report.margins import Margin, margin_of
from onnx_passes.report.page.charts import Dot, DotChart
from onnx_passes.report.page.rendering import render_page
from onnx_passes.report.side_by_side import (
    check_text,
    comparison_lines,
    count_text,
    first_text,
)
from onnx_passes.report.summary import Words
from onnx_passes.report.text import bound
from onnx_passes.verify.result import OutputCheck
from onnx_passes.verify.runs.found import Found, Pair
from onnx_passes.verify.runs.judging import Measured

_MOST_DOTS, _MOST_ROWS = 30, 2000


def compare_page(found: Found, *, latencies: bool) -> str:
    """Return a comparison as a page for a browser.

    Args:
        found: What was found.
        latencies: Whether the time that each run took is shown.
    """
    words = _words(found)
    runs = ", ".join(run.name for run in found.runs)
    alone = not found.pairs
    lines = comparison_lines(found, verbose=alone, latencies=latencies, pairs=False)
    return render_page(
        "compare.html",
        f"{words.head}: {runs[:200]}",
        "report.css",
        words=words,
        models=runs,
        lead="; ".join(dict.fromkeys(map(count_text, found.pairs))),
        whole="\n".join(lines),
        pairs=[_pair(pair, found.runs[0].makers) for pair in found.pairs],
    )


def _words(found: Found) -> Words:
    if found.exit_code == 1:
        return Words("DIFFERS", "bad")
    if found.passed:
        return Words("AGREES", "good")
    return Words("NOT COMPARED", "warn")


def _pair(pair: Pair, makers: Mapping[str, str]) -> PlainDict:
    """Return the values of a pair by error; each with its place in topological order."""
    inside = len(pair.outputs) > 1
    margins = [_margin(check) for check in pair.outputs]
    order = sorted(
        range(len(margins)),
        key=lambda at: _badness(pair.outputs[at], margins[at]),
        reverse=True,
    )
    dots = list(_dots(pair, margins, order))
    rows = [_row(at, pair.outputs[at], margins[at], makers) for at in order[:_MOST_ROWS]]
    return {
        "pair": pair,
        "first": "" if pair.first is None or not inside else first_text(pair.first),
        "chart": DotChart(dots[:_MOST_DOTS]) if dots else None,
        "more_dots": max(0, len(dots) - _MOST_DOTS),
        "equal": sum(check.passed and check.max_abs == 0 for check in pair.outputs),
        "rows": rows,
        "more_rows": len(order) - len(rows),
    }


def _margin(check: OutputCheck) -> Margin | None:
    if not isinstance(check, Measured):
        return margin_of(check, region=True)
    return None if check.max_abs is None else Margin(check.output, check.max_abs, None)


def _badness(check: OutputCheck, margin: Margin | None) -> tuple[bool, float, float]:
    if isinstance(check, Measured):
        return not check.passed, check.badness, 0.0
    if margin is None:
        return not check.passed, 0.0 if check.passed else math.inf, 0.0
    return not check.passed, margin.ratio, margin.error


def _dots(pair: Pair, margins: list[Margin | None], order: list[int]) -> Iterator[Dot]:
    """Yield a dot for each value with an error: those without one say little and are many."""
    for at in order:
        check, margin = pair.outputs[at], margins[at]
        if margin is not None and margin.error:
            tone = "good" if check.passed else "bad"
            told = bound(margin.error) if margin.limit is None else margin.told
            yield Dot(check.output, margin.error, margin.limit, told, tone)


def _row(
    place: int, check: OutputCheck, margin: Margin | None, makers: Mapping[str, str]
) -> PlainDict:
    words = Words("agrees", "good") if check.passed else Words("differs", "bad")
    return {
        "place": f"{place + 1:,}",
        "check": check,
        "node": makers.get(check.output, ""),
        "words": words,
        "error": "" if margin is None else bound(margin.error),
        "told": check_text(check),
        "at": "" if check.worst is None else f" at {shape_text(check.worst)}",
    }
