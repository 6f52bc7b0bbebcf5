"""A comparison of models side by side: in words, as plain data, and as one HTML page."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict

import numpy as np

from onnx_passes.bench.inspection import statistics, statistics_text
from onnx_passes.bench.runs.judges import Measured
from onnx_passes.bench.runs.results import FirstDifference, Found, Latency, Pair, Run, Timing
from onnx_passes.bench.runs.runner import PROFILED_RUNS
from onnx_passes.contracts.scores import shape_text
from onnx_passes.plain import PlainDict, spelled
from onnx_passes.report.pages import Dot, DotChart, render_page
from onnx_passes.report.summary import Margin, Words, margin_of
from onnx_passes.report.text import duration, number, one_line, plural
from onnx_passes.runtime.tensorrt.engine import EngineLayer
from onnx_passes.verify.evidence import OutputCheck
from onnx_passes.verify.saved import describe

SHOWN = 20
"""Values that are listed of each kind, where nobody asks for all."""


def comparison_lines(
    found: Found, *, verbose: bool = False, pairs: bool = True
) -> Iterator[str]:
    """Describe what was found, a line for each fact."""
    for run in found.runs:
        yield from _run(run, found)
    for invalid in found.invalid:
        at = shape_text(invalid.first)
        yield (
            f"not finite: {one_line(invalid.output)} of {one_line(invalid.run)}: "
            f"{invalid.nan} NaN, {invalid.inf} Inf, first at {at} of sample {invalid.sample}"
        )
    for pair in found.pairs if pairs else ():
        yield ""
        yield from _pair(pair, verbose)
    if not found.pairs:
        for run in found.runs:
            yield from _values(run, verbose)
        yield "nothing was compared: that takes two runs with results"
    for timing in found.timings:
        yield from timing_lines(timing, verbose=verbose)
    yield from ratio_lines(found.timings)
    for note in found.notes:
        yield f"note: {one_line(note)}"


def _run(run: Run, found: Found) -> Iterator[str]:
    parts = [f"{run.state}: {run.reason}" if run.reason else run.state]
    if run.compared:
        parts += [plural(found.samples, "sample"), plural(len(run.names), "value")]
    if run.batches > 1:
        parts.append(f"in {run.batches} batches")
    yield f"{one_line(run.name)}: {', '.join(parts)}"


def _values(run: Run, verbose: bool) -> Iterator[str]:
    """Describe what a run gave for its first sample: names, types, shapes and statistics."""
    if run.values is None or not len(run.values):
        return
    names = run.values.names(0)
    for name in names if verbose else names[:SHOWN]:
        value = run.values.get(0, name)
        if not isinstance(value, np.ndarray):
            yield f"    {one_line(name)}: {'nothing' if value is None else 'a sequence'}"
            continue
        yield f"    {one_line(name)}: {describe(value)}"
        yield f"        {statistics_text(statistics(value))}"
    if not verbose and len(names) > SHOWN:
        yield f"    and {len(names) - SHOWN} more; -v lists all"
    if len(run.values) > 1:
        yield f"    of sample 0; there are {len(run.values)}"


def latency_text(latency: Latency) -> str:
    """Write latencies on one line."""
    shown = {
        "median": latency.median,
        "mean": latency.mean,
        "p90": latency.p90,
        "p99": latency.p99,
        "min": latency.least,
        "max": latency.most,
    }
    times = ", ".join(f"{name} {_time(value)}" for name, value in shown.items())
    return f"{times} of {plural(latency.runs, 'run')}"


def _time(seconds: float) -> str:
    return f"{number(seconds * 1e3, 3)} ms" if seconds < 0.1 else duration(seconds)


def _pair(pair: Pair, verbose: bool) -> Iterator[str]:
    yield f"{one_line(pair.candidate)} against {one_line(pair.reference)} ({pair.judge})"
    bad = [check for check in pair.outputs if not check.passed]
    few = len(pair.outputs) <= SHOWN
    listed = pair.outputs if verbose or few else bad[:SHOWN]
    for check in listed:
        told = f"{one_line(check.output)}: {check_text(check)}"
        yield f"  {'agrees ' if check.passed else 'DIFFERS'} {told}"
    if not verbose and not few and len(bad) > SHOWN:
        yield f"  and {len(bad) - SHOWN} more that differ; -v lists all"
    if pair.first is not None and len(pair.outputs) > 1:
        yield f"  first to differ, in topological order: {first_text(pair.first)}"
    for side, names in (
        (pair.reference, pair.only_reference),
        (pair.candidate, pair.only_candidate),
    ):
        if names:
            some = ", ".join(map(one_line, names[:5])) + (", ..." if len(names) > 5 else "")
            yield f"  only in {one_line(side)}: {plural(len(names), 'value')} ({some})"
    if pair.stopped:
        yield "  the rest was not compared (--fail-fast)"
    yield f"  {count_text(pair)}"


def count_text(pair: Pair) -> str:
    """Say how many values agree, or differ, in how many samples."""
    total, over = len(pair.outputs), plural(pair.samples, "sample")
    if pair.passed:
        return f"{plural(total, 'value')} {'agrees' if total == 1 else 'agree'} in {over}"
    bad = sum(not check.passed for check in pair.outputs)
    return (
        f"{bad} of {plural(total, 'value')} {'differs' if total == 1 else 'differ'} in {over}"
    )


def first_text(first: FirstDifference) -> str:
    """Describe where two runs differ."""
    node = f", made by {one_line(first.node)}" if first.node else ""
    return f"{one_line(first.check.output)}{node}, in sample {first.sample}"


def check_text(check: OutputCheck) -> str:
    """Describe how one value compares."""
    parts = []
    if isinstance(check, Measured) and check.value is not None and check.passed:
        parts.append(f"{check.measure} {check.value:.6g}, {check.demand}")
    # If one of the elements is NaN there is no error: a 0 would be that of the others.
    told = check.reason is not None and "by up to" in check.reason
    if check.max_abs is not None and (check.passed or check.max_abs) and not told:
        parts.append(f"max abs {number(check.max_abs, 3)}")
    if check.max_rel is not None and (check.passed or check.max_rel):
        parts.append(f"max rel {number(check.max_rel, 3)}")
    if check.rmse_old is not None and check.rmse_new is not None:
        errors = number(check.rmse_old, 3), number(check.rmse_new, 3)
        parts.append("error against float64 {} and {}".format(*errors))
    if check.reason:
        parts.insert(0, check.reason)
    elif not check.passed and check.worst is not None:
        at = shape_text(check.worst)
        parts.append(f"{check.actual} instead of {check.expected} at {at}")
        parts.append(f"{check.mismatched} of {plural(check.size, 'element')}")
    return ", ".join(map(one_line, parts)) or "equal"


def comparison_dict(found: Found) -> PlainDict:
    """Return what ``--json`` prints; NaN and infinities as text."""
    return {
        "schema": 1,
        "exit_code": found.exit_code,
        "compared": bool(found.pairs),
        "equal": found.passed,
        "samples": found.samples,
        "runs": [_run_dict(run) for run in found.runs],
        "comparisons": [
            {
                "reference": pair.reference,
                "candidate": pair.candidate,
                "judge": pair.judge,
                "passed": pair.passed,
                "samples": pair.samples,
                "stopped": pair.stopped,
                "outputs": [spelled(asdict(check)) for check in pair.outputs],
                "first": None if pair.first is None else spelled(asdict(pair.first)),
                "only_reference": pair.only_reference,
                "only_candidate": pair.only_candidate,
            }
            for pair in found.pairs
        ],
        "invalid": [spelled(asdict(invalid)) for invalid in found.invalid],
        "notes": found.notes,
        "timings": [timing.as_dict() for timing in found.timings],
    }


def _run_dict(run: Run) -> PlainDict:
    return {key: value for key, value in run.as_dict().items() if key != "makers"}


_LAYERS_SHOWN = 10
"""Layers that are listed of each run, the slowest first, where nobody asks for all."""


def timing_lines(timing: Timing, *, verbose: bool = False) -> Iterator[str]:
    """Say what a run and its layers took."""
    yield f"time of {one_line(timing.run)}, sample 0"
    if timing.latency is not None:
        warm = plural(timing.warm_up, "run")
        verb = "does" if timing.warm_up == 1 else "do"
        yield f"    {latency_text(timing.latency)}, after {warm} that {verb} not count"
        yield f"    spread: {spread(timing.latency)}"
    for when, states in (("before", timing.before), ("after", timing.after)):
        for state in states:
            told = ", ".join(f"{key} {value}" for key, value in state.items())
            yield f"    GPU {when}: {one_line(told)}"
    yield from _layers(timing.layers, verbose)
    for note in timing.notes:
        yield f"    note: {one_line(note)}"


def ratio_lines(timings: Sequence[Timing]) -> Iterator[str]:
    """Say how many times as fast as the first each later run is, by medians."""
    known = [(t.run, t.latency.median) for t in timings if t.latency is not None]
    for run, median in known[1:]:
        if median:
            ratio = number(known[0][1] / median, 3)
            yield f"{one_line(run)} is {ratio} times as fast as {one_line(known[0][0])}"


def spread(latency: Latency) -> str:
    """Say how far runs are apart, so that a difference of two medians can be judged."""
    if not latency.median:
        return "unknown"
    part = number(latency.p90 / latency.median, 3)
    return f"the 90th percentile is {part} times the median"


def _layers(layers: list[EngineLayer], verbose: bool) -> Iterator[str]:
    if not layers:
        return
    measured = [layer for layer in layers if layer.seconds is not None]
    total = sum(layer.seconds or 0.0 for layer in measured)
    times = f", {number(total * 1e3, 3)} ms in all" if measured else ", without times"
    runs = f", the mean of {plural(PROFILED_RUNS, 'run')} of their own" if measured else ""
    yield f"    {plural(len(layers), 'layer')}{times}{runs}"
    order = sorted(layers, key=lambda layer: -(layer.seconds or 0.0)) if measured else layers
    for layer in order if verbose else order[:_LAYERS_SHOWN]:
        share = f"{number((layer.seconds or 0.0) * 1e3, 3)} ms  " if measured else ""
        yield f"      {share}{one_line(layer_text(layer))}"
    if not verbose and len(order) > _LAYERS_SHOWN:
        yield f"      and {len(order) - _LAYERS_SHOWN} more; -v lists all"


def layer_text(layer: EngineLayer) -> str:
    """Write a layer on one line."""
    parts = [layer.kind, layer.name, f"by {layer.how}" if layer.how else ""]
    nodes = f"= {layer.nodes}" if layer.nodes and layer.nodes != layer.name else ""
    return " ".join(part for part in (*parts, nodes) if part)


_MOST_DOTS, _MOST_ROWS = 30, 2000


def compare_page(found: Found) -> str:
    """Return a comparison as a page for a browser."""
    words = _words(found)
    runs = ", ".join(run.name for run in found.runs)
    alone = not found.pairs
    lines = comparison_lines(found, verbose=alone, pairs=False)
    return render_page(
        "compare.html",
        f"{words.head}: {runs[:200]}",
        "report.css",
        words=words,
        models=runs,
        lead="; ".join(dict.fromkeys(map(count_text, found.pairs))),
        whole="\n".join(lines),
        pairs=[_compared_pair(pair, found.runs[0].makers) for pair in found.pairs],
    )


def _words(found: Found) -> Words:
    if found.exit_code == 1:
        return Words("DIFFERS", "bad")
    if found.passed:
        return Words("AGREES", "good")
    return Words("NOT COMPARED", "warn")


def _compared_pair(pair: Pair, makers: Mapping[str, str]) -> PlainDict:
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
            share = "" if margin.limit is None else f", {margin.share}"
            told = number(margin.error, 3) + share
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
        "error": "" if margin is None else number(margin.error, 3),
        "told": check_text(check),
        "at": "" if check.worst is None else f" at {shape_text(check.worst)}",
    }
