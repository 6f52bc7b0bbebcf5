"""Change a value by as much as another one differs from it, and say how far two are apart."""

from __future__ import annotations

import numpy as np

from onnx_passes.arrays import DType
from onnx_passes.contracts.elements import kind_of, widen
from onnx_passes.runtime.engine_base import Array, Data


def disturb(old: Array, new: Array, seed: int, sign: int) -> Array:
    """Return a value changed by as much as another one differs from it, in another direction.

    Args:
        old: The value, of any shape and type.
        new: The one that differs; of another type or shape, all elements are changed a little.
        seed: Of the signs.
        sign: 1, or -1 for the opposite direction.
    """
    kind = kind_of(old.dtype)
    if kind == "bool":
        return ~old if new.shape != old.shape else np.where(old == new, old, ~old)
    if kind not in ("float", "int"):
        return old
    wide = widen(old) if kind == "float" else old.astype(np.float64)
    signs = np.random.default_rng(seed).choice([-1.0, 1.0], old.shape) * sign
    with np.errstate(all="ignore"):
        if new.shape == old.shape and new.dtype == old.dtype:
            size = np.abs((widen(new) if kind == "float" else new.astype(np.float64)) - wide)
            size = np.where(
                np.isfinite(size), size, np.where(np.isfinite(wide), np.abs(wide), 0)
            )
        else:
            finite = np.where(np.isfinite(wide), np.abs(wide), 0.0)
            size = np.full(old.shape, 0.05 * float(finite.max(initial=0.0)) or 0.05)
        # What is infinite stays: NaN in its place would be seen behind whatever ignores it.
        moved = np.where(np.isfinite(wide), wide + signs * size, wide)
        if kind == "int":
            moved = np.clip(np.rint(moved), *_range(old.dtype))
        result: Array = np.asarray(moved).astype(old.dtype).reshape(old.shape)
    return result


def _range(dtype: DType) -> tuple[float, float]:
    info = np.iinfo(dtype)
    return float(info.min), float(info.max)


def distance(one: Data, other: Data, *, finite: bool = False) -> float:
    """Return the largest difference of two values; infinite for another shape or type.

    Args:
        one: A value.
        other: The one that is held against it.
        finite: Whether elements that are NaN or infinite on one side alone do not count.
    """
    if not (isinstance(one, np.ndarray) and isinstance(other, np.ndarray)):
        return 0.0
    if one.shape != other.shape or one.dtype != other.dtype:
        return float("inf")
    if kind_of(one.dtype) not in ("float", "int"):
        return float(np.any(one != other))
    with np.errstate(all="ignore"):
        a, b = (
            widen(x) if kind_of(x.dtype) == "float" else x.astype(np.float64)
            for x in (one, other)
        )
        both = np.isfinite(a) & np.isfinite(b)
        if not finite and ((a != b) & ~both & ~(np.isnan(a) & np.isnan(b))).any():
            return float("inf")
        return float(np.abs(a - b)[both].max(initial=0.0))
