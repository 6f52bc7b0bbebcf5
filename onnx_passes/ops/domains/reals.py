"""Floats as real numbers for z3, with laws of exponentials, logarithms and quotients."""

import math
import operator
from collections.abc import Callable, Iterable
from fractions import Fraction
from functools import partial, reduce
from typing import TypeAlias

import onnx_ir as ir

from onnx_passes.ops.domains.bitvectors import Term, Z3Semantics, z3
from onnx_passes.ops.semantics import Scalar, Unsupported

Quotient: TypeAlias = "tuple[Scalar, Scalar]"
"""Numerator and denominator; neither holds a division."""

_STEPS = 20_000


def same_quotient(left: Scalar, right: Scalar) -> bool:
    """Whether two terms are one rational function of the same parts.

    They are then equal wherever no divisor is zero. Other parts than sums, products and
    quotients (roots, maxima, exponentials) count as unknowns, equal where they are the same
    term. False where that is not known.
    """
    solver = z3()
    known: dict[int, Quotient] = {}
    (above, below), (top, bottom) = (quotient(term, known) for term in (left, right))
    one = solver.RealVal(1)
    if below.eq(one) and bottom.eq(one):
        return False  # a question for the solver itself
    rest = above * bottom - top * below
    try:
        for _ in range(2):  # once orders the factors, after which equal products meet
            rest = solver.simplify(rest, som=True, max_steps=_STEPS)
    except solver.Z3Exception:
        return False
    return bool(solver.is_rational_value(rest) and rest.as_fraction() == 0)


def quotient(term: Scalar, known: dict[int, Quotient]) -> Quotient:
    """Return the one quotient that a term comes to; ``known`` holds those of its parts."""
    solver, key = z3(), term.get_id()
    if key in known:
        return known[key]
    one = solver.RealVal(1)
    parts = []
    kind = term.decl().kind()
    if kind in (
        *(solver.Z3_OP_ADD, solver.Z3_OP_SUB, solver.Z3_OP_MUL),
        *(solver.Z3_OP_DIV, solver.Z3_OP_UMINUS),
    ):
        parts = [quotient(child, known) for child in term.children()]
    if not parts:
        result = term, one
    elif kind == solver.Z3_OP_UMINUS:
        result = -parts[0][0], parts[0][1]
    else:
        result = parts[0]
        for part in parts[1:]:
            result = _combined(kind, result, part)
    known[key] = result
    return result


def _combined(kind: int, left: Quotient, right: Quotient) -> Quotient:
    solver = z3()
    (a, b), (c, d) = left, right
    if kind == solver.Z3_OP_MUL:
        return a * c, _product(b, d)
    if kind == solver.Z3_OP_DIV:
        return a * d, _product(b, c)
    if not b.eq(d):
        a, c, b = a * d, c * b, _product(b, d)
    return (a + c if kind == solver.Z3_OP_ADD else a - c), b


def _product(a: Scalar, b: Scalar) -> Scalar:
    one = z3().RealVal(1)
    return b if a.eq(one) else a if b.eq(one) else a * b


_MANY = 48
"""Instances of the law of logarithms beyond which z3 is the slower for them."""

SHARE = Fraction(1, 10**6)
"""Up to which share coefficients are taken to be one number that was rounded twice."""

CURVES = {"Erf": Fraction(1, 2), "Tanh": Fraction(1, 2)}
"""Curves between -1 and 1, with a bound on ``t * f'(t)``: 0.484 for Erf, 0.448 for Tanh."""


def power(x: Scalar, atom: Callable[[Scalar], Scalar], known: dict[Scalar, Scalar]) -> Scalar:
    """Return the exponential of a term as products and quotients of ``atom`` of its parts."""
    solver = z3()
    if x not in known:
        parts = [power(child, atom, known) for child in _parts(x)]
        if solver.is_app_of(x, solver.Z3_OP_ITE):
            known[x] = solver.If(x.arg(0), *parts)
        elif solver.is_app_of(x, solver.Z3_OP_ADD):
            known[x] = solver.Product(*parts)
        elif solver.is_app_of(x, solver.Z3_OP_SUB):
            known[x] = parts[0] / solver.Product(*parts[1:])
        elif solver.is_app_of(x, solver.Z3_OP_UMINUS):
            known[x] = solver.RealVal(1) / parts[0]
        else:
            known[x] = atom(x)
    return known[x]


def _parts(x: Scalar) -> list[Scalar]:
    solver = z3()
    if solver.is_app_of(x, solver.Z3_OP_ITE):
        return [x.arg(1), x.arg(2)]
    sums = (solver.Z3_OP_ADD, solver.Z3_OP_SUB, solver.Z3_OP_UMINUS)
    return x.children() if any(solver.is_app_of(x, kind) for kind in sums) else []


def apart(x: Scalar) -> tuple[Scalar, Scalar] | None:
    """Return ``a`` and ``t`` with ``log(x) = log(a) - t`` for quotients by powers, or None."""
    above, below = quotient(x, {})
    exponent = None if below.eq(z3().RealVal(1)) else _exponent(below)
    return None if exponent is None else (above, exponent)


