"""How many scalar operations a formula takes.

A scalar is an array of the shape of what is computed, and holds nothing. A product and a sum
count as one each, as does a function such as exp; what moves, chooses or converts elements
counts nothing. A sum of some terms counts as many as there are.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from onnx_passes.arrays import Array
from onnx_passes.ops.domains.concrete import ArraySemantics
from onnx_passes.ops.semantics import Elements, Scalar

_NOTHING = np.zeros((), np.uint8)


def blank(shape: Sequence[int]) -> Elements:
    """Return an array of a shape that takes no memory."""
    return np.broadcast_to(_NOTHING, tuple(shape))


class CountingSemantics(ArraySemantics):
    """Shapes alone.

    Attributes:
        count: Operations so far.
    """

    def __init__(self) -> None:
        """Start at no operation."""
        super().__init__()
        self.count = 0

    def literal(self, value: bool | float, dtype: ir.DataType) -> Scalar:
        return _NOTHING

    def constant(self, array: Array, dtype: ir.DataType) -> Elements:
        return blank(array.shape)

    def number(self, scalar: Scalar, dtype: ir.DataType) -> None:
        return None

    def numbers(self, data: Elements, dtype: ir.DataType) -> None:
        return None

    def cast(self, scalar: Scalar, source: ir.DataType, target: ir.DataType) -> Scalar:
        return scalar

    def apply(self, name: str, dtype: ir.DataType, *args: Scalar) -> Scalar:
        given = [a for a in args if a is not None]
        shape = np.broadcast_shapes(*(np.shape(a) for a in given))
        operations = {"select": 0, "clip": len(given) - 1}.get(name, 1)
        self.count += operations * math.prod(shape)
        return blank(shape)

    def fold(self, name: str, dtype: ir.DataType, row: Elements) -> Scalar:
        return self.sum_along(row, dtype)

    def sum_along(self, terms: Elements, dtype: ir.DataType) -> Elements:
        self.count += terms.size
        return blank(terms.shape[:-1])

    def dot(
        self,
        left: Sequence[Scalar] | Elements,
        right: Sequence[Scalar] | Elements,
        dtype: ir.DataType,
        *initial: Scalar,
    ) -> Scalar:
        shape = np.broadcast_shapes(np.shape(left), np.shape(right))
        self.count += 2 * math.prod(shape) + len(initial) * math.prod(shape[:-1])
        return blank(shape[:-1])
