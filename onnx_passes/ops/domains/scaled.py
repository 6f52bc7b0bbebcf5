"""Scaled integers: numbers that are a scale times an integer of a range, plus an offset.

After quantizers, values lie on such grids; sums, products and what moves elements keep them.
A number without a known grid has the scale NaN, and its integers say nothing. The
arithmetic is exact: roundings of floats are not in it. (Scaled-integer range analysis, as
published for streaming dataflow accelerators.)
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import numpy as np
import onnx_ir as ir

from onnx_passes.arrays import Array, Numbers
from onnx_passes.ops.domains.concrete import ArraySemantics
from onnx_passes.ops.semantics import Elements, Scalar, Unsupported, columns

_PARTS = ("low", "high", "scale", "offset")
_GRID = np.dtype([(name, np.float64) for name in _PARTS])


def grid(low: Numbers, high: Numbers, scale: Numbers = 1.0, offset: Numbers = 0.0) -> Elements:
    """Return ``scale * n + offset`` with an integer ``n`` from ``low`` to ``high``.

    Args:
        low: Least integers, an array of any shape or a number.
        high: Greatest integers, likewise.
        scale: Distance of two numbers of the grid.
        offset: The number of the integer 0.
    """
    parts = np.broadcast_arrays(low, high, scale, offset)
    found = np.empty(parts[0].shape, _GRID)
    for name, part in zip(_PARTS, parts, strict=True):
        found[name] = part
    return found


def ends(x: Elements) -> tuple[Array, Array]:
    """Return the least and the greatest number; infinite where no grid is known."""
    with np.errstate(invalid="ignore"):
        one, other = (x["scale"] * x[side] + x["offset"] for side in ("low", "high"))
    known = ~np.isnan(x["scale"])
    return (
        np.where(known, np.minimum(one, other), -np.inf),
        np.where(known, np.maximum(one, other), np.inf),
    )


def accumulator_bits(x: Elements) -> int:
    """Return how many bits hold the integers of all elements, with a sign if one is negative.

    Raises:
        Unsupported: No grid is known of an element.
    """
    if np.isnan(x["scale"]).any() or not np.isfinite(x["low"] + x["high"]).all():
        raise Unsupported("the width of numbers that lie on no grid")
    low, high = int(x["low"].min()), int(x["high"].max())
    if low >= 0:
        return max(1, high.bit_length())
    return max(high.bit_length(), (-low - 1).bit_length()) + 1


class ScaledSemantics(ArraySemantics):
    """Grids of numbers; scales of constants are the constants themselves."""

    overflows = False

    def literal(self, value: bool | float, dtype: ir.DataType) -> Scalar:
        return self.constant(np.asarray(value), dtype)

    def constant(self, array: Array, dtype: ir.DataType) -> Elements:
        wide = array.astype(np.float64)
        if dtype.is_integer() or dtype == ir.DataType.BOOL:
            return grid(wide, wide)
        ones = np.sign(wide)
        return grid(ones, ones, np.where(wide == 0, 1.0, np.abs(wide)))

    def number(self, scalar: Scalar, dtype: ir.DataType) -> bool | int | float | None:
        low, high = ends(scalar)
        return float(low) if low == high else None

    def numbers(self, data: Elements, dtype: ir.DataType) -> Array | None:
        low, high = ends(data)
        return low.astype(dtype.numpy()) if bool((low == high).all()) else None

    def apply(self, name: str, dtype: ir.DataType, *args: Scalar) -> Scalar:
        match name, *args:
            case "add", x, y:
                return _sum(x, y)
            case "sub", x, y:
                return _sum(x, _negative(y))
            case "neg", x:
                return _negative(x)
            case "mul", x, y:
                return _product(x, y)
            case "div", x, y if _is_constant(y):
                (value, _) = ends(y)
                return grid(x["low"], x["high"], x["scale"] / value, x["offset"] / value)
            case "round", x:
                low, high = ends(x)
                return grid(np.rint(low), np.rint(high))
            case ("floor" | "ceil") as which, x:
                function = np.floor if which == "floor" else np.ceil
                return grid(*(function(end) for end in ends(x)))
            case "relu", x:
                return _clipped(x, 0.0, np.inf)
            case "clip", x, a, b:
                least: Numbers = -np.inf if a is None else ends(a)[0]
                return _clipped(x, least, np.inf if b is None else ends(b)[1])
        if dtype == ir.DataType.BOOL or name in ("less", "less_equal", "equal"):
            return grid(0.0, 1.0)
        shape = np.broadcast_shapes(*(np.shape(a) for a in args if a is not None))
        return grid(np.zeros(shape), 0.0, np.nan)

    def cast(self, scalar: Scalar, source: ir.DataType, target: ir.DataType) -> Scalar:
        if target == ir.DataType.BOOL:
            return grid(np.zeros(scalar.shape), 1.0)
        if target.is_integer() and not source.is_integer():
            low, high = (np.trunc(end) for end in ends(scalar))
            with np.errstate(invalid="ignore"):
                whole = (scalar["scale"] % 1 == 0) & (scalar["offset"] % 1 == 0)
            kept = grid(low, high)
            return np.where(whole, scalar, kept)
        return scalar

    def sum_along(self, terms: Elements, dtype: ir.DataType) -> Elements:
        return np.asarray(reduce(_sum, columns(terms)))

    def dot(
        self,
        left: Sequence[Scalar] | Elements,
        right: Sequence[Scalar] | Elements,
        dtype: ir.DataType,
        *initial: Scalar,
    ) -> Scalar:
        products = _product(np.asarray(left), np.asarray(right))
        return reduce(_sum, [*columns(products), *initial])


def _is_constant(x: Elements) -> bool:
    low, high = ends(x)
    return bool(np.all((low == high) & (low != 0)))


def _negative(x: Elements) -> Elements:
    return grid(-x["high"], -x["low"], x["scale"], -x["offset"])


def _sum(x: Elements, y: Elements) -> Elements:
    """Add two grids; one number alone moves the other grid, as long as it is not on it."""
    x, y = np.broadcast_arrays(x, y)
    single = [(z["low"] == z["high"]) & ~np.isnan(z["scale"]) for z in (x, y)]
    moved = [grid(z["low"], z["high"], z["scale"], z["offset"]) for z in (x, y)]
    for one, other, alone in ((0, 1, single[0]), (1, 0, single[1])):
        number = ends((x, y)[one])[0]
        with np.errstate(invalid="ignore", divide="ignore"):
            steps = number / (x, y)[other]["scale"]
            fits = alone & (steps % 1 == 0) & ~single[1 - one]
        # On the other's grid it counts as integers, elsewhere it is an offset.
        as_steps = grid(steps, steps, (x, y)[other]["scale"])
        as_offset = grid(0.0, 0.0, (x, y)[other]["scale"], number)
        placed = np.where(fits, as_steps, as_offset)
        moved[one] = np.where(alone & ~single[1 - one], placed, moved[one])
    a, b = moved
    with np.errstate(invalid="ignore", divide="ignore"):
        finer, ratio = np.minimum(a["scale"], b["scale"]), a["scale"] / b["scale"]
        whole = np.where(ratio >= 1, ratio, 1 / ratio)
    steps_a, steps_b = a["scale"] / finer, b["scale"] / finer
    scale = np.where(np.abs(whole - np.rint(whole)) < 1e-12, finer, np.nan)
    return grid(
        a["low"] * np.rint(steps_a) + b["low"] * np.rint(steps_b),
        a["high"] * np.rint(steps_a) + b["high"] * np.rint(steps_b),
        scale,
        a["offset"] + b["offset"],
    )


def _product(x: Elements, y: Elements) -> Elements:
    """Multiply two grids: without offsets, or by one number."""
    x, y = np.broadcast_arrays(x, y)
    pairs = [x[a] * y[b] for a in ("low", "high") for b in ("low", "high")]
    low, high = np.minimum.reduce(pairs), np.maximum.reduce(pairs)
    plain = (x["offset"] == 0) & (y["offset"] == 0)
    found = grid(low, high, np.where(plain, x["scale"] * y["scale"], np.nan))
    for one, other in ((x, y), (y, x)):
        number, same = ends(other)
        alone = (number == same) & ~plain
        flip = number < 0
        with np.errstate(invalid="ignore"):
            scaled = grid(
                np.where(flip, -one["high"], one["low"]),
                np.where(flip, -one["low"], one["high"]),
                one["scale"] * np.abs(number),
                one["offset"] * number,
            )
        found = np.where(alone, scaled, found)
    return found


def _clipped(x: Elements, low: object, high: object) -> Elements:
    """Keep a grid between bounds; a bound that lies beside the grid leaves none."""
    least, most = ends(x)
    with np.errstate(invalid="ignore", divide="ignore"):
        bounds = [(bound - x["offset"]) / x["scale"] for bound in (low, high)]
        on_grid = [
            np.isinf(b) | (b % 1 == 0) | inside
            for b, inside in zip(bounds, (least >= low, most <= high), strict=True)
        ]
    scale = np.where(on_grid[0] & on_grid[1], x["scale"], np.nan)
    first, last = np.ceil(bounds[0]), np.floor(bounds[1])
    least, most = (np.clip(x[side], first, last) for side in ("low", "high"))
    return grid(least, most, scale, x["offset"])
