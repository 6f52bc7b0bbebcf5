"""What is known of shape arithmetic while some dimensions are dynamic.

``Shape`` of ``[N, 3]`` is known in half: its first element is whatever ``N`` is, its second
is 3. The operators of shape arithmetic carry that along.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

MAX_ELEMENTS = 256

Size = tuple[str, object]
"""A dynamic dimension, at least 0: its name, or the value and axis it belongs to.

Or what is computed of such, which may be negative: see ``sizes``.
"""

Element = int | Size | None
"""An element of a shape: its value, the dimension it is, or unknown."""

INTEGERS = (ir.DataType.INT64, ir.DataType.INT32)

RANGES = {
    ir.DataType.INT64: (-(1 << 63), (1 << 63) - 1),
    ir.DataType.INT32: (-(1 << 31), (1 << 31) - 1),
    ir.DataType.BOOL: (0, 1),
}


@dataclass(frozen=True)
class KnownTensor:
    """What is known of an integer or boolean tensor of rank 0 or 1.

    Attributes:
        elements: Its elements; one for rank 0.
        rank: 0 or 1.
        dtype: Its element type.
    """

    elements: tuple[Element, ...]
    rank: int
    dtype: ir.DataType

    @property
    def numbers(self) -> list[int] | None:
        """The elements, if every one is a number."""
        found = [e for e in self.elements if isinstance(e, int)]
        return found if len(found) == len(self.elements) else None

    def tensor(self) -> ir.TensorProtocol | None:
        """Return the tensor, if every element is a number."""
        numbers = self.numbers
        if numbers is None:
            return None
        array = np.array(numbers, dtype=self.dtype.numpy())
        return ir.Tensor(array.reshape(()) if self.rank == 0 else array)


def dimension(value: ir.Value, axis: int) -> Element:
    """Return one dimension of a value whose rank is known.

    Args:
        value: The value.
        axis: Number of the dimension.
    """
    assert value.shape is not None, "the rank is known"
    dim = value.shape[axis]
    if isinstance(dim, int):
        return dim
    return ("name", dim.value) if dim.value is not None else ("axis", (value, axis))
