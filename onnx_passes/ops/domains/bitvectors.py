"""Booleans, integers modulo 2^n and IEEE 754 floats, as the solver z3 has them.

z3 is imported on first use.
"""

import abc
import functools
import importlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import onnx_ir as ir

from onnx_passes.errors import UsageError
from onnx_passes.ops.semantics import (
    PADDING,
    Row,
    Scalar,
    Semantics,
    Unsupported,
    is_float,
    is_integer,
    present,
)

Term: TypeAlias = Any
"""A term, sort, solver or model of z3, which has no types."""


@functools.cache
def z3() -> Term:
    """Return the z3 module; raise ``UsageError`` if it is not installed."""
    try:
        return importlib.import_module("z3")
    except ImportError:
        raise UsageError(
            "proving a rewrite rule needs the z3 solver, which is not installed",
            help="in a checkout: pip install '.[prove]'",
        ) from None


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

    def sort(self, dtype: ir.DataType) -> Term:
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
    def float_sort(self, dtype: ir.DataType) -> Term:
        """Return the z3 sort that represents a float type."""

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
        case "relu", x:
            return solver.If(less(x, x - x), x - x, x) if signed else x
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


@dataclass(frozen=True, slots=True)
class FloatFormat:
    """A binary float format, in bits; the hidden one of the significand counts."""

    name: str
    exponent: int
    significand: int


FLOAT16 = FloatFormat("float16", 5, 11)
FORMATS = {
    ir.DataType.FLOAT16: FLOAT16,
    ir.DataType.BFLOAT16: FloatFormat("bfloat16", 8, 8),
    ir.DataType.FLOAT: FloatFormat("float32", 8, 24),
    ir.DataType.DOUBLE: FloatFormat("float64", 11, 53),
}


class IeeeSemantics(Z3Semantics):
    """z3 floats, rounded to nearest even after every primitive.

    Facts of ONNX Runtime's CPU kernels that the standard leaves open: Max and Min return NaN
    if either side is NaN, and either of two zeros that differ in sign. Clip ignores a bound
    that is NaN, keeps an input that is, and takes the greatest finite number for a bound that
    is missing. Relu keeps NaN and -0. Sums of more than two terms, and dot products, are
    functions of their ordered operands, because the order of summation is the kernel's own.
    """

    expands = False

    def __init__(self, narrow: FloatFormat | None = None) -> None:
        """Evaluate every float type in ``narrow``, or each in its own format."""
        super().__init__()
        self._narrow = narrow

    def format(self, dtype: ir.DataType) -> FloatFormat:
        """Return the format that represents a float type."""
        return self._narrow or FORMATS[dtype]

    def float_sort(self, dtype: ir.DataType) -> Term:
        form = self.format(dtype)
        return z3().FPSort(form.exponent, form.significand)

    def float_literal(self, value: float, dtype: ir.DataType) -> Scalar:
        return z3().FPVal(value, self.float_sort(dtype))

    def float_number(self, scalar: Scalar) -> float | None:
        solver = z3()
        if not solver.is_fp_value(scalar):
            return None
        if scalar.isNaN():
            return math.nan
        if scalar.isInf():
            return -math.inf if scalar.isNegative() else math.inf
        if scalar.isZero():
            return -0.0 if scalar.isNegative() else 0.0
        exact = solver.simplify(solver.fpToReal(scalar)).as_fraction()
        return float(exact)

    def on_floats(self, name: str, dtype: ir.DataType, *args: Scalar) -> Scalar:
        result = _arithmetic(name, args)
        if result is None:
            result = _comparison(name, args)
        if result is None:
            result = self._selection(name, dtype, args)
        if result is not None:
            return result
        if name == "pow":
            return self._power(dtype, *args)
        # Transcendental, or a remainder: nothing is known but that it is a function.
        return self.function(name, dtype, *args)

    def extremes(self, dtype: ir.DataType) -> tuple[Scalar | None, Scalar | None]:
        if not is_float(dtype):
            return None, None
        # ONNX Runtime clips to the greatest finite number, so that infinities do not pass.
        form = self.format(dtype)
        top = float(
            (2 - 2.0 ** (1 - form.significand)) * 2.0 ** (2 ** (form.exponent - 1) - 1)
        )
        return self.float_literal(-top, dtype), self.float_literal(top, dtype)

    def _selection(self, name: str, dtype: ir.DataType, args: tuple[Scalar, ...]) -> Scalar:
        solver = z3()
        zero = self.float_literal(0.0, dtype)
        match name, *args:
            case (("max" | "min"), x, y):
                # Which of two zeros of unlike sign is returned depends on the kernel's
                # vector width, so that only a function of both is assumed.
                tie = self.function("tie", ir.DataType.BOOL, x, y)
                chosen = solver.If(tie, x, y)
                above = (x > y, y > x) if name == "max" else (x < y, y < x)
                ordered = solver.If(above[0], x, solver.If(above[1], y, chosen))
                nan = solver.If(solver.fpIsNaN(y), y, ordered)
                return solver.If(solver.fpIsNaN(x), x, nan)
            case "relu", x:
                return solver.If(x < zero, zero, x)
            case "clip", x, low, high:
                raised = solver.If(x < low, low, x)
                return solver.If(raised > high, high, raised)
            case "sign", x:
                one = self.float_literal(1.0, dtype)
                nonzero = solver.If(x < zero, -one, solver.If(x > zero, one, zero))
                return solver.If(solver.fpIsNaN(x), x, nonzero)
        return None

    def _power(self, dtype: ir.DataType, x: Scalar, y: Scalar) -> Scalar:
        # ONNX Runtime multiplies for the exponents 2 and 3, and calls pow otherwise.
        exponent = self.number(y, dtype)
        nearest = z3().RNE()
        if exponent == 2:
            return z3().fpMul(nearest, x, x)
        if exponent == 3:
            return z3().fpMul(nearest, z3().fpMul(nearest, x, x), x)
        return self.function("Pow", dtype, x, y)

    def total(self, terms: Row, dtype: ir.DataType) -> Scalar:
        found = present(terms)
        if not is_float(dtype) or len(found) <= 2:
            return super().total(found, dtype)
        return self.function("Sum", dtype, *found)

    def dot(self, left: Row, right: Row, dtype: ir.DataType, *initial: Scalar) -> Scalar:
        pairs = [(a, b) for a, b in zip(left, right, strict=True) if a is not PADDING]
        if not is_float(dtype) or len(pairs) + len(initial) <= 1:
            return super().dot(left, right, dtype, *initial)
        # A fused multiply-add may round once where two primitives round twice.
        flat = [scalar for pair in pairs for scalar in _ordered(*pair)]
        return self.function(f"Dot{len(initial)}", dtype, *flat, *initial)

    def float_cast(self, scalar: Scalar, source: ir.DataType, target: ir.DataType) -> Scalar:
        solver, nearest = z3(), z3().RNE()
        if is_float(source) and is_float(target):
            return solver.fpToFP(nearest, scalar, self.float_sort(target))
        if target == ir.DataType.BOOL:
            return solver.Not(solver.fpIsZero(scalar))
        if source == ir.DataType.BOOL:
            one, zero = (self.float_literal(v, target) for v in (1.0, 0.0))
            return solver.If(scalar, one, zero)
        if is_float(source):
            convert = solver.fpToSBV if target.is_signed() else solver.fpToUBV
            width = solver.BitVecSort(target.bitwidth)
            return convert(solver.RTZ(), scalar, width)
        convert = solver.fpSignedToFP if source.is_signed() else solver.fpUnsignedToFP
        return convert(nearest, scalar, self.float_sort(target))


