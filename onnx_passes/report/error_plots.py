"""Errors as pictures: where in a tensor they are, how large, and from which layer on."""

from __future__ import annotations

import math
import re
from collections.abc import Container, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

import numpy as np

from onnx_passes.arrays import Array
from onnx_passes.contracts.scores import blocks, kind_of, shape_text, widen
from onnx_passes.errors import UsageError
from onnx_passes.model.save import pending
from onnx_passes.optional import import_optional
from onnx_passes.plain import Foreign
from onnx_passes.verify.runs.results import Found, Pair, Run

_BLUE, _RED, _NONE = "#2e62a8", "#c81e28", "#f0f0ec"
# From small to large; dark to light, so that it reads in grey too.
_COLOURS = "inferno"
_DECADES = 6
_WIDTH, _HEIGHT, _PIXELS = 6.4, 4.0, 100  # inches, and pixels of one
_MOST_ROWS, _MOST_COLUMNS = 300, 480
_BINS, _MOST_TICKS, _LONGEST = 48, 8, 60


def heat_map(expected: Array, actual: Array, title: str) -> Foreign:
    """Draw where in a tensor errors are.

    Rows are all axes but the last, one after the other; of a large tensor each cell shows the
    largest error of a block. Colours are logarithmic over six decades; no error is pale, and
    what is finite on one side only is red.
    """
    cells, special = _pooled(expected, actual)
    most = float(cells.max(initial=0.0))
    figure, axes = _figure(title, f"{shape_text(expected.shape)} largest error {most:.3g}")
    colours = import_optional("matplotlib.colors")
    norm = colours.LogNorm(10**-_DECADES, 1.0, clip=True)  # of the largest, which may be tiny
    mapped = import_optional("matplotlib.cm").ScalarMappable(norm, _COLOURS)
    shown = mapped.to_rgba(cells / most if most else cells)
    shown[cells == 0] = colours.to_rgba(_NONE)
    shown[special] = colours.to_rgba(_RED)
    rows, columns = math.prod(expected.shape[:-1]), expected.shape[-1] if expected.ndim else 1
    axes.imshow(shown, aspect="auto", interpolation="nearest", extent=(0, columns, rows, 0))
    axes.locator_params(integer=True)
    axes.set(xlabel="last axis", ylabel="the other axes, one after the other")
    if most:
        bar = figure.colorbar(mapped, ax=axes, label="largest error of a block")
        ticks = [10.0**-n for n in range(_DECADES + 1)]
        bar.minorticks_off()
        bar.set_ticks(ticks, labels=[f"{most * tick:.1e}" for tick in ticks])
    return figure


def histogram(expected: Array, actual: Array, title: str) -> Foreign:
    """Draw how many elements have errors of each size; the axis is logarithmic."""
    errors = _Errors()
    for _, (e, a) in blocks(expected, actual):
        errors.add(widen(e), widen(a))
    counts, low, high = errors.counts()
    rest = f"{errors.none} equal, {errors.special} not finite on one side"
    figure, axes = _figure(title, f"elements by absolute error, {rest}")
    axes.stairs(counts, np.linspace(low, high, _BINS + 1), fill=True, color=_BLUE)
    step = math.ceil((high - low) / _MOST_TICKS)
    decades = range(low, high + 1, step)
    axes.set_xticks(decades, labels=[f"1e{decade}" for decade in decades])
    axes.set(xlabel="absolute error", ylabel="elements", xlim=(low, high))
    axes.grid(axis="x", alpha=0.4)
    return figure


@dataclass(frozen=True)
class ValueLayer:
    """A value in topological order; its largest absolute error, or None if not known."""

    error: float | None
    passed: bool


def layers(values: Sequence[ValueLayer], title: str) -> Foreign:
    """Draw the largest error of each value, in topological order; failed ones are red."""
    logs = [math.log10(v.error) if v.error and v.error < math.inf else None for v in values]
    known = [log for log in logs if log is not None]
    low = math.floor(min(known, default=-1.0))
    high = max(math.ceil(max(known, default=0.0)), low + 1)
    least = 0.01 * (high - low)  # so that the colour of each is seen
    heights = [
        max(log - low, least) if log is not None else (high - low if value.error else least)
        for log, value in zip(logs, values, strict=True)
    ]
    bad = sum(not value.passed for value in values)
    told = f"largest error of {len(values)} values in order, {bad} differ"
    figure, axes = _figure(title, told)
    colours = [_BLUE if value.passed else _RED for value in values]
    axes.bar(range(len(values)), heights, bottom=low, color=colours)
    decades = range(low, high + 1, math.ceil((high - low) / _MOST_TICKS))
    axes.set_yticks(decades, labels=[f"1e{decade}" for decade in decades])
    axes.locator_params(axis="x", integer=True)
    axes.set(xlabel="value, in topological order", ylabel="largest absolute error")
    axes.set_ylim(low, high)
    axes.grid(axis="y", alpha=0.4)
    return figure


