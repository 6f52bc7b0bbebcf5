"""Intervals as pairs of doubles, and what values of a type or an array lie in."""

from __future__ import annotations

import math
from typing import TypeAlias

import numpy as np
import onnx_ir as ir

from onnx_passes.arrays import Array, Numbers, float_limits
from onnx_passes.ops.semantics import Elements, is_float

Interval: TypeAlias = tuple[float, float]


UNBOUNDED: Interval = (-math.inf, math.inf)


ULPS = 8
"""By how many units in the last place functions of engines may be wrong."""


_GREATEST_EXACT = 2.0**53


_PAIR = np.dtype([("low", np.float64), ("high", np.float64)])


def of_type(dtype: ir.DataType | None) -> Interval:
    """Return what every value of a type lies in."""
    if dtype is ir.DataType.BOOL:
        return 0.0, 1.0
    if dtype is not None and dtype.is_integer():
        return float(dtype.min), float(dtype.max)
    return UNBOUNDED


def of_array(array: Array) -> Interval:
    """Return the hull of the elements that are not NaN."""
    if array.dtype.kind not in "biufV" or not array.size:
        return UNBOUNDED
    numbers = array.astype(np.float64)
    numbers = numbers[~np.isnan(numbers)]
    if not numbers.size:
        return UNBOUNDED
    low, high = float(numbers.min()), float(numbers.max())
    if array.dtype.kind in "iu" and max(abs(low), abs(high)) > _GREATEST_EXACT:
        return math.nextafter(low, -math.inf), math.nextafter(high, math.inf)
    return low, high


def hull(*intervals: Interval) -> Interval:
    """Return the least interval that holds all of these."""
    return min(low for low, _ in intervals), max(high for _, high in intervals)


def pair(low: Numbers, high: Numbers) -> Elements:
    """Return an array of intervals.

    Args:
        low: Lower ends, an array of any shape or a number.
        high: Upper ends, of a shape that broadcasts with ``low``.
    """
    found = np.empty(np.broadcast_shapes(np.shape(low), np.shape(high)), _PAIR)
    found["low"], found["high"] = low, high
    return found


def resolution(dtype: ir.DataType) -> float:
    """Return the distance from 1 to the next number of a type; 0 for what is exact."""
    return float(float_limits(dtype.numpy()).eps) if is_float(dtype) else 0.0


def fitted(
    low: Numbers, high: Numbers, dtype: ir.DataType, *, computed: bool = True
) -> Elements:
    """Return what intervals become in a type: integers wrap around, floats overflow.

    Args:
        low: The lower ends.
        high: The upper ends.
        dtype: The type.
        computed: Whether ends were computed, in doubles, which great integers are not.
    """
    limits = of_type(dtype)
    if limits != UNBOUNDED:
        great = computed & (np.maximum(np.abs(low), np.abs(high)) > _GREATEST_EXACT)
        outside = great | (low < limits[0]) | (high > limits[1])
        return pair(np.where(outside, limits[0], low), np.where(outside, limits[1], high))
    if not is_float(dtype):
        return pair(np.full(np.shape(low), -np.inf), np.full(np.shape(high), np.inf))
    greatest = float(dtype.max)
    return pair(
        np.where(low < -greatest, -np.inf, low), np.where(high > greatest, np.inf, high)
    )
