"""Laws of exponentials, logarithms and curves over the reals, for the terms of a claim.

To z3, such functions are unknown. What is stated here holds for all reals: ``exp(a + b) =
exp(a) exp(b)``, ``log(a exp(t)) = log(a) + t``, and that Erf and Tanh hardly change where
their argument hardly does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from fractions import Fraction

from onnx_passes.ops.domains.quotients import quotient
from onnx_passes.ops.domains.z3_module import z3
from onnx_passes.ops.semantics import Scalar

_MANY = 48
"""Instances of the law of logarithms beyond which z3 is the slower for them."""

SHARE = Fraction(1, 10**6)
"""Up to which share coefficients are taken to be one number that was rounded twice."""

CURVES = {"Erf": Fraction(1, 2), "Tanh": Fraction(1, 2)}
"""Curves between -1 and 1, with a bound on ``t * f'(t)``: 0.484 for Erf, 0.448 for Tanh."""


def power(x: Scalar, atom: Callable[[Scalar], Scalar], known: dict[Scalar, Scalar]) -> Scalar:
    """Return the exponential of a term as products and quotients of ``atom`` of its parts.

    Args:
        x: The exponent, a real term.
        atom: Returns the exponential of a part that is not a sum.
        known: Exponentials by part, which are added to.
    """
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
            solver.And(b.arg(0) > zero, p > zero, a.arg(0) == b.arg(0) * p),
            a == b + p.arg(0),
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

    Args:
        x: A real term.
        y: The term that it is compared with.
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
