"""Write the pictures of a comparison to a folder."""

from __future__ import annotations

import re
from collections.abc import Container
from pathlib import Path

import numpy as np

from onnx_passes.arrays import Array
from onnx_passes.contracts.scores import kind_of
from onnx_passes.errors import UsageError
from onnx_passes.model.save import pending
from onnx_passes.plain import Foreign
from onnx_passes.report.plots.pictures import ValueLayer, heat_map, histogram, layers, png
from onnx_passes.verify.runs.found import Found, Pair, Run

MOST = 20
"""Values of a pair that get pictures: the worst."""


def draw_plots(found: Found, folder: Path) -> list[Path]:
    """Draw the errors of every pair, of the first sample that differs or else the first.

    Args:
        found: A comparison whose values were kept.
        folder: Made if it is not there.

    Returns:
        The files: ``N-NAME.heat.png`` and ``N-NAME.errors.png`` for the worst values of pair
        N, and ``N-layers.png`` where there are several.

    Raises:
        UsageError: The folder cannot be written to, or matplotlib is not installed.
    """
    runs = {run.name: run for run in found.runs}
    written: list[Path] = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for number, pair in enumerate(found.pairs, 1):
            pictures = _pictures(pair, runs[pair.reference], runs[pair.candidate])
            for name, figure in pictures.items():
                path = folder / f"{number}-{name}.png"
                with pending(path) as file:
                    file.write(png(figure))
                    file.publish(path)
                written.append(path)
    except OSError as error:
        raise UsageError(
            f"--plots: the pictures cannot be written: {error.strerror or error}",
            where=str(folder),
            help="name a folder that you may write to, with room for them",
        ) from error
    return written


def _pictures(pair: Pair, reference: Run, candidate: Run) -> dict[str, Foreign]:
    found: dict[str, Foreign] = {}
    if len(pair.outputs) > 1:
        values = [ValueLayer(check.max_abs, check.passed) for check in pair.outputs]
        found["layers"] = layers(values, pair.candidate)
    sample = pair.first.sample if pair.first is not None else 0
    told = [check for check in pair.outputs if check.max_abs or not check.passed]
    worst = sorted(told, key=lambda c: (c.passed, -(c.max_abs or 0.0)))[:MOST]
    for check in worst:
        values_of = [_tensor(run, sample, check.output) for run in (reference, candidate)]
        expected, actual = values_of
        if expected is None or actual is None or expected.shape != actual.shape:
            continue
        if not expected.size:
            continue
        name = _file_name(check.output, found)
        found[f"{name}.heat"] = heat_map(expected, actual, check.output)
        found[f"{name}.errors"] = histogram(expected, actual, check.output)
    return found


def _tensor(run: Run, sample: int, name: str) -> Array | None:
    values = run.values
    if values is None or sample >= len(values) or name not in values.names(sample):
        return None
    value = values.get(sample, name)
    if not isinstance(value, np.ndarray) or kind_of(value.dtype) in ("string", "other"):
        return None
    return value


def _file_name(name: str, taken: Container[str]) -> str:
    base = re.sub(r"[^A-Za-z0-9._-]+", "_", name).strip("_.")[-80:] or "value"
    unique, number = base, 2
    while f"{unique}.heat" in taken:
        unique, number = f"{base}-{number}", number + 1
    return unique