def _arithmetic(name: str, args: tuple[Scalar, ...]) -> Scalar | None:
    solver, nearest = z3(), z3().RNE()
    match name, *args:
        case "add", x, y:
            return solver.fpAdd(nearest, *_ordered(x, y))
        case "sub", x, y:
            return solver.fpSub(nearest, x, y)
        case "mul", x, y:
            return solver.fpMul(nearest, *_ordered(x, y))
        case "div", x, y:
            return solver.fpDiv(nearest, x, y)
        case "neg", x:
            return solver.fpNeg(x)
        case "abs", x:
            return solver.fpAbs(x)
        case "sqrt", x:
            return solver.fpSqrt(nearest, x)
        case "floor", x:
            return solver.fpRoundToIntegral(solver.RTN(), x)
        case "ceil", x:
            return solver.fpRoundToIntegral(solver.RTP(), x)
        case "round", x:
            return solver.fpRoundToIntegral(nearest, x)
    return None


def _ordered(x: Scalar, y: Scalar) -> tuple[Scalar, Scalar]:
    """Order the operands of a commutative primitive, so that z3 sees one term, not two.

    IEEE addition and multiplication commute bit for bit, NaN payloads aside.
    """
    return (x, y) if x.get_id() <= y.get_id() else (y, x)


def _comparison(name: str, args: tuple[Scalar, ...]) -> Scalar | None:
    solver = z3()
    match name, *args:
        case "equal", x, y:
            return solver.fpEQ(x, y)
        case "less", x, y:
            return x < y
        case "less_equal", x, y:
            return x <= y
        case "is_nan", x:
            return solver.fpIsNaN(x)
        case "is_inf", x:
            return solver.fpIsInf(x)
        case "is_inf_positive", x:
            return solver.And(solver.fpIsInf(x), solver.fpIsPositive(x))
        case "is_inf_negative", x:
            return solver.And(solver.fpIsInf(x), solver.fpIsNegative(x))
    return None