def png(figure: Foreign) -> bytes:
    """Return a figure of matplotlib as a PNG file, the same bytes each time."""
    file = BytesIO()
    figure.savefig(file, format="png", dpi=_PIXELS, metadata={"Software": None})
    return file.getvalue()


def _figure(title: str, below: str) -> tuple[Foreign, Foreign]:
    """Return a figure and its axes, without what opens windows."""
    figure = import_optional("matplotlib.figure").Figure((_WIDTH, _HEIGHT))
    # The end of a name says more than its beginning. No part of it is a formula.
    shown = title if len(title) <= _LONGEST else f"…{title[1 - _LONGEST :]}"
    figure.suptitle(shown, parse_math=False, fontsize="medium", fontweight="bold")
    axes = figure.add_axes((0.13, 0.13, 0.84, 0.74))
    axes.set_title(below, fontsize="small")
    return figure, axes


class _Errors:
    """Errors counted by their decimal logarithm."""

    def __init__(self) -> None:
        self.none = self.special = 0
        # Hundredths of decades from 1e-330 to 1e310.
        self._counts = np.zeros(64_000, np.int64)

    def add(self, expected: Array, actual: Array) -> None:
        with np.errstate(all="ignore"):
            difference = np.abs(actual - expected)
        same = (expected == actual) | (np.isnan(expected) & np.isnan(actual))
        finite = np.isfinite(difference)
        self.none += int(same.sum())
        self.special += int((~finite & ~same).sum())
        kept = difference[finite & ~same]
        places = np.floor((np.log10(kept) + 330) * 100).astype(np.int64)
        np.add.at(self._counts, np.clip(places, 0, len(self._counts) - 1), 1)

    def counts(self) -> tuple[Array, int, int]:
        """Return counts between two powers of ten, and their exponents."""
        used = np.flatnonzero(self._counts)
        if not used.size:
            return np.zeros(_BINS, np.int64), -1, 0
        low = math.floor(int(used[0]) / 100) - 330
        high = max(math.ceil((int(used[-1]) + 1) / 100) - 330, low + 1)
        part = self._counts[(low + 330) * 100 : (high + 330) * 100]
        edges = np.linspace(0, len(part), _BINS + 1).astype(int)[:-1]
        return np.add.reduceat(part, edges), low, high


def _pooled(expected: Array, actual: Array) -> tuple[Array, Array]:
    """Return the largest finite error of each block, and where one side is not finite."""
    width = expected.shape[-1] if expected.ndim else 1
    e, a = expected.reshape(-1, width), actual.reshape(-1, width)
    down = np.unique(
        np.linspace(0, len(e), min(len(e), _MOST_ROWS), endpoint=False, dtype=int)
    )
    across = np.unique(
        np.linspace(0, width, min(width, _MOST_COLUMNS), endpoint=False, dtype=int)
    )
    cells, special = (np.zeros((len(down), len(across))) for _ in range(2))
    for row, (start, end) in enumerate(zip(down, [*down[1:], len(e)], strict=True)):
        left, right = widen(e[start:end]), widen(a[start:end])
        with np.errstate(all="ignore"):
            error = np.abs(right - left)
        same = (left == right) | (np.isnan(left) & np.isnan(right))
        odd = ~np.isfinite(error) & ~same
        error = np.where(np.isfinite(error) & ~same, error, 0.0)
        cells[row] = np.maximum.reduceat(error.max(0), across)
        special[row] = np.maximum.reduceat(odd.any(0).astype(float), across)
    return cells, special > 0


MOST = 20
"""Values of a pair that get pictures: the worst."""


def draw_plots(found: Found, folder: Path) -> list[Path]:
    """Draw the errors of every pair, of the first sample that differs or else the first.

    Returns the files: ``N-NAME.heat.png`` and ``N-NAME.errors.png`` for the worst values of
    pair N, and ``N-layers.png`` if there are several. Raises UsageError if the folder cannot
    be written, or matplotlib is not installed.
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
