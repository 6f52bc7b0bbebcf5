"""Grids of integers that represent floats: scales, zero points and rounding."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import onnx_ir as ir

from onnx_passes.arrays import Array

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

    Attributes:
        scale: float32; a scalar, one for each channel, or one for each block.
        zero: Integers of the type that is stored.
        axis: The axis of channels or blocks; None for a scalar.
        block: Elements in a block along the axis; 0 without blocks.
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

    Args:
        low: Least values, float; of any shape.
        high: Greatest values, of that shape.
        dtype: The type of the integers.
        symmetric: Whether 0 is in the middle of the integers.
        bits: How many bits of the integers are used, less than all to leave room for sums.
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
    """Return the least and the greatest integer of a type, or of some of its bits.

    Args:
        dtype: The type.
        bits: How many of its bits count; None for all.
    """
    least, most = int(dtype.min), int(dtype.max)
    if bits is None:
        return least, most
    shift = dtype.bitwidth - bits
    return -(-least // (1 << shift)), most >> shift


def quantise(array: Array, grid: Grid, dtype: ir.DataType, bits: int | None = None) -> Array:
    """Return integers that represent floats: the nearest ones, ties to even.

    Args:
        array: float32.
        grid: Of scalars, or of arrays that broadcast with ``array`` when spread.
        dtype: The type of the integers.
        bits: As for :func:`make_grid`.
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
    """Return the floats that integers represent, as DequantizeLinear has them: float32.

    Args:
        levels: Integers of any shape.
        grid: Their grid.
    """
    scale, zero = spread(grid, levels.shape)
    return ((levels.astype(np.float32) - zero) * scale).astype(np.float32)


def spread(grid: Grid, shape: tuple[int, ...]) -> tuple[Array, Array]:
    """Return scale and zero point in shapes that broadcast with an array, as float32.

    Args:
        grid: The grid.
        shape: Shape of the array.
    """
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

    Args:
        weight: float32.
        dtype: The type of the integers.
        axis: The axis that has scales of its own: of channels, or the one that blocks divide;
            None for one scale.
        block: Elements of a block along the axis; 0 for channels. The last may be smaller.
        symmetric: Whether 0 is in the middle of the integers.
        bits: As for :func:`make_grid`.
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


def fit_grid(weight: Array, dtype: ir.DataType, grid: Grid) -> Grid:
    """Return a grid whose scales are smaller where that lessens the squared error.

    Zero points stay: both ends of a range shrink by the same share.

    Args:
        weight: float32.
        dtype: The type of the integers.
        grid: Of the whole range.
    """
    best, scale = np.full(grid.scale.shape, np.inf), grid.scale.copy()
    for share in np.linspace(1.0, 0.4, _SHARES, dtype=np.float32):
        tried = Grid(grid.scale * share, grid.zero, grid.axis, grid.block)
        near = dequantise(quantise(weight, tried, dtype), tried)
        error = _sum_by_scale((near - weight).astype(np.float64) ** 2, grid)
        scale = np.where(error < best, tried.scale, scale)
        best = np.minimum(best, error)
    return Grid(scale.astype(np.float32), grid.zero, grid.axis, grid.block)


def _sum_by_scale(error: Array, grid: Grid) -> Array:
    """Sum over the elements that share a scale."""
    if grid.axis is None:
        return np.asarray(error.sum())
    if grid.block:
        starts = np.arange(0, error.shape[grid.axis], grid.block)
        return np.asarray(np.add.reduceat(error, starts, grid.axis))
    rest = tuple(i for i in range(error.ndim) if i != grid.axis)
    return np.asarray(error.sum(rest))
