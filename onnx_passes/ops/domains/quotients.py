"""Equality of quotients by cross-multiplication, wherever both are defined."""

from __future__ import annotations

from typing import TypeAlias

from onnx_passes.ops.domains.z3_module import z3
from onnx_passes.ops.semantics import Scalar

Quotient: TypeAlias = "tuple[Scalar, Scalar]"
"""Numerator and denominator; neither holds a division."""

_STEPS = 20_000


def same_quotient(left: Scalar, right: Scalar) -> bool:
    """Whether two terms are one rational function of the same parts.

    They are then equal wherever no divisor is zero. Other parts than sums, products and
    quotients (roots, maxima, exponentials) count as unknowns, equal where they are the same
    term. False where that is not known.

    Args:
        left: A real term.
        right: The term that it is compared with.
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
    """Return the one quotient that a term comes to; ``known`` holds those of its parts.

    Args:
        term: A real term.
        known: Quotients by the id of a part, which are added to.
    """
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
