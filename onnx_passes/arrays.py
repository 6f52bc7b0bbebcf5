"""Types of arrays, whose elements may be of any type."""

from __future__ import annotations

import mmap
from typing import Any, Protocol, TypeAlias

import ml_dtypes
import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[Any]
"""An array of any shape and element type."""

DType: TypeAlias = np.dtype[Any]
"""An element type of numpy."""

Numbers: TypeAlias = Array | float
"""An array of any shape, or one number."""


class FloatLimits(Protocol):
    """The limits of a float type, as ``numpy.finfo`` names them."""

    eps: float
    max: float
    maxexp: int
    min: float
    nmant: int
    smallest_subnormal: float
    tiny: float


def float_limits(dtype: DType) -> FloatLimits:
    """Return the limits of a float type of numpy or ml_dtypes, whose own has no types."""
    limits: Any = ml_dtypes.finfo
    found: FloatLimits = limits(dtype)
    return found


def release_pages(held: object) -> None:
    """Free the memory of a file that is mapped, by itself or as an array.

    Pages that were read count as memory used. They are read again where they are needed.
    """
    while isinstance(held, np.ndarray | memoryview):
        held = held.base if isinstance(held, np.ndarray) else held.obj
    if isinstance(held, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
        held.madvise(mmap.MADV_DONTNEED)
