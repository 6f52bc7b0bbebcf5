"""The arithmetics that a graph can be evaluated in, one scalar at a time.

The evaluator of ``symbolic.py`` moves scalars about and combines them by named primitives; it
does not know what a scalar is. ``Arithmetic`` classes do: z3 terms over booleans and
bit-vectors (here), reals (``reals.py``), IEEE floats (``ieee.py``), or numbers of a finite
field (``field.py``).
"""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import Any, TypeAlias

import ml_dtypes
import numpy as np
import onnx_ir as ir

from onnx_passes.verify.rules.solver import z3

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


class Z3Semantics(Semantics):
    """Booleans as z3 Bool and integers as bit-vectors; floats are left to subclasses."""

    def literal(self, value: bool | float, dtype: ir.DataType) -> Scalar:
        if dtype == ir.DataType.BOOL:
            return z3().BoolVal(bool(value))
        if is_integer(dtype):
            return z3().BitVecVal(int(value), dtype.bitwidth)
        if is_float(dtype):
            return self.float_literal(float(value), dtype)
        raise Unsupported(f"values of type {dtype.name}")

    def variable(self, name: str, dtype: ir.DataType) -> Scalar:
        return z3().Const(name, self.sort(dtype))

    def sort(self, dtype: ir.DataType) -> Any:
        """Return the z3 sort of a type."""
        if dtype == ir.DataType.BOOL:
            return z3().BoolSort()
        if is_integer(dtype):
            return z3().BitVecSort(dtype.bitwidth)
        if is_float(dtype):
            return self.float_sort(dtype)
        raise Unsupported(f"values of type {dtype.name}")

    def number(self, scalar: Scalar, dtype: ir.DataType) -> bool | int | float | None:
        solver = z3()
        scalar = solver.simplify(scalar)
        if solver.is_true(scalar) or solver.is_false(scalar):
            return bool(solver.is_true(scalar))
        if solver.is_bv_value(scalar):
            signed = dtype.is_signed()
            return int(scalar.as_signed_long() if signed else scalar.as_long())
        if is_float(dtype):
            return self.float_number(scalar)
        return None

    def function(self, name: str, dtype: ir.DataType, *args: Scalar) -> Scalar:
        solver = z3()
        sorts = [*(a.sort() for a in args), self.sort(dtype)]
        return solver.Function(f"{name}:{len(args)}", *sorts)(*args)

    def apply(self, name: str, dtype: ir.DataType, *args: Scalar) -> Scalar:
        if name == "select":
            return z3().If(*args)
        if dtype == ir.DataType.BOOL:
            return self.on_booleans(name, *args)
        if is_integer(dtype):
            return self.on_integers(name, dtype.is_signed(), *args)
        if is_float(dtype):
            return self.on_floats(name, dtype, *args)
        raise Unsupported(f"{name} on {dtype.name}")

    def on_booleans(self, name: str, *args: Scalar) -> Scalar:
        """Apply a primitive to booleans."""
        solver = z3()
        match name:
            case "and":
                return solver.And(*args)
            case "or":
                return solver.Or(*args)
            case "xor":
                return solver.Xor(*args)
            case "not":
                return solver.Not(*args)
            case "equal":
                return args[0] == args[1]
        raise Unsupported(f"{name} on booleans")

    def on_integers(self, name: str, signed: bool, *args: Scalar) -> Scalar:
        """Apply a primitive to bit-vectors; arithmetic is modulo 2^n."""
        result = _integer_arithmetic(name, signed, args)
        if result is None:
            result = _integer_order(name, signed, args)
        if result is None:
            raise Unsupported(f"{name} on integers")
        if name in ("div", "mod", "fmod"):
            self._defined_division(result, signed, *args)
        return result

    def _defined_division(self, result: Scalar, signed: bool, x: Scalar, y: Scalar) -> None:
        solver = z3()
        zero = solver.BitVecVal(0, x.size())
        self.defined.append((result, y != zero))
        if signed:
            least = solver.BitVecVal(1 << (x.size() - 1), x.size())
            minus_one = solver.BitVecVal(-1, x.size())
            overflows = solver.And(x == least, y == minus_one)
            self.defined.append((result, solver.Not(overflows)))

    def cast(self, scalar: Scalar, source: ir.DataType, target: ir.DataType) -> Scalar:
        solver = z3()
        if source == target:
            return scalar
        if is_float(source) or is_float(target):
            return self.float_cast(scalar, source, target)
        if target == ir.DataType.BOOL:
            return scalar != self.literal(0, source)
        if source == ir.DataType.BOOL:
            return solver.If(scalar, self.literal(1, target), self.literal(0, target))
        more = target.bitwidth - source.bitwidth
        if more <= 0:
            return solver.Extract(target.bitwidth - 1, 0, scalar) if more else scalar
        extend = solver.SignExt if source.is_signed() else solver.ZeroExt
        return extend(more, scalar)

    @abc.abstractmethod
    def float_literal(self, value: float, dtype: ir.DataType) -> Scalar:
        """Return the scalar of a float."""

    @abc.abstractmethod
    def float_sort(self, dtype: ir.DataType) -> Any:
        """Return the z3 sort that stands for a float type."""

    @abc.abstractmethod
    def float_number(self, scalar: Scalar) -> float | None:
        """Return the float that a simplified term is."""

    @abc.abstractmethod
    def on_floats(self, name: str, dtype: ir.DataType, *args: Scalar) -> Scalar:
        """Apply a primitive to floats."""

    @abc.abstractmethod
    def float_cast(self, scalar: Scalar, source: ir.DataType, target: ir.DataType) -> Scalar:
        """Convert from or to a float type."""


