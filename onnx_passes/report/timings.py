"""Times of runs and layers, in words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from onnx_passes.report.text import number, one_line, plural
from onnx_passes.runtime.layers import EngineLayer
from onnx_passes.verify.runs.timed import Latency, Timing
from onnx_passes.verify.runs.timed_runs import PROFILED_RUNS

SHOWN = 10
"""Layers that are listed of each run, the slowest first, where nobody asks for all."""


def timing_lines(timing: Timing, latency_text: str, *, verbose: bool = False) -> Iterator[str]:
    """Say what a run and its layers took.

    Args:
        timing: What was measured.
        latency_text: Its latency in words.
        verbose: Whether all layers are listed.
    """
    yield f"time of {one_line(timing.run)}, sample 0"
    if timing.latency is not None:
        warm = plural(timing.warm_up, "run")
        verb = "does" if timing.warm_up == 1 else "do"
        yield f"    {latency_text}, after {warm} that {verb} not count"
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
    for layer in order if verbose else order[:SHOWN]:
        share = f"{number((layer.seconds or 0.0) * 1e3, 3)} ms  " if measured else ""
        yield f"      {share}{one_line(layer_text(layer))}"
    if not verbose and len(order) > SHOWN:
        yield f"      and {len(order) - SHOWN} more; -v lists all"


def layer_text(layer: EngineLayer) -> str:
    """Write a layer on one line."""
    parts = [layer.kind, layer.name, f"by {layer.how}" if layer.how else ""]
    nodes = f"= {layer.nodes}" if layer.nodes and layer.nodes != layer.name else ""
    return " ".join(part for part in (*parts, nodes) if part)
