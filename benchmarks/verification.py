"""The bars of verification: what a verified run may cost beside an unverified one."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import onnx
import onnx_ir as ir

from benchmarks import memory, regions
from benchmarks.models import chain, resnet50, transformer
from benchmarks.models.exported import exported_resnet50
from benchmarks.processes import Measured, run
from onnx_passes.runtime.inputs import generate
from onnx_passes.runtime.ort import OnnxRuntimeEngine

RUNS = 3
MEMORY_LIMIT = 1024
"""MB that ``verify.memory_limit`` allows for recorded values by default."""

MODELS: dict[str, Callable[[], onnx.ModelProto]] = {
    "transformer (12 layers, 40 M)": transformer,
    "ResNet-50": resnet50,
    "ResNet-50 as exported": exported_resnet50,
    "chain of 5,000 small nodes": partial(chain, 5_000),
    "chain of 20,000 small nodes": partial(chain, 20_000),
}


def tables() -> list[str]:
    """Return all tables of bars."""
    return [*runs(), "", *regions.tables(), "", *memory.tables()]


def runs() -> list[str]:
    """Return the table of whole runs."""
    lines = [
        f"## Verified and unverified runs of `optimize` (medians of {RUNS}, whole processes)",
        "",
        "The bars: a ratio of 1.5; on the transformer 1.2 times the unverified run and two "
        "inferences; 1.5 times its memory and the memory limit of 1 GiB. An inference is a "
        "session of the original, its weights by reference, and one run for each of the "
        "samples, on the engine that checks each pass.",
        "",
        "| model | nodes | verified (s) | unverified (s) | ratio | inference (s) "
        "| 1.2 unverified + 2 inferences (s) | peak, verified (MB) | its bar (MB) |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    with tempfile.TemporaryDirectory() as folder:
        for index, (name, build) in enumerate(MODELS.items()):
            path = Path(folder, f"{index}.onnx")
            onnx.save(build(), path)
            lines.append(_row(name, path))
    return lines


def _row(name: str, path: Path) -> str:
    run(path, "-c", "optimize")  # the first run reads files that the later ones find in memory
    pairs = [
        (run(path, "-c", "optimize"), run(path, "-c", "optimize", "--no-verify"))
        for _ in range(RUNS)
    ]
    on, off = zip(*pairs, strict=True)
    inference = _inference(path)
    ratio = statistics.median(a.seconds / b.seconds for a, b in pairs)
    report = on[0].report
    return (
        f"| {name} | {report['before']['nodes']} → {report['after']['nodes']} "
        f"| {_seconds(on):.2f} | {_seconds(off):.2f} | {ratio:.2f} | {inference:.2f} "
        f"| {1.2 * _seconds(off) + 2 * inference:.2f} "
        f"| {_peak(on):.0f} | {1.5 * _peak(off) + MEMORY_LIMIT:.0f} |"
    )


def _inference(path: Path) -> float:
    model = ir.load(path)
    samples = generate(model)
    times = []
    for _ in range(RUNS):
        start = time.perf_counter()
        with OnnxRuntimeEngine(prepacking=False).prepare(model) as session:
            for feeds in samples:
                session.run(feeds)
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def _seconds(measured: Sequence[Measured]) -> float:
    return statistics.median(m.seconds for m in measured)


def _peak(measured: Sequence[Measured]) -> float:
    return statistics.median(m.megabytes for m in measured)
