"""Grids of integers that represent floats: scales, zero points, and calibrated ranges."""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping
from contextlib import redirect_stdout
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np
import onnx_ir as ir

from onnx_passes.arrays import Array
from onnx_passes.passes.constants import constant_of
from onnx_passes.plain import Plain

if TYPE_CHECKING:
    from onnxruntime.quantization.calibrate import HistogramCollector


Kind = Literal["int8", "uint8", "int16", "uint16", "int4", "uint4", "int2", "uint2"]
_SHARES = 19
"""Shares of a range that are tried, evenly from the whole down to 0.4 of it."""
_LEAST = float(np.finfo(np.float32).tiny)


def type_of(kind: Kind) -> ir.DataType:
    """Return the element type of a kind of integers."""
    return ir.DataType[kind.upper()]


@dataclass(frozen=True)
class Grid:
    """Scales and zero points, both of one shape.

    ``scale`` is float32: a scalar, one for each channel, or one for each block of ``block``
    elements along ``axis``. ``zero`` has the stored integer type.
    """

    scale: Array
    zero: Array
    axis: int | None = None
    block: int = 0


def make_grid(
    low: Array | float,
    high: Array | float,
    dtype: ir.DataType,
    *,
    symmetric: bool,
    bits: int | None = None,
) -> Grid:
    """Return the grid that covers ranges.

    If ``symmetric``, 0 is in the middle of the integers. Fewer ``bits`` than those of the type
    leave room for sums.
    """
    low = np.asarray(np.minimum(low, 0), np.float64)
    high = np.asarray(np.maximum(high, 0), np.float64)
    least, most = ends(dtype, bits)
    if symmetric:
        middle = 0 if dtype.is_signed() else (least + most + 1) // 2
        scale = np.maximum(-low, high) / (most - middle)
        zero = np.full(low.shape, middle)
    else:
        scale = (high - low) / (most - least)
        scale = np.where(scale > _LEAST, scale, 1.0)
        zero = np.clip(np.rint(least - low / scale), least, most)
    scale = np.where(scale > _LEAST, scale, 1.0)
    return Grid(scale.astype(np.float32), zero.astype(np.int32).astype(dtype.numpy()))