def _exponent(x: Scalar) -> Scalar | None:
    """Return the logarithm of a product, quotient or choice of powers, which is above zero."""
    solver, kind = z3(), x.decl().kind()
    if x.eq(solver.RealVal(1)):
        return solver.RealVal(0)
    if x.decl().name().partition(":")[0] == "Exp":
        return x.arg(0)
    if kind not in (solver.Z3_OP_ITE, solver.Z3_OP_MUL, solver.Z3_OP_DIV):
        return None
    choice = kind == solver.Z3_OP_ITE
    parts: list[Scalar] = [_exponent(child) for child in x.children()[choice:]]
    if any(part is None for part in parts):
        return None
    if choice:
        return solver.If(x.arg(0), *parts)
    return solver.Sum(parts) if kind == solver.Z3_OP_MUL else parts[0] - parts[1]


def of_logarithms(terms: Iterable[Scalar]) -> list[Scalar]:
    """Return ``log(a) = log(b) + t`` where ``a = b exp(t)``, for what occurs in some terms."""
    solver, zero = z3(), z3().RealVal(0)
    found = applications(terms, "Log", "Exp")
    logs, powers = found["Log"], found["Exp"]
    pairs = [(a, b) for k, a in enumerate(logs) for b in logs[:k]]
    laws = [
        solver.Implies(solver.And(a.arg(0) == p, p > zero), a == p.arg(0))
        for a in logs
        for p in powers
    ]
    laws += [
        solver.Implies(
            solver.And(b.arg(0) > zero, p > zero, a.arg(0) == b.arg(0) * p), a == b + p.arg(0)
        )
        for pair in pairs
        for a, b in (pair, pair[::-1])
        for p in powers
    ]
    return laws if len(laws) <= _MANY else []


def applications(terms: Iterable[Scalar], *names: str) -> dict[str, list[Scalar]]:
    """Return the applications of some functions in terms, without repeats, by name."""
    pending, seen = list(terms), set[int]()
    found: dict[str, list[Scalar]] = {name: [] for name in names}
    while pending:
        term = pending.pop()
        if term.get_id() in seen:
            continue
        seen.add(term.get_id())
        name = term.decl().name().partition(":")[0]
        if name in found and term.num_args() == 1:
            found[name].append(term)
        pending.extend(term.children())
    return found


def alike(x: Scalar, y: Scalar) -> bool:
    """Whether ``|x - y|`` is at most ``SHARE`` of the smaller, whatever the unknown is.

    For odd polynomials of one unknown with positive coefficients alone: their terms have one
    sign, so that none cancels another.
    """
    left, right = polynomial(x), polynomial(y)
    if left is None or right is None or left[0] != right[0]:
        return False
    (_, before), (_, after) = left, right
    if set(before) != set(after):
        return False
    return all(
        degree % 2 == 1
        and min(before[degree], after[degree]) > 0
        and abs(before[degree] - after[degree]) <= SHARE * min(before[degree], after[degree])
        for degree in before
    )


def polynomial(x: Scalar) -> tuple[int, dict[int, Fraction]] | None:
    """Return the unknown of a polynomial, and its coefficients by degree; None for others."""
    unknowns: set[int] = set()
    found = _coefficients(x, unknowns)
    if found is None or len(unknowns) != 1:
        return None
    return unknowns.pop(), {degree: c for degree, c in found.items() if c}


def _coefficients(x: Scalar, unknowns: set[int]) -> dict[int, Fraction] | None:
    solver = z3()
    if solver.is_rational_value(x):
        return {0: Fraction(x.numerator_as_long(), x.denominator_as_long())}
    kinds = {
        solver.Z3_OP_ADD: _plus,
        solver.Z3_OP_SUB: lambda a, b: _plus(a, {k: -c for k, c in b.items()}),
        solver.Z3_OP_MUL: _times,
        solver.Z3_OP_DIV: _over,
        solver.Z3_OP_UMINUS: None,
    }
    kind = x.decl().kind()
    if kind not in kinds:
        unknowns.add(x.get_id())
        return {1: Fraction(1)}
    parts = [_coefficients(child, unknowns) for child in x.children()]
    if kind == solver.Z3_OP_UMINUS:
        parts = [{0: Fraction(-1)}, *parts]
    combine = kinds[kind] or _times
    result = parts[0]
    for part in parts[1:]:
        if result is None or part is None:
            return None
        result = combine(result, part)
    return result


_Coefficients = dict[int, Fraction]


def _plus(a: _Coefficients, b: _Coefficients) -> _Coefficients:
    return {k: a.get(k, Fraction(0)) + b.get(k, Fraction(0)) for k in {*a, *b}}


def _times(a: _Coefficients, b: _Coefficients) -> _Coefficients:
    result: _Coefficients = {}
    for i, p in a.items():
        for j, q in b.items():
            result[i + j] = result.get(i + j, Fraction(0)) + p * q
    return result


def _over(a: _Coefficients, b: _Coefficients) -> _Coefficients | None:
    divisor = b.get(0) if set(b) == {0} else None
    return {k: c / divisor for k, c in a.items()} if divisor else None


class RealSemantics(Z3Semantics):
    """z3 reals; transcendental functions are uninterpreted.

    A term is *defined* where every divisor is not zero, every root and logarithm is of a
    number in its domain. Two graphs are equal when the second is defined and equal wherever
    the first is defined.
    """

    def __init__(self, *, near: bool = False, laws: bool = False) -> None:
        """Choose what is assumed of roots, curves and exponentials.

        ``near`` takes roots of numbers to 40 digits, which makes formulas linear that divide
        by a root of a constant. Curves of arguments that are alike then differ by a bounded
        unknown. It is for claims of being close alone. With ``laws``, exponentials of sums
        become products.
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
        """Apply an uninterpreted function; infinities are not known to any."""
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
