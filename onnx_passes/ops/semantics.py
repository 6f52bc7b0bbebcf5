"""The arithmetics in which a graph can be evaluated.

``Semantics`` is their protocol. ``TypedPrimitives`` fixes the type, so that a formula reads as
one.
"""

import abc
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any, TypeAlias

import ml_dtypes
import numpy as np
import onnx_ir as ir

from onnx_passes.arrays import Array

Scalar: TypeAlias = Any
"""A scalar of some arithmetic; opaque to the evaluator."""

Elements: TypeAlias = Array
"""Scalars in an array: of objects, or in an arithmetic's own array type."""

Row: TypeAlias = Sequence[Scalar] | Elements


class Unsupported(Exception):  # noqa: N818 (an outcome of the prover, never shown as an error)
    """A graph has something that this arithmetic or the evaluator has no semantics for."""


class Misfit(Unsupported):
    """The operands of a node do not fit its operator: the node means nothing."""


class Opaque(Unsupported):
    """A node is described, but not here: it is a function of its operands, and no more."""


MALFORMED = (ValueError, IndexError, KeyError, TypeError, OverflowError, ZeroDivisionError)
"""What evaluating a node raises where its operands do not fit it."""


class Semantics(abc.ABC):
    """An arithmetic: literals, variables and primitives over scalars.

    Attributes:
        expands: Whether operators that are compositions over the reals (Sigmoid, Softmax,
            ...) may be expanded; False where the rounding of each step would matter.
        overflows: Whether powers of great numbers are infinite, so that formulas avoid them.
        most: Elements above which a tensor is not worth evaluating.
        defined: Terms evaluated so far that are not defined everywhere, each with the
            condition under which it is.
        facts: Axioms about uninterpreted functions that were applied so far.
    """

    expands: bool = True
    overflows: bool = False
    most: int = 20_000

    def __init__(self) -> None:
        self.defined: list[tuple[Scalar, Scalar]] = []
        self.facts: list[Scalar] = []

    @abc.abstractmethod
    def literal(self, value: bool | float, dtype: ir.DataType) -> Scalar:
        """Return the scalar of a number."""

    @abc.abstractmethod
    def variable(self, name: str, dtype: ir.DataType) -> Scalar:
        """Return an unknown."""

    @abc.abstractmethod
    def number(self, scalar: Scalar, dtype: ir.DataType) -> bool | int | float | None:
        """Return the number that a scalar is, or None where it depends on unknowns."""

    @abc.abstractmethod
    def apply(self, name: str, dtype: ir.DataType, *args: Scalar) -> Scalar:
        """Combine scalars of type ``dtype`` by the primitive ``name``.

        Comparisons return a boolean; ``select`` takes one first. Raises ``Unsupported`` if the
        arithmetic has no such primitive on this type.
        """

    @abc.abstractmethod
    def cast(self, scalar: Scalar, source: ir.DataType, target: ir.DataType) -> Scalar:
        """Convert as the ONNX operator Cast does."""

    @abc.abstractmethod
    def function(self, name: str, dtype: ir.DataType, *args: Scalar) -> Scalar:
        """Apply an uninterpreted function with a result of type ``dtype``."""

    def sizes(self, data: Elements, node: ir.Node, index: int) -> Elements:
        """Return the sizes of an operand, as scalars of type INT64."""
        del node, index  # for an arithmetic that knows names of sizes
        return self.constant(np.array(data.shape, np.int64), ir.DataType.INT64)

    def kernel(
        self, data: Elements, dtype: ir.DataType, size: Callable[[], Elements]
    ) -> Elements:
        """Account for a kernel that is not the formula, wrong relative to ``size``."""
        del dtype, size  # for an arithmetic of errors
        return data

    def extremes(self, dtype: ir.DataType) -> tuple[Scalar | None, Scalar | None]:
        """Return the bounds that Clip takes where none are given; None clips nothing."""
        return None, None

    def constant(self, array: Array, dtype: ir.DataType) -> Elements:
        """Return the scalars of an array of numbers."""
        values = [self.literal(as_number(v), dtype) for v in array.reshape(-1)]
        return scalars(values, array.shape)

    def numbers(self, data: Elements, dtype: ir.DataType) -> Array | None:
        """Return the numbers that scalars are, or None where one depends on unknowns."""
        found = [self.number(s, dtype) for s in data.flat]
        return None if any(n is None for n in found) else np.array(found).reshape(data.shape)

    def map(self, function: Callable[..., Scalar], *arrays: Elements) -> Elements:
        """Apply a function of scalars, element by element, to arrays that broadcast."""
        wide = np.broadcast_arrays(*arrays)
        rows = zip(*(a.reshape(-1) for a in wide), strict=True)
        return scalars([function(*row) for row in rows], wide[0].shape)

    def along(self, function: Callable[..., Scalar], *arrays: Elements) -> Elements:
        """Apply a function of rows of scalars to the rows along the last axes of arrays."""
        shape = np.broadcast_shapes(*(a.shape[:-1] for a in arrays))
        wide = [np.broadcast_to(a, (*shape, a.shape[-1])) for a in arrays]
        values = [
            function(*(a[(*at, slice(None))] for a in wide)) for at in np.ndindex(*shape)
        ]
        return scalars(values, shape)

    def padding(self, value: float, dtype: ir.DataType) -> Scalar:
        """Return what replaces an element that folds pass over, or ``value``."""
        return PADDING

    def fold(self, name: str, dtype: ir.DataType, row: Elements) -> Scalar:
        """Combine the scalars of a row [n], n >= 1, by a primitive from left to right."""
        return reduce(lambda a, b: self.apply(name, dtype, a, b), present(row))

    def total(self, terms: Row, dtype: ir.DataType) -> Scalar:
        """Add up ``terms`` in an order that the engine chooses."""
        found = present(terms)
        if not found:
            return self.literal(0, dtype)
        return reduce(lambda a, b: self.apply("add", dtype, a, b), found)

    def dot(self, left: Row, right: Row, dtype: ir.DataType, *initial: Scalar) -> Scalar:
        """Sum products of pairs, and ``initial``, in an order that the engine chooses."""
        pairs = zip(left, right, strict=True)
        products = [self.apply("mul", dtype, a, b) for a, b in pairs if a is not PADDING]
        return self.total([*products, *initial], dtype)


