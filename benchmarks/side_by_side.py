"""The peak memory of ``compare --outputs all``, where the values do not fit into the limit."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx

from benchmarks import models

MIB = 1 << 20
ENGINES = ("onnxruntime", "onnxruntime{optimization=basic}")
SHAPE = "4x128"
"""Batch and sequence of the one sample."""


@dataclass(frozen=True)
class Case:
    """A model and a limit.

    Attributes:
        title: Of the row.
        arguments: For the builder of the transformer.
        limit: Bytes that values may have.
        external: Whether its weights lie in a file beside it.
    """

    title: str
    arguments: dict[str, int]
    limit: int
    external: bool = False


CASES = (
    Case("12 layers, hidden 512", {}, 128 * MIB),
    Case("12 layers, hidden 768", {"hidden": 768, "heads": 12, "ffn": 3072}, 128 * MIB),
    Case(
        "12 layers, hidden 768, weights in a file",
        {"hidden": 768, "heads": 12, "ffn": 3072},
        128 * MIB,
        external=True,
    ),
)


@dataclass(frozen=True)
class Peak:
    """What a command took.

    Attributes:
        bytes: Peak resident memory of its process, the interpreter and libraries included.
        seconds: Wall time.
        told: What it printed, as JSON.
    """

    bytes: float
    seconds: float
    told: dict[str, Any]


def peak(*words: str) -> Peak:
    """Run ``onnx-passes`` in a process of its own; differences are not an error."""
    command = [sys.executable, "-m", "benchmarks.processes", "-m", "onnx_passes", *words]
    start = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True)
    seconds = time.perf_counter() - start
    if done.returncode not in (0, 1):
        raise SystemExit(f"{' '.join(command)}\n{done.stderr}")
    *told, last = done.stdout.splitlines()
    return Peak(float(last) * MIB, seconds, json.loads("\n".join(told)))


def measured(case: Case, folder: Path) -> str:
    """Return the row of a case."""
    path = folder / "model.onnx"
    model = models.transformer(**case.arguments)
    weights = sum(onnx.numpy_helper.to_array(t).nbytes for t in model.graph.initializer)
    onnx.save(model, path, save_as_external_data=case.external, location="model.data")
    del model
    shapes = ",".join(f"shape={name}:{SHAPE}" for name in ("input_ids", "attention_mask"))
    loaded = peak("inspect", "model", str(path), "--json")
    found = peak(
        *("compare", str(path), "--outputs", "all", "--json"),
        *(word for engine in ENGINES for word in ("--engine", engine)),
        *("--generate", f"samples=1,{shapes}", "--memory-limit", str(case.limit)),
    )
    run, allowed = found.told["runs"][0], 2 * weights + case.limit
    for file in folder.iterdir():
        file.unlink()
    cells = (
        case.title,
        f"{weights / MIB:.0f}",
        f"{case.limit / MIB:.0f}",
        f"{len(run['names'])} in {run['batches']}",
        f"{found.seconds:.0f}",
        f"{loaded.bytes / MIB:.0f}",
        f"{found.bytes / MIB:.0f}",
        f"{allowed / MIB:.0f}",
        "yes" if found.bytes < allowed else "no",
    )
    return f"| {' | '.join(cells)} |"


def tables() -> list[str]:
    """Return the table."""
    with tempfile.TemporaryDirectory() as name:
        rows = [measured(case, Path(name)) for case in CASES]
    return [
        "## compare --outputs all: peak memory",
        "",
        f"One sample of [{SHAPE.replace('x', ',')}] on {' and '.join(ENGINES)}, in MiB. The "
        "bar is twice the weights plus the limit; peaks hold Python and its libraries.",
        "",
        "| transformer | weights | limit | values in batches | s | peak of reading it "
        "| peak | bar | within |",
        "|---|---|---|---|---|---|---|---|---|",
        *rows,
    ]
