"""The ``optimize`` pipeline on whole models: passes, checks, memory."""

from __future__ import annotations

import statistics
import tempfile
from pathlib import Path

import onnx

from benchmarks.models import resnet50, transformer
from benchmarks.processes import Measured, run

RUNS = 3


def tables() -> list[str]:
    """Return the table of the light models, the transformer and ResNet-50."""
    light = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
    lines = [
        f"## The `optimize` pipeline (medians of {RUNS} runs, whole processes)",
        "",
        "| model | nodes | passes (s) | checks (s) | verified (s) | unverified (s) | ratio "
        "| peak, verified (MB) | peak, unverified (MB) |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    with tempfile.TemporaryDirectory() as folder:
        built = {
            "transformer (12 layers, 40 M)": transformer,
            "ResNet-50 (full size)": resnet50,
        }
        paths = {path.stem: path for path in sorted(light.glob("*.onnx"))}
        for name, build in built.items():
            paths[name] = Path(folder, f"{len(paths)}.onnx")
            onnx.save(build(), paths[name])
        lines += [_row(name, path) for name, path in paths.items()]
    return lines


def _row(name: str, path: Path) -> str:
    pairs = [
        (run(path, "-c", "optimize"), run(path, "-c", "optimize", "--no-verify"))
        for _ in range(RUNS)
    ]
    on, off = zip(*pairs, strict=True)
    report = on[0].report
    ratio = statistics.median(a.seconds / b.seconds for a, b in pairs)
    return (
        f"| {name} | {report['before']['nodes']} → {report['after']['nodes']} "
        f"| {_spent(on, 'pass_seconds'):.2f} | {_spent(on, 'verify_seconds'):.2f} "
        f"| {_median(on):.2f} | {_median(off):.2f} | {ratio:.2f} "
        f"| {_peak(on):.0f} | {_peak(off):.0f} |"
    )


def _spent(runs: tuple[Measured, ...], key: str) -> float:
    return statistics.median(sum(p[key] for p in r.report["passes"]) for r in runs)


def _median(runs: tuple[Measured, ...]) -> float:
    return statistics.median(r.seconds for r in runs)


def _peak(runs: tuple[Measured, ...]) -> float:
    return statistics.median(r.megabytes for r in runs)
