"""The arithmetics that a graph can be evaluated in, one scalar at a time.

The evaluator of ``evaluation.py`` moves scalars about and combines them by named primitives.
It does not know what a scalar is: the classes in ``domains`` do, which know no operator.
"""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import Any, TypeAlias

import ml_dtypes
import numpy as np
import onnx_ir as ir

Scalar: TypeAlias = Any
"""A scalar of some arithmetic; opaque to the evaluator."""


class Unsupported(Exception):  # noqa: N818 (an outcome of the prover, never shown as an error)
    """A graph has something that this arithmetic or the evaluator has no semantics for."""


MALFORMED = (ValueError, IndexError, KeyError, TypeError, OverflowError, ZeroDivisionError)
"""What evaluating a node raises where its operands do not fit it."""


class Semantics(abc.ABC):
    """An arithmetic: literals, variables and primitives over scalars.

    Attributes:
        expands: Whether operators that are compositions over the reals (Sigmoid, Softmax,
            ...) may be expanded; False where the rounding of each step would matter.
        defined: Terms evaluated so far that are not defined everywhere, each with the
            condition under which it is.
        facts: Axioms about uninterpreted functions that were applied so far.
    """

    expands: bool = True

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

        Comparisons return a boolean; ``select`` takes one first.

        Raises:
            Unsupported: The arithmetic has no such primitive on this type.
        """

    @abc.abstractmethod
    def cast(self, scalar: Scalar, source: ir.DataType, target: ir.DataType) -> Scalar:
        """Convert as the ONNX operator Cast does."""

    @abc.abstractmethod
    def function(self, name: str, dtype: ir.DataType, *args: Scalar) -> Scalar:
        """Apply an uninterpreted function with a result of type ``dtype``."""

    def extremes(self, dtype: ir.DataType) -> tuple[Scalar | None, Scalar | None]:
        """Return the bounds that Clip takes where none are given; None clips nothing."""
        return None, None

    def total(self, terms: Sequence[Scalar], dtype: ir.DataType) -> Scalar:
        """Add up ``terms`` in an order that the engine chooses."""
        if not terms:
            return self.literal(0, dtype)
        result = terms[0]
        for term in terms[1:]:
            result = self.apply("add", dtype, result, term)
        return result

    def dot(
        self, pairs: Sequence[tuple[Scalar, Scalar]], dtype: ir.DataType, *initial: Scalar
    ) -> Scalar:
        """Sum the products of ``pairs``, and ``initial``, in an order the engine chooses."""
        products = [self.apply("mul", dtype, a, b) for a, b in pairs]
        return self.total([*products, *initial], dtype)


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


def as_number(value: Any) -> bool | int | float:
    """Return the Python number of an element of a numpy array, ml_dtypes included."""
    if isinstance(value, np.bool_ | bool):
        return bool(value)
    if isinstance(value, np.integer | int):
        return int(value)
    if isinstance(value, ml_dtypes.int4 | ml_dtypes.uint4):
        return int(value)
    return float(value)