def _integer_arithmetic(name: str, signed: bool, args: Sequence[Scalar]) -> Scalar | None:
    solver = z3()
    match name, *args:
        case "add", x, y:
            return x + y
        case "sub", x, y:
            return x - y
        case "mul", x, y:
            return x * y
        case "neg", x:
            return -x
        case "div", x, y:
            # z3's / on bit-vectors is the signed division that truncates, as ONNX asks.
            return x / y if signed else solver.UDiv(x, y)
        case "mod", x, y:
            # Mod takes the sign of the divisor, Mod with fmod=1 that of the dividend.
            return x % y if signed else solver.URem(x, y)
        case "fmod", x, y:
            return solver.SRem(x, y) if signed else solver.URem(x, y)
        case "bit_and", x, y:
            return x & y
        case "bit_or", x, y:
            return x | y
        case "bit_xor", x, y:
            return x ^ y
        case "bit_not", x:
            return ~x
        case "shift_left", x, y:
            # Both shifts give 0 beyond the width in z3 and in ONNX Runtime.
            return x << y
        case "shift_right", x, y:
            return solver.LShR(x, y)
    return None


def _integer_order(name: str, signed: bool, args: Sequence[Scalar]) -> Scalar | None:
    solver = z3()

    def less(x: Scalar, y: Scalar) -> Scalar:
        return x < y if signed else solver.ULT(x, y)

    match name, *args:
        case "equal", x, y:
            return x == y
        case "less", x, y:
            return less(x, y)
        case "less_equal", x, y:
            return solver.Not(less(y, x))
        case "max", x, y:
            return solver.If(less(x, y), y, x)
        case "min", x, y:
            return solver.If(less(y, x), y, x)
        case "clip", x, low, high:
            # Where the bounds cross, the upper one wins.
            raised = x if low is None else solver.If(less(x, low), low, x)
            return raised if high is None else solver.If(less(high, raised), high, raised)
        case "abs", x:
            return solver.If(less(x, x - x), -x, x) if signed else x
        case "sign", x:
            zero, one = solver.BitVecVal(0, x.size()), solver.BitVecVal(1, x.size())
            positive = solver.If(x == zero, zero, one)
            return solver.If(less(x, zero), -one, positive) if signed else positive
        case (("floor" | "ceil" | "round"), x):
            return x
    return None