def ends(dtype: ir.DataType, bits: int | None = None) -> tuple[int, int]:
    """Return the least and the greatest integer of a type, or of some of its bits."""
    least, most = int(dtype.min), int(dtype.max)
    if bits is None:
        return least, most
    shift = dtype.bitwidth - bits
    return -(-least // (1 << shift)), most >> shift


def quantise(array: Array, grid: Grid, dtype: ir.DataType, bits: int | None = None) -> Array:
    """Return integers that represent floats: the nearest ones, ties to even.

    ``array`` is float32, with which scalars or arrays of the grid broadcast when spread. For
    ``bits`` see :func:`make_grid`.
    """
    scale, zero = spread(grid, array.shape)
    # In place: weights may take most of the memory.
    levels = np.array(array, np.float32)
    levels /= scale
    np.rint(levels, out=levels)
    levels += zero
    np.clip(levels, *ends(dtype, bits), out=levels)
    if dtype.bitwidth < 8:  # ml_dtypes cast from integers only as here
        return levels.astype(np.int32).astype(dtype.numpy())
    return levels.astype(dtype.numpy())


def dequantise(levels: Array, grid: Grid) -> Array:
    """Return the floats that integers represent, as DequantizeLinear has them: float32."""
    scale, zero = spread(grid, levels.shape)
    return ((levels.astype(np.float32) - zero) * scale).astype(np.float32)


def spread(grid: Grid, shape: tuple[int, ...]) -> tuple[Array, Array]:
    """Return scale and zero point in shapes that broadcast with an array, as float32."""
    scale, zero = grid.scale, grid.zero.astype(np.float32)
    if grid.axis is None:
        return scale, zero
    if grid.block:
        size = shape[grid.axis]
        return (
            scale.repeat(grid.block, grid.axis).take(range(size), grid.axis),
            zero.repeat(grid.block, grid.axis).take(range(size), grid.axis),
        )
    full = [1] * len(shape)
    full[grid.axis] = shape[grid.axis]
    return scale.reshape(full), zero.reshape(full)


def weight_grid(
    weight: Array,
    dtype: ir.DataType,
    *,
    axis: int | None,
    block: int = 0,
    symmetric: bool = True,
    bits: int | None = None,
) -> Grid:
    """Return the grid of a weight, from its least and greatest elements.

    ``axis`` has scales of its own: that of channels, or the one that blocks of ``block``
    elements divide (0 for channels; the last may be smaller); None for one scale. For
    ``symmetric`` and ``bits`` see :func:`make_grid`.
    """
    if axis is None:
        low, high = weight.min(initial=0.0), weight.max(initial=0.0)
        return make_grid(low, high, dtype, symmetric=symmetric, bits=bits)
    if not block:
        rest = tuple(i for i in range(weight.ndim) if i != axis)
        low, high = weight.min(rest, initial=0.0), weight.max(rest, initial=0.0)
    else:
        starts = np.arange(0, weight.shape[axis], block)
        low = np.minimum.reduceat(weight, starts, axis)
        high = np.maximum.reduceat(weight, starts, axis)
    made = make_grid(low, high, dtype, symmetric=symmetric, bits=bits)
    return Grid(made.scale, made.zero, axis, block)


def fit_grid(weight: Array, dtype: ir.DataType, grid: Grid, *, shrink: bool) -> Grid:
    """Return a grid with other scales where that lessens the squared error.

    Zero points stay. With ``shrink``, smaller scales are tried: both ends of a range shrink by
    the same share. Otherwise the largest element goes to the end of the integers that has one
    more, with a negative scale if need be. ONNX Runtime's symmetric grids are so. ``grid``
    covers the whole range of the float32 weight.
    """
    best, scale = np.full(grid.scale.shape, np.inf), grid.scale.copy()
    if shrink:
        shares = np.linspace(1.0, 0.4, _SHARES, dtype=np.float32)
        candidates = [grid.scale * share for share in shares]
    else:
        candidates = [grid.scale, _longer_end(weight, dtype, grid)]
    for candidate in candidates:
        tried = Grid(candidate, grid.zero, grid.axis, grid.block)
        near = dequantise(quantise(weight, tried, dtype), tried)
        error = _by_scale(np.add, (near - weight).astype(np.float64) ** 2, grid)
        scale = np.where(error < best, tried.scale, scale)
        best = np.minimum(best, error)
    return Grid(scale.astype(np.float32), grid.zero, grid.axis, grid.block)


def _longer_end(weight: Array, dtype: ir.DataType, grid: Grid) -> Array:
    """Return scales of a symmetric grid whose lowest integer is the largest element."""
    low = _by_scale(np.minimum, weight, grid)
    high = _by_scale(np.maximum, weight, grid)
    scale = np.where(high > -low, -high, -low) / float(1 << (dtype.bitwidth - 1))
    return np.where(np.abs(scale) > _LEAST, scale, grid.scale).astype(np.float32)


def _by_scale(combine: np.ufunc, array: Array, grid: Grid) -> Array:
    """Combine the elements that share a scale."""
    if grid.axis is None:
        return np.asarray(combine.reduce(array, axis=None))
    if grid.block:
        starts = np.arange(0, array.shape[grid.axis], grid.block)
        return np.asarray(combine.reduceat(array, starts, grid.axis))
    rest = tuple(i for i in range(array.ndim) if i != grid.axis)
    return np.asarray(combine.reduce(array, axis=rest))


def dequantise_node(node: ir.Node) -> Array | None:
    """Return the result of a DequantizeLinear; None if it is computed or not float32."""
    levels, scale, *rest = (constant_of(value) for value in node.inputs)
    if levels is None or scale is None or scale.dtype is not ir.DataType.FLOAT:
        return None
    if rest and rest[0] is None:
        return None
    array, factors = levels.numpy(), scale.numpy()
    zero = rest[0].numpy() if rest and rest[0] is not None else np.zeros(factors.shape)
    block = node.attributes.get_int("block_size", 0) or 0
    axis = (node.attributes.get_int("axis", 1) or 0) % max(1, array.ndim)
    grid = Grid(factors, zero, axis if factors.ndim else None, block)
    if factors.size == 1 and not block:
        grid = Grid(factors.reshape(()), zero.reshape(()))
    return dequantise(array, grid)


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

    "minmax" takes all there is. "percentile" leaves out the share of elements that
    ``percentile`` does not cover. "entropy" takes the threshold at which the distribution
    loses the least information, "mse" that of the least mean squared error; both after
    onnxruntime's histograms. Values that are not finite are ignored.
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
    """Return the least and greatest finite element of each value, at most and at least 0."""
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


def pack_levels(levels: Array, grid: Grid, bits: int) -> Array:
    """Return integers as MatMulNBits has them: [columns, blocks, bytes], low bits first.

    ``levels`` are [depth, columns], and ``grid`` has blocks along the depth.
    """
    depth, columns = levels.shape
    blocks = len(grid.scale)
    padded: Array = np.zeros((columns, blocks * grid.block), np.uint8)
    padded[:, :depth] = levels.astype(np.uint8).T
    if bits == 4:
        padded = padded[:, ::2] | (padded[:, 1::2] << 4)
    return padded.reshape(columns, blocks, -1)


def pack_zeros(grid: Grid, bits: int) -> Array:
    """Return zero points as MatMulNBits has them: [columns, bytes of all blocks]."""
    zeros = grid.zero.astype(np.uint8).T
    if bits == 8:
        return np.ascontiguousarray(zeros)
    if zeros.shape[1] % 2:
        zeros = np.pad(zeros, ((0, 0), (0, 1)))
    return np.ascontiguousarray(zeros[:, ::2] | (zeros[:, 1::2] << 4))
