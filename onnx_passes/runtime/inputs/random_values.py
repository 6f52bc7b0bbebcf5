"""Random values of every element type."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import onnx_ir as ir

from onnx_passes.ops.input_hints import Bound, ValueHint
from onnx_passes.runtime.engine_base import Array

WORDS = ("alpha", "Beta", "gamma delta", "", "1.5", "Ωmega", "zeta")
"""Strings that differ in case, blanks, digits and alphabets."""

_MODERATE = {True: (-10, 10), False: (0, 20)}
_INTEGER_SPREAD = 20
_FLOAT_SPREAD = 2.0
_PIECE = 1 << 20


def draw(
    dtype: ir.DataType,
    shape: tuple[int, ...],
    hint: ValueHint,
    rng: np.random.Generator,
    turn: int = 0,
) -> Array:
    """Draw a tensor.

    Args:
        dtype: Its element type.
        shape: Its shape; a hint for one exact value overrides it.
        hint: What its values must satisfy.
        rng: Where randomness comes from.
        turn: Single booleans are true where it is even, so that samples take both branches.

    Returns:
        Floats from a standard normal or uniform between the bounds; integers uniform between
        the bounds, of moderate size where there are none; words; booleans.
    """
    if hint.exact is not None:
        return _exact(hint.exact, dtype, shape)
    if dtype == ir.DataType.STRING:
        words = np.asarray(hint.words or WORDS, object)
        return np.asarray(words[rng.integers(0, len(words), shape)], object).reshape(shape)
    if dtype == ir.DataType.BOOL and math.prod(shape) == 1:
        return np.full(shape, turn % 2 == 0)

    def make(part: tuple[int, ...]) -> Array:
        if dtype == ir.DataType.BOOL:
            return rng.integers(0, 2, part)
        if dtype.is_integer():
            return _integers(dtype, part, hint, rng)
        if dtype in (ir.DataType.COMPLEX64, ir.DataType.COMPLEX128):
            pair = rng.standard_normal((2, *part))
            return np.asarray(pair[0] + 1j * pair[1])
        return _floats(part, hint, rng)

    laid_out = isinstance(hint.low, np.ndarray) or isinstance(hint.high, np.ndarray)
    if laid_out or hint.distinct is not None:
        return make(shape).astype(dtype.numpy())
    return _narrow(make, shape, dtype)


def uniform(
    dtype: ir.DataType,
    shape: tuple[int, ...],
    low: float,
    high: float,
    rng: np.random.Generator,
) -> Array:
    """Draw a numeric tensor uniform in a range that the user gave; integers inclusive.

    Args:
        dtype: Element type of the tensor.
        shape: Its shape.
        low: The least value.
        high: The greatest value.
        rng: Draws the values.
    """

    def make(part: tuple[int, ...]) -> Array:
        if dtype.is_integer() or dtype == ir.DataType.BOOL:
            return rng.integers(int(low), int(high), part, endpoint=True)
        return np.asarray(rng.uniform(low, high, part))

    return _narrow(make, shape, dtype)


def _narrow(
    make: Callable[[tuple[int, ...]], Array], shape: tuple[int, ...], dtype: ir.DataType
) -> Array:
    """Convert what is drawn; of a large tensor in pieces, so that it is never held wide."""
    size = math.prod(shape)
    if size <= _PIECE:
        return np.asarray(make(shape)).astype(dtype.numpy())
    found = np.empty(size, dtype.numpy())
    for start in range(0, size, _PIECE):
        part = found[start : start + _PIECE]
        part[:] = make(part.shape)
    return found.reshape(shape)


def _exact(exact: Array, dtype: ir.DataType, shape: tuple[int, ...]) -> Array:
    values = exact.astype(dtype.numpy())
    if values.size == int(np.prod(shape)):
        return values.reshape(shape)
    return np.full(shape, values) if values.size == 1 else values


def _integers(
    dtype: ir.DataType, shape: tuple[int, ...], hint: ValueHint, rng: np.random.Generator
) -> Array:
    least, most = (int(bound) for bound in (dtype.min, dtype.max))
    if dtype.bitwidth > 8:
        least, most = _MODERATE[least < 0]
    low, high = _bounds(hint, shape, least, most, _INTEGER_SPREAD)
    low, high = np.ceil(low).astype(np.int64), np.floor(high).astype(np.int64)
    high = np.maximum(low, high)
    if (
        hint.distinct is not None
        and (drawn := _distinct(low, high, shape, hint.distinct, rng)) is not None
    ):
        return drawn
    values = np.asarray(rng.integers(low, high, shape, endpoint=True))
    if hint.nonzero:
        values = np.where(values == 0, np.maximum(high, 1), values)
    return values


def _distinct(
    low: Array, high: Array, shape: tuple[int, ...], axis: int, rng: np.random.Generator
) -> Array | None:
    first, count = int(low.max()), int(high.min()) - int(low.max()) + 1
    if not shape or not -len(shape) <= axis < len(shape) or shape[axis] > count:
        return None
    full = list(shape)
    full[axis] = count
    orders = rng.permuted(np.broadcast_to(_along(count, axis, len(shape)), full), axis=axis)
    return first + np.take(orders, range(shape[axis]), axis)


def _along(count: int, axis: int, rank: int) -> Array:
    shape = [1] * rank
    shape[axis] = count
    return np.arange(count).reshape(shape)


def _floats(shape: tuple[int, ...], hint: ValueHint, rng: np.random.Generator) -> Array:
    if hint.bounded:
        low, high = _bounds(hint, shape, -np.inf, np.inf, _FLOAT_SPREAD)
        values = np.asarray(rng.uniform(low, high, shape))
    else:
        values = np.asarray(rng.standard_normal(shape))
    if hint.nonzero:
        values = np.where(np.abs(values) < 0.1, values + np.copysign(0.5, values), values)
    return values


def _bounds(
    hint: ValueHint, shape: tuple[int, ...], least: float, most: float, spread: float
) -> tuple[Array, Array]:
    low, high = _fitting(hint.low, shape, np.maximum), _fitting(hint.high, shape, np.minimum)
    if low is None and high is None:
        return np.asarray(least), np.asarray(most)
    if low is None:
        assert high is not None
        low = np.maximum(high - spread, least) if least <= high.min() else high
    elif high is None:
        high = np.minimum(low + spread, most) if most >= low.max() else low
    return low, high


def _fitting(bound: Bound, shape: tuple[int, ...], strictest: np.ufunc) -> Array | None:
    if bound is None:
        return None
    array = np.asarray(bound, np.float64)
    try:
        np.broadcast_to(array, shape)
    except ValueError:  # the bound is for a layout that the value lost on the way
        return np.asarray(strictest.reduce(array, axis=None))
    return array
