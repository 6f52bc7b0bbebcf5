"""Floats as real numbers: no rounding, no infinities, no NaN."""

from __future__ import annotations

import math
import operator
from fractions import Fraction
from functools import partial, reduce

import onnx_ir as ir

from onnx_passes.ops.domains.bitvectors import Z3Semantics
from onnx_passes.ops.domains.laws import CURVES, SHARE, alike, apart, power
from onnx_passes.ops.domains.z3_module import Term, z3
from onnx_passes.ops.semantics import Scalar, Unsupported


class RealSemantics(Z3Semantics):
    """z3 reals; transcendental functions are uninterpreted.

    A term is *defined* where every divisor is not zero, every root and logarithm is of a
    number in its domain. Two graphs are equal when the second is defined and equal wherever
    the first is defined.
    """

    def __init__(self, *, near: bool = False, laws: bool = False) -> None:
        """Take functions for unknown ones, or make use of more that is known of them.

        Args:
            near: Whether roots of numbers are taken to 40 digits, which makes formulas linear
                that divide by a root of a constant. Curves of arguments that are alike then
                differ by a bounded unknown. For claims of being close alone.
            laws: Whether exponentials of sums become products.
        """
        super().__init__()
        self._near, self._laws = near, laws
        self._powers: dict[Scalar, Scalar] = {}
        self._curves: dict[str, list[Scalar]] = {name: [] for name in CURVES}
        self._gaps: dict[Scalar, Scalar] = {}

    def float_sort(self, dtype: ir.DataType) -> Term:
        return z3().RealSort()

    def float_literal(self, value: float, dtype: ir.DataType) -> Scalar:
        if math.isinf(value):
            return _infinity(value)
        if not math.isfinite(value):
            raise Unsupported(f"the constant {value} over the reals")
        # The stored float is exact; 0.1 in a model is the number the float holds.
        exact = Fraction(value)
        return z3().RealVal(f"{exact.numerator}/{exact.denominator}")

    def float_number(self, scalar: Scalar) -> float | None:
        if not z3().is_rational_value(scalar):
            return None
        return float(scalar.as_fraction())

    def function(self, name: str, dtype: ir.DataType, *args: Scalar) -> Scalar:
        """Apply an uninterpreted function; infinities are not known to any.

        Args:
            name: Name of the function.
            *args: Its arguments.
            dtype: Element type of the result.
        """
        if any(map(_is_infinite, args)):
            raise Unsupported(f"{name} of an infinity over the reals")
        value = super().function(name, dtype, *args)
        if not self._near or name not in CURVES:
            return value
        self.facts.append(z3().And(value >= -1, value <= 1))
        twin = next((e for e in self._curves[name] if alike(e.arg(0), value.arg(0))), None)
        if twin is None:
            self._curves[name].append(value)
        if twin is None or twin.eq(value):
            return value
        # Kept by the term itself, since z3 gives the number of a term that is gone to another.
        gap = self._gaps.setdefault(value, z3().Real(f"gap {len(self._gaps)}"))
        most = CURVES[name] * SHARE
        bound = z3().Q(most.numerator, most.denominator)
        self.facts.append(z3().And(gap >= -bound, gap <= bound))
        return twin + gap

    def apply(self, name: str, dtype: ir.DataType, *args: Scalar) -> Scalar:
        if any(map(_is_infinite, args)):
            return _extended(name, args)
        return super().apply(name, dtype, *args)

    def on_floats(self, name: str, dtype: ir.DataType, *args: Scalar) -> Scalar:
        result = _ring(name, args)
        if result is None:
            result = _order(name, args)
        if result is None:
            result = _rounding(name, args)
        if result is None:
            result = self._partial(name, dtype, args)
        if result is None and name in _UNKNOWN:
            result = self.function(name.capitalize(), dtype, *args)
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
                if self._near and (near := _near_root(x)) is not None:
                    return near
                root = self.function("Sqrt", dtype, x)
                self.defined.append((root, x >= zero))
                self.facts.append(z3().Implies(x >= zero, root >= zero))
                self.facts.append(z3().Implies(x >= zero, root * root == x))
                return root
            case "log", x:
                whole, less = (apart(x) if self._laws else None) or (x, zero)
                logarithm = self.function("Log", dtype, whole)
                self.defined.append((logarithm, x > zero))
                return logarithm if less.eq(zero) else logarithm - less
            case "exp", x:
                if self._laws:
                    return power(x, partial(self._exponential, dtype), self._powers)
                return self._exponential(dtype, x)
            case "pow", x, y:
                return self._power(dtype, x, y)
            case (("fmod" | "mod"), x, y):
                remainder = self.function(name, dtype, x, y)
                self.defined.append((remainder, y != zero))
                return remainder
        return None

    def _exponential(self, dtype: ir.DataType, x: Scalar) -> Scalar:
        zero = z3().RealVal(0)
        value = self.function("Exp", dtype, x)
        self.facts.append(value > zero)
        self.facts.append(self.function("Exp", dtype, zero) == z3().RealVal(1))
        return value

    def _power(self, dtype: ir.DataType, x: Scalar, y: Scalar) -> Scalar:
        exponent = self.number(y, dtype)
        if exponent == 0.5:
            return self.apply("sqrt", dtype, x)
        if exponent == -0.5:
            return self.apply("div", dtype, z3().RealVal(1), self.apply("sqrt", dtype, x))
        if exponent is not None and float(exponent).is_integer() and abs(exponent) <= 8:
            # No factor of 1 in front: a root of x * x is to be the same term however spelled.
            factors = [x] * abs(int(exponent)) or [z3().RealVal(1)]
            result = reduce(operator.mul, factors)
            if exponent >= 0:
                return result
            return self.apply("div", dtype, z3().RealVal(1), result)
        # Defined for every exponent where the base is positive; elsewhere it depends.
        value = self.function("Pow", dtype, x, y)
        self.defined.append((value, x > z3().RealVal(0)))
        return value

    def float_cast(self, scalar: Scalar, source: ir.DataType, target: ir.DataType) -> Scalar:
        if _is_infinite(scalar) and not target.is_floating_point():
            raise Unsupported("a conversion of an infinity over the reals")
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
        # Mixing z3's integers and bit-vectors is hopeless in practice, so that conversions of
        # unknowns are functions, and only their congruence is known.
        return self.function(f"Cast_{source.name}_{target.name}", target, scalar)


