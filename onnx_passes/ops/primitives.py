"""Primitives of an arithmetic on one type, so that a formula reads as one."""

from __future__ import annotations

from collections.abc import Callable

import onnx_ir as ir

from onnx_passes.ops.semantics import Elements, Scalar, Semantics


class TypedPrimitives:
    """Primitives of an arithmetic on one type, so that a formula reads as one."""

    def __init__(self, semantics: Semantics, dtype: ir.DataType) -> None:
        """Apply primitives of ``semantics`` on ``dtype``."""
        self._semantics, self._dtype = semantics, dtype

    def __getattr__(self, name: str) -> Callable[..., Scalar]:
        """Return the primitive ``name``, which takes scalars and numbers alike."""

        def apply(*args: Scalar | float) -> Scalar:
            return self._semantics.apply(name, self._dtype, *map(self.scalar, args))

        return apply

    @property
    def dtype(self) -> ir.DataType:
        """The type."""
        return self._dtype

    @property
    def overflows(self) -> bool:
        """Whether powers of great numbers are infinite."""
        return self._semantics.overflows

    def function(self, name: str, *args: Scalar | float) -> Scalar:
        """Apply an uninterpreted function."""
        return self._semantics.function(name, self._dtype, *map(self.scalar, args))

    def fold(self, name: str, row: Elements) -> Scalar:
        """Combine the scalars of a row by a primitive.

        Args:
            name: The primitive.
            row: Elements of shape [n], with n from 1.
        """
        return self._semantics.fold(name, self._dtype, row)

    def total(self, row: Elements) -> Scalar:
        """Add up the scalars of a row."""
        return self._semantics.total(row, self._dtype)

    def dot(self, left: Elements, right: Elements, *initial: Scalar) -> Scalar:
        """Sum products of the scalars of two rows, and ``initial``.

        Args:
            left: Elements of shape [n].
            right: Elements of shape [n].
            *initial: Further terms of the sum.
        """
        return self._semantics.dot(left, right, self._dtype, *initial)

    def extremes(self) -> tuple[Scalar | None, Scalar | None]:
        """Return the bounds that Clip takes where none are given."""
        return self._semantics.extremes(self._dtype)

    def scalar(self, value: Scalar | float) -> Scalar:
        """Return the scalar of a plain number; a scalar as it is."""
        plain = type(value) in (int, float)
        return self._semantics.literal(value, self._dtype) if plain else value
