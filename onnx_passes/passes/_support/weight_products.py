"""Products of weights and factors, a block of numbers at a time."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal

import numpy as np
import onnx_ir as ir

from onnx_passes.arrays import Array
from onnx_passes.contracts.scores import BLOCK
from onnx_passes.passes._support.matches import narrowed


def multiplied(
    array: Array,
    *factors: Array,
    dtype: ir.DataType,
    narrow: Callable[[Array, ir.DataType], Array | None] = narrowed,
) -> Array | None:
    """Multiply floats by factors in double precision; None where ``narrow`` returns None.

    A block of numbers is widened at a time: all of them in double precision take two to four
    times the memory of large weights.

    Args:
        array: Numbers of any shape, of type ``dtype``.
        factors: What they are multiplied by, of shapes that broadcast to that of ``array``.
        dtype: The type of the result.
        narrow: Returns an array of double precision in that type.
    """
    found = np.empty(array.shape, array.dtype)
    access: list[list[Literal["readonly", "writeonly"]]]
    access = [["readonly"] for _ in (array, *factors)]
    types = [np.float64 for _ in access]
    walk = np.nditer(
        (array, *factors, found),
        ["external_loop", "buffered", "zerosize_ok"],
        [*access, ["writeonly"]],
        [*types, found.dtype],
        buffersize=BLOCK,
    )
    with walk, np.errstate(all="ignore"):
        for first, *rest, part in walk:
            small = narrow(math.prod(rest, start=first), dtype)
            if small is None:
                return None
            part[...] = small
    return found