_UNKNOWN = frozenset(
    f"{arc}{name}{h}" for arc in ("", "a") for name in ("sin", "cos", "tan") for h in ("", "h")
) | {"erf"}
"""Primitives that are known to be functions, and nothing more."""

_INFINITIES = {1: "infinity of the reals", -1: "minus infinity of the reals"}


def _infinity(value: float) -> Scalar:
    """Return what represents an infinity: above or below all that it is compared with."""
    return z3().Real(_INFINITIES[1 if value > 0 else -1])


def _is_infinite(scalar: Scalar) -> bool:
    return z3().is_const(scalar) and scalar.decl().name() in _INFINITIES.values()


def _extended(name: str, args: tuple[Scalar, ...]) -> Scalar:
    """Apply a primitive where an operand is infinite, and the result does not depend on more.

    It may be a maximum, a bound, or what leaves the infinity as it is; never a product, nor a
    choice, whose other operand decides.
    """
    low = z3().Real(_INFINITIES[-1])
    above = [a for a in args if not a.eq(low)]
    match name, *args:
        case "max", x, y if len(above) < 2:
            return y if x.eq(low) else x
        case "min", x, y if len(above) < 2:
            return low
        case (("add" | "sub"), x, y) if x.eq(low) and not _is_infinite(y):
            return low
        case "add", x, y if y.eq(low) and not _is_infinite(x):
            return low
        case "exp", x if x.eq(low):
            return z3().RealVal(0)
    raise Unsupported(f"{name} of an infinity over the reals")


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
