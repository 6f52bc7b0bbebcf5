"""Interval arithmetic through the operators of ONNX.

An interval holds every element of a value that is not NaN. Ends are computed in double
precision and moved outwards by what the value's type may round, so that the interval holds of
what engines compute.
"""

from __future__ import annotations

import math
from typing import Any, TypeAlias

import numpy as np
import onnx_ir as ir

from onnx_passes.passes._support.tensors import constant_of

Interval: TypeAlias = tuple[float, float]
Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]
UNBOUNDED: Interval = (-math.inf, math.inf)

EPSILON = {
    ir.DataType.DOUBLE: 2.0**-52,
    ir.DataType.FLOAT: 2.0**-23,
    ir.DataType.FLOAT16: 2.0**-10,
    ir.DataType.BFLOAT16: 2.0**-7,
}
_GREATEST_EXACT = 2.0**53
ULPS = 8
"""By how many units in the last place functions of engines may be wrong."""


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


def product(a: float, b: float) -> float:
    return 0.0 if 0.0 in (a, b) else a * b


def multiplied(a: Interval, b: Interval) -> Interval:
    ends = [product(x, y) for x in a for y in b]
    # An infinite element times 0 is NaN; a finite one of an unbounded interval is 0.
    return min(ends), max(ends)


def square(a: Interval) -> Interval:
    ends = [product(x, x) for x in a]
    return (0.0 if a[0] <= 0 <= a[1] else min(ends)), max(ends)


class Known:
    """What is known of the values so far."""

    def __init__(self, found: dict[ir.Value, Interval]) -> None:
        """Look up values in ``found``, which grows while rules are applied."""
        self.found = found

    def of(self, value: ir.Value | None) -> Interval:
        """Return what is known of a value."""
        if value is None:
            return UNBOUNDED
        if value in self.found:
            return self.found[value]
        tensor = constant_of(value)
        if tensor is None or tensor.dtype is ir.DataType.STRING:
            return of_type(value.dtype)
        return of_array(tensor.numpy())


def fitted(found: Interval, dtype: ir.DataType, *, computed: bool = True) -> Interval:
    """Return what an interval becomes in a type: integers wrap around, floats overflow.

    Args:
        found: The interval.
        dtype: The type.
        computed: Whether its ends were computed, in doubles: great integers are none.
    """
    limits = of_type(dtype)
    if limits != UNBOUNDED:
        if computed and max(abs(found[0]), abs(found[1])) > _GREATEST_EXACT:
            return limits
        inside = limits[0] <= found[0] and found[1] <= limits[1]
        return found if inside else limits
    if dtype in EPSILON:
        greatest = float(dtype.max)
        return (
            found[0] if found[0] >= -greatest else -math.inf,
            found[1] if found[1] <= greatest else math.inf,
        )
    return UNBOUNDED


def widened(node: ir.Node, found: Interval, size: float | None = None) -> Interval:
    """Move the ends outwards by the error of an operator; integers are exact.

    Args:
        node: Its first output's type is what rounds.
        found: The exact interval.
        size: What the error is relative to; the ends if it is not given.
    """
    epsilon = EPSILON.get(node.outputs[0].dtype or ir.DataType.UNDEFINED)
    if epsilon is None:
        return found
    low, high = found
    error_low = ULPS * epsilon * (abs(low) if size is None else size)
    error_high = ULPS * epsilon * (abs(high) if size is None else size)
    return _moved_by(low, -error_low), _moved_by(high, error_high)


def _moved_by(end: float, error: float) -> float:
    tiny = math.copysign(float(np.finfo(np.float32).tiny), error)
    return end if math.isinf(end) else end + error + tiny