PADDING = object()
"""Fills rows up to one length where an element is missing."""


def present(row: Row) -> list[Scalar]:
    """Return the scalars of a row without padding."""
    return [scalar for scalar in row if scalar is not PADDING]


def columns(rows: Elements) -> list[Scalar]:
    """Return what lies at each place along the last axis."""
    return list(np.moveaxis(rows, -1, 0))


def scalars(values: Sequence[Scalar], shape: Sequence[int]) -> Elements:
    """Return an array of scalars, one by one, so that numpy never looks into them."""
    data = np.empty(len(values), dtype=np.object_)
    for i, value in enumerate(values):
        data[i] = value
    return data.reshape(tuple(shape))


def is_float(dtype: ir.DataType) -> bool:
    """Whether ``dtype`` is a float type that has infinities."""
    return dtype in (
        ir.DataType.FLOAT16,
        ir.DataType.BFLOAT16,
        ir.DataType.FLOAT,
        ir.DataType.DOUBLE,
    )


def is_integer(dtype: ir.DataType) -> bool:
    """Whether ``dtype`` is an integer type of 4 to 64 bits."""
    return dtype.is_integer()


def as_number(value: Scalar) -> bool | int | float:
    """Return the Python number of an element of a numpy array, ml_dtypes included."""
    if isinstance(value, np.bool_ | bool):
        return bool(value)
    if isinstance(value, np.integer | int):
        return int(value)
    if isinstance(value, ml_dtypes.int4 | ml_dtypes.uint4):
        return int(value)
    return float(value)


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
        return self._dtype

    @property
    def overflows(self) -> bool:
        """Whether powers of great numbers are infinite."""
        return self._semantics.overflows

    def function(self, name: str, *args: Scalar | float) -> Scalar:
        """Apply an uninterpreted function."""
        return self._semantics.function(name, self._dtype, *map(self.scalar, args))

    def fold(self, name: str, row: Elements) -> Scalar:
        """Combine the scalars of a row [n], n >= 1, by a primitive."""
        return self._semantics.fold(name, self._dtype, row)

    def total(self, row: Elements) -> Scalar:
        """Add up the scalars of a row."""
        return self._semantics.total(row, self._dtype)

    def dot(self, left: Elements, right: Elements, *initial: Scalar) -> Scalar:
        """Sum products of the scalars of two rows, and ``initial``."""
        return self._semantics.dot(left, right, self._dtype, *initial)

    def extremes(self) -> tuple[Scalar | None, Scalar | None]:
        """Return the bounds that Clip takes where none are given."""
        return self._semantics.extremes(self._dtype)

    def scalar(self, value: Scalar | float) -> Scalar:
        """Return the scalar of a plain number; a scalar as it is."""
        plain = type(value) in (int, float)
        return self._semantics.literal(value, self._dtype) if plain else value
