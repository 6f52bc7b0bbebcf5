"""Floats as IEEE 754 says, with NaN, infinities and signed zeros, as ONNX Runtime computes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import onnx_ir as ir

from onnx_passes.ops.domains.bitvectors import Z3Semantics
from onnx_passes.ops.domains.z3_module import Term, z3
from onnx_passes.ops.semantics import PADDING, Elements, Scalar, is_float, present


@dataclass(frozen=True, slots=True)
class FloatFormat:
    """A binary float format.

    Attributes:
        name: As numpy calls it.
        exponent: Bits of the exponent.
        significand: Bits of the significand, the hidden one included.
    """

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

    def total(self, terms: Sequence[Scalar] | Elements, dtype: ir.DataType) -> Scalar:
        found = present(terms)
        if not is_float(dtype) or len(found) <= 2:
            return super().total(found, dtype)
        return self.function("Sum", dtype, *found)

    def dot(
        self,
        left: Sequence[Scalar] | Elements,
        right: Sequence[Scalar] | Elements,
        dtype: ir.DataType,
        *initial: Scalar,
    ) -> Scalar:
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
