"""What arrays are made of, and how to walk big ones in bounded memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, TypeAlias

import numpy as np

from onnx_passes.arrays import Array, DType

Kind: TypeAlias = Literal["float", "complex", "int", "bool", "string", "other"]

BLOCK = 1 << 16
"""Elements looked at together: 512 KiB as float64, so that the temporaries stay in cache."""

_KINDS: dict[str, Kind] = {
    "b": "bool",
    "c": "complex",
    "f": "float",
    "i": "int",
    "u": "int",
    "O": "string",
    "S": "string",
    "T": "string",
    "U": "string",
    "W": "complex",
}


def kind_of(dtype: DType) -> Kind:
    """Classify a dtype, those of ``ml_dtypes`` included, which numpy calls void."""
    if dtype.kind in _KINDS:
        return _KINDS[dtype.kind]
    if dtype.name.startswith(("float", "bfloat")):
        return "float"
    return "int" if dtype.name.startswith(("int", "uint")) else "other"


def dtype_name(dtype: DType) -> str:
    """Name a dtype as a user knows it: byte order left out, all text types ``string``."""
    return "string" if kind_of(dtype) == "string" else dtype.name


def shape_text(shape: tuple[int, ...]) -> str:
    """Write a shape as ONNX does: ``[2,3]``."""
    return f"[{','.join(map(str, shape))}]"


def blocks(*arrays: Array, size: int = BLOCK) -> Iterator[tuple[int, tuple[Array, ...]]]:
    """Walk arrays of one shape together, in C order.

    Args:
        arrays: Arrays of equal shape, of any layout; none is copied as a whole.
        size: Elements per block.

    Yields:
        The flat index of the first element, and a rank-1 block of each array.
    """
    flat = [a.reshape(-1) if a.flags.c_contiguous else a.flat for a in arrays]
    for start in range(0, arrays[0].size, size):
        yield start, tuple(np.asarray(f[start : start + size]) for f in flat)


def widen(block: Array) -> Array:
    """Return the elements as float64, or complex128; exact for all but 64-bit integers."""
    return block.astype(
        np.complex128 if kind_of(block.dtype) == "complex" else np.float64, copy=False
    )
