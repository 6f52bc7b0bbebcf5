"""Integer types of ONNX, and the quantisers whose levels they hold."""

from __future__ import annotations

from dataclasses import dataclass

import onnx_ir as ir

from onnx_passes.arrays import Array

_SIGNED = {2: ir.DataType.INT2, 4: ir.DataType.INT4, 8: ir.DataType.INT8}
_UNSIGNED = {2: ir.DataType.UINT2, 4: ir.DataType.UINT4, 8: ir.DataType.UINT8}
NARROW = frozenset(t for types in (_SIGNED, _UNSIGNED) for b, t in types.items() if b < 8)
"""Integer types of less than 8 bits."""

_SINCE = {2: 25, 4: 21, 8: 10}
"""Opsets from which QuantizeLinear has integers with this number of bits."""

PER_CHANNEL = 13
"""Opset from which QuantizeLinear has a scale for each channel."""


@dataclass(frozen=True)
class Levels:
    """Integers from one to another.

    Attributes:
        low: The least.
        high: The greatest.
    """

    low: int
    high: int

    def dtype(self, opset: int, *, narrow: bool) -> ir.DataType | None:
        """Return a type of ONNX that holds them, the smallest that the opset has.

        Args:
            opset: Version of the standard domain.
            narrow: Whether types of less than 8 bits are taken, if they hold nothing else.
        """
        types = _SIGNED if self.low < 0 else _UNSIGNED
        for bits, dtype in types.items():
            ends = range_of(dtype)
            fits = ends == self if bits < 8 else ends.low <= self.low <= self.high <= ends.high
            if fits and opset >= _SINCE[bits] and (narrow or bits == 8):
                return dtype
        return None

    def form(self) -> tuple[int, bool, bool] | None:
        """Return bits, and whether they are signed and narrow; None for other bounds."""
        signed = self.low < 0
        if signed:
            bits = (self.high + 1).bit_length()
            least, narrow = -(1 << (bits - 1)), self.low != -(1 << (bits - 1))
            fits = self.high == -least - 1 and self.low == least + narrow
        else:
            bits = (self.high + 1).bit_length() - (self.high & (self.high + 1) == 0)
            narrow = self.high != (1 << bits) - 1
            fits = self.low == 0 and self.high == (1 << bits) - 1 - narrow
        return (bits, signed, narrow) if fits and 2 <= bits <= 8 else None


def range_of(dtype: ir.DataType) -> Levels:
    """Return the levels of an integer type."""
    return Levels(int(dtype.min), int(dtype.max))


def is_integer_type(dtype: ir.DataType | None) -> bool:
    """Whether quantisers here make integers of a type."""
    return dtype in _SIGNED.values() or dtype in _UNSIGNED.values()


def axis_of(array: Array, rank: int | None) -> int | None:
    """Return the one axis along which a constant differs; None if that is not so.

    Args:
        array: The constant, of more than one element.
        rank: Rank of the value that it is broadcast with; None where it is not known.
    """
    if rank is None or array.ndim > rank:
        return None
    axes = [rank - array.ndim + place for place, size in enumerate(array.shape) if size != 1]
    return axes[0] if len(axes) == 1 else None
