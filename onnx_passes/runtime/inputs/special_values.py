"""Special values in place of ordinary ones."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import onnx_ir as ir

from onnx_passes.arrays import Array, float_limits
from onnx_passes.ops.input_hints import ValueHint

Span = tuple[float, float]

_ONE_IN = 16
_OFFSET = 0.4
_FLOATS = {
    "zeros": 0.0,
    "NaN": float("nan"),
    "Inf": float("inf"),
    "-Inf": float("-inf"),
    "-0": -0.0,
}


def variants(
    array: Array, hint: ValueHint, span: Span | None, *, steers: bool
) -> Iterator[tuple[str, Array]]:
    """Yield arrays of the same type and shape with special values, and what to call them.

    Args:
        array: An ordinary value of the input, of any shape and type.
        hint: What the graph says about its values.
        span: The range that the user gave; nothing outside of it is yielded.
        steers: Whether values beyond what the hint allows are not safe.
    """
    if not array.size or hint.exact is not None or hint.distinct is not None:
        return
    if array.dtype.kind in "OSUT":
        if not hint.words:
            yield "empty strings", np.full_like(array, "")
        return
    dtype = ir.DataType.from_numpy(array.dtype)
    if dtype == ir.DataType.BOOL:
        if span is None and not steers:
            yield "true", np.ones_like(array)
            yield "false", np.zeros_like(array)
    elif dtype.is_integer():
        yield from _integers(array, dtype, hint, span, steers=steers)
    elif not steers:
        yield from _floats(array, dtype, span)


def _integers(
    array: Array, dtype: ir.DataType, hint: ValueHint, span: Span | None, *, steers: bool
) -> Iterator[tuple[str, Array]]:
    low, high = int(dtype.min), int(dtype.max)
    if span is not None:
        low, high = int(np.ceil(span[0])), int(np.floor(span[1]))
    elif hint.bounded:
        ordinary = array.astype(np.int64)
        low = int(ordinary.min()) if hint.low is None else int(np.ceil(np.max(hint.low)))
        high = int(ordinary.max()) if hint.high is None else int(np.floor(np.min(hint.high)))
    elif steers:
        return
    if low > high:
        return
    if low <= 0 <= high and not hint.nonzero:
        yield "zeros", np.zeros_like(array)
    if not (hint.nonzero and 0 in (low, high)):
        yield (
            "extremes",
            _alternating(array, dtype.numpy().type(low), dtype.numpy().type(high)),
        )


def _floats(
    array: Array, dtype: ir.DataType, span: Span | None
) -> Iterator[tuple[str, Array]]:
    low, high = span or (-np.inf, np.inf)
    real = array.real if array.dtype.kind == "c" else array
    info = float_limits(real.dtype)
    for kind, value in _FLOATS.items():
        special = np.asarray(value).astype(real.dtype)
        if not _is(special, kind) or (span is not None and not low <= value <= high):
            continue
        whole = kind in ("zeros", "-0")
        yield kind, np.full_like(array, special) if whole else _scattered(array, special)
    least = max(float(info.min), low)
    most = min(float(info.max), high)
    yield "extremes", _alternating(array, real.dtype.type(least), real.dtype.type(most))
    tiny = real.dtype.type(info.smallest_subnormal)
    if low <= tiny <= high:
        other = -tiny if low <= -tiny else tiny
        yield "denormals", _alternating(array, tiny, other)
    # A mean far greater than the spread, and small enough that no honest sum loses the spread.
    offset = (array + real.dtype.type(2.0 ** round(_OFFSET * info.nmant))).astype(array.dtype)
    wide = offset.real.astype(np.float64)
    if low <= wide.min() and wide.max() <= high:
        yield "big mean", offset


def _is(special: Array, kind: str) -> bool:
    """Whether the type has the value at all."""
    wide = special.astype(np.float64)
    match kind:
        case "NaN":
            return bool(np.isnan(wide))
        case "Inf" | "-Inf":
            return bool(np.isinf(wide))
    return bool(wide == 0 and np.signbit(wide) == (kind == "-0"))


def _alternating(array: Array, one: object, other: object) -> Array:
    found = np.full_like(array, one)
    found.reshape(-1)[1::2] = other
    return found


def _scattered(array: Array, special: object) -> Array:
    # One infinity reaches everything that a sum over it goes into: the rest shall still show.
    found = np.array(array)
    found.reshape(-1)[::_ONE_IN] = special
    return found
