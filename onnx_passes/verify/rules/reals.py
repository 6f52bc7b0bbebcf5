"""Floats as real numbers: no rounding, no infinities, no NaN."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import onnx_ir as ir

from onnx_passes.verify.rules.arithmetic import Scalar, Unsupported
from onnx_passes.verify.rules.bitvectors import Z3Semantics
from onnx_passes.verify.rules.solver import z3


class RealSemantics(Z3Semantics):
    """z3 reals; transcendental functions are uninterpreted.

    A term is *defined* where every divisor is not zero, every root and logarithm is of a
    number in its domain. Two graphs are equal when the second is defined and equal wherever
    the first is defined.
    """

    def __init__(self, *, near_roots: bool = False) -> None:
        """Work exactly, or, with ``near_roots``, with roots of numbers to 40 digits.

        The latter makes formulas linear in which a root of a constant divides; it is for
        claims of being close alone.
        """
        super().__init__()
        self._near_roots = near_roots

    def float_sort(self, dtype: ir.DataType) -> Any:
        return z3().RealSort()

    def float_literal(self, value: float, dtype: ir.DataType) -> Scalar:
        if not math.isfinite(value):
            raise Unsupported(f"the constant {value} over the reals")
        # The stored float is exact; 0.1 in a model is the number the float holds.
        exact = Fraction(value)
        return z3().RealVal(f"{exact.numerator}/{exact.denominator}")

    def float_number(self, scalar: Scalar) -> float | None:
        if not z3().is_rational_value(scalar):
            return None
        return float(scalar.as_fraction())

    def on_floats(self, name: str, dtype: ir.DataType, *args: Scalar) -> Scalar:
        result = _ring(name, args)
        if result is None:
            result = _order(name, args)
        if result is None:
            result = _rounding(name, args)
        if result is None:
            result = self._partial(name, dtype, args)
        if result is None:
            raise Unsupported(f"{name} over the reals")
        return result

    def _partial(self, name: str, dtype: ir.DataType, args: tuple[Scalar, ...]) -> Scalar:
        zero = z3().RealVal(0)
        match name, *args:
            case "div", x, y:
                self.defined.append((x / y, y != zero))
                return x / y
            case "sqrt", x:
                if self._near_roots and (near := _near_root(x)) is not None:
                    return near
                root = self.function("Sqrt", dtype, x)
                self.defined.append((root, x >= zero))
                self.facts.append(z3().Implies(x >= zero, root >= zero))
                self.facts.append(z3().Implies(x >= zero, root * root == x))
                return root
            case "log", x:
                logarithm = self.function("Log", dtype, x)
                self.defined.append((logarithm, x > zero))
                return logarithm
            case "exp", x:
                power = self.function("Exp", dtype, x)
                self.facts.append(power > zero)
                self.facts.append(self.function("Exp", dtype, zero) == z3().RealVal(1))
                return power
            case "pow", x, y:
                return self._power(dtype, x, y)
            case (("fmod" | "mod"), x, y):
                remainder = self.function(name, dtype, x, y)
                self.defined.append((remainder, y != zero))
                return remainder
        return None

    def _power(self, dtype: ir.DataType, x: Scalar, y: Scalar) -> Scalar:
        exponent = self.number(y, dtype)
        if exponent == 0.5:
            return self.apply("sqrt", dtype, x)
        if exponent == -0.5:
            return self.apply("div", dtype, z3().RealVal(1), self.apply("sqrt", dtype, x))
        if exponent is not None and float(exponent).is_integer() and abs(exponent) <= 8:
            result = z3().RealVal(1)
            for _ in range(abs(int(exponent))):
                result = result * x
            if exponent >= 0:
                return result
            return self.apply("div", dtype, z3().RealVal(1), result)
        # Defined for every exponent where the base is positive; elsewhere it depends.
        power = self.function("Pow", dtype, x, y)
        self.defined.append((power, x > z3().RealVal(0)))
        return power

    def float_cast(self, scalar: Scalar, source: ir.DataType, target: ir.DataType) -> Scalar:
        floats = (source.is_floating_point(), target.is_floating_point())
        if floats == (True, True):
            return scalar
        if target == ir.DataType.BOOL:
            return scalar != z3().RealVal(0)
        if source == ir.DataType.BOOL:
            return z3().If(scalar, z3().RealVal(1), z3().RealVal(0))
        known = self.number(scalar, source)
        if known is not None:
            return self.literal(math.trunc(known) if floats[0] else known, target)
        # Mixing z3's integers and bit-vectors is hopeless in practice, so that conversions
        # of unknowns are functions of which only congruence is known.
        return self.function(f"Cast_{source.name}_{target.name}", target, scalar)


def _ring(name: str, args: tuple[Scalar, ...]) -> Scalar | None:
    match name, *args:
        case "add", x, y:
            return x + y
        case "sub", x, y:
            return x - y
        case "mul", x, y:
            return x * y
        case "neg", x:
            return -x
    return None


def _order(name: str, args: tuple[Scalar, ...]) -> Scalar | None:
    solver = z3()
    zero, one = solver.RealVal(0), solver.RealVal(1)
    match name, *args:
        case "equal", x, y:
            return x == y
        case "less", x, y:
            return x < y
        case "less_equal", x, y:
            return x <= y
        case "max", x, y:
            return solver.If(x < y, y, x)
        case "min", x, y:
            return solver.If(y < x, y, x)
        case "relu", x:
            return solver.If(x < zero, zero, x)
        case "clip", x, low, high:
            raised = x if low is None else solver.If(x < low, low, x)
            return raised if high is None else solver.If(high < raised, high, raised)
        case "abs", x:
            return solver.If(x < zero, -x, x)
        case "sign", x:
            return solver.If(x < zero, -one, solver.If(x == zero, zero, one))
        case (("is_nan" | "is_inf" | "is_inf_positive" | "is_inf_negative"), _):
            return solver.BoolVal(False)
    return None


def _rounding(name: str, args: tuple[Scalar, ...]) -> Scalar | None:
    solver = z3()
    match name, *args:
        case "floor", x:
            return solver.ToReal(solver.ToInt(x))
        case "ceil", x:
            return -solver.ToReal(solver.ToInt(-x))
        case "round", x:
            half_up = solver.ToInt(x + solver.RealVal("1/2"))
            tie = solver.ToReal(half_up) == x + solver.RealVal("1/2")
            odd = half_up % 2 != 0
            return solver.ToReal(solver.If(solver.And(tie, odd), half_up - 1, half_up))
    return None


def _near_root(x: Scalar) -> Scalar | None:
    """Return the root of a number that is not negative, to 40 digits."""
    number = z3().simplify(x)
    if not z3().is_rational_value(number) or number.as_fraction() < 0:
        return None
    scale = 10**40
    root = math.isqrt(int(number.as_fraction() * scale * scale))
    return z3().RealVal(f"{root}/{scale}")
