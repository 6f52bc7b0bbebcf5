"""Ranges of values on the user's data, by several rules."""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping
from contextlib import redirect_stdout
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np
import onnx_ir as ir

from onnx_passes.arrays import Array
from onnx_passes.passes.precision._grid import make_grid, quantise
from onnx_passes.plain import Plain

if TYPE_CHECKING:
    from onnxruntime.quantization.calibrate import HistogramCollector

Method = Literal["minmax", "percentile", "entropy", "mse"]
Range: TypeAlias = tuple[float, float]

_BINS = 1024
_STEPS = 80
"""Thresholds that "mse" tries, evenly from the whole range down to a twentieth."""


def calibrate(
    samples: Iterable[Mapping[str, Array]],
    method: Method,
    dtype: ir.DataType,
    *,
    symmetric: bool,
    percentile: float,
) -> dict[str, Range]:
    """Return the range of each value.

    Args:
        samples: float32 values by name, sample by sample; values that are not finite count
            for nothing.
        method: "minmax" takes all there is. "percentile" leaves out the share of elements
            that ``percentile`` does not cover. "entropy" takes the threshold at which the
            distribution loses the least information, "mse" that of the least mean squared
            error; both after onnxruntime's histograms.
        dtype: The integers that will represent the values.
        symmetric: Whether the range has 0 in its middle.
        percentile: Share of the elements in the range, in percent.
    """
    if method == "minmax":
        return extremes(samples)
    collector = _collector("entropy" if method == "mse" else method, symmetric, percentile)
    with redirect_stdout(io.StringIO()):  # it reports what it does
        for sample in samples:
            for name, array in sample.items():
                finite = array[np.isfinite(array)].astype(np.float32)
                collector.collect({name: finite})
        if method == "mse":
            found = collector.get_histogram_dict().items()
            return {n: _least_error(h[0], h[1], dtype, symmetric) for n, h in found}
        ranges = collector.compute_collection_result() if collector.histogram_dict else {}
    found_ranges = getattr(ranges, "data", ranges)
    return {n: _ends(r) for n, r in dict(found_ranges).items()}


def _ends(found: object) -> Range:
    ends: Plain = getattr(found, "range_value", found)
    low, high = ends[:2]
    return float(low), float(high)


def _collector(method: str, symmetric: bool, percentile: float) -> HistogramCollector:
    # Takes long to load, and only these rules need it.
    from onnxruntime.quantization.calibrate import HistogramCollector

    return HistogramCollector(
        method=method,
        symmetric=symmetric,
        num_bins=_BINS,
        num_quantized_bins=256,
        percentile=percentile,
        scenario="same",
    )


def extremes(samples: Iterable[Mapping[str, Array]]) -> dict[str, Range]:
    """Return the least and greatest finite element of each value, at most and at least 0.

    Args:
        samples: float32 values by name, sample by sample.
    """
    found: dict[str, Range] = {}
    for sample in samples:
        for name, array in sample.items():
            finite = array[np.isfinite(array)]
            low, high = found.get(name, (0.0, 0.0))
            least = float(finite.min(initial=low)) if finite.size else low
            most = float(finite.max(initial=high)) if finite.size else high
            found[name] = min(low, least), max(high, most)
    return found


def _least_error(counts: Array, edges: Array, dtype: ir.DataType, symmetric: bool) -> Range:
    """Return the range whose grid has the least mean squared error over a histogram."""
    kept = counts > 0
    middles = ((edges[:-1] + edges[1:]) / 2)[kept].astype(np.float32)
    weights = counts[kept].astype(np.float64)
    if not middles.size:
        return 0.0, 0.0
    low, high = float(min(middles.min(), 0)), float(max(middles.max(), 0))
    best, chosen = np.inf, (low, high)
    for share in np.linspace(1.0, 0.05, _STEPS):
        tried = low * share, high * share
        grid = make_grid(
            np.float64(tried[0]), np.float64(tried[1]), dtype, symmetric=symmetric
        )
        levels = quantise(middles, grid, dtype).astype(np.float32)
        near = (levels - grid.zero.astype(np.float32)) * grid.scale
        error = float(weights @ (near - middles).astype(np.float64) ** 2)
        if error < best:
            best, chosen = error, tried
    return chosen
