"""The one question that the prover puts to z3."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from onnx_passes.ops.domains.bitvectors import Term, z3

GAVE_UP = "z3 gave up"
STEPS = 2000
"""Steps of z3 that count as a millisecond; nonlinear arithmetic takes three times as long."""
BACKSTOP = 1000
"""How many times that limit z3 may take, in wall time, before it is stopped."""


class QueryTimeout(Exception):  # noqa: N818 (an outcome, as Unsupported is)
    """The wall time of a query ended before its steps did: nothing follows from that."""


def version() -> str:
    """Return the version of z3."""
    text: str = z3().get_version_string()
    return text


@dataclass(frozen=True, slots=True)
class Answer:
    """What z3 said about a claim.

    Attributes:
        holds: True where the claim is valid, False where a model breaks it, None where z3
            gave up.
        model: The model that breaks it.
        reason: Why z3 gave up.
    """

    holds: bool | None
    model: Term = None
    reason: str = ""


def differs(left: Term, right: Term) -> Term | None:
    """Return a formula that says two terms differ, or None where they are the same term.

    z3 shares equal terms, so that a rewrite which only moves values around needs no solver.

    Args:
        left: A term of z3.
        right: The other term.
    """
    solver = z3()
    if left.eq(right):
        return None
    left, right = solver.simplify(left), solver.simplify(right)
    return None if left.eq(right) else left != right


def refute(
    negation: Iterable[object],
    assumptions: Sequence[object] = (),
    *,
    milliseconds: int,
    prefer: Sequence[object] = (),
    backstop: int = BACKSTOP,
) -> Answer:
    """Look for a model in which any of ``negation`` holds under ``assumptions``.

    Args:
        negation: Formulas; each would break the claim.
        assumptions: What may be assumed.
        milliseconds: Limit of each query, in the solver's own steps, about ``STEPS`` in a
            millisecond: a verdict must not depend on the machine.
        prefer: Further constraints tried first, for a model that is easier to replay; they
            cannot make a broken claim look valid, because the query is put again without.
        backstop: How many times that limit each query may take in wall time.

    Raises:
        OutOfTime: A query took so long that its steps do not say why.
    """
    solver_module = z3()
    formulas = list(negation)
    if not formulas:
        return Answer(True)
    milliseconds = max(1, milliseconds)  # z3 takes 0 for no limit at all
    broken = solver_module.Or(*formulas) if len(formulas) > 1 else formulas[0]
    known = [*assumptions, broken]
    if prefer:
        solver = _solver([*known, *prefer])
        if _checked(solver, max(50, milliseconds // 4), backstop) == solver_module.sat:
            return Answer(False, solver.model())
    solver = _solver(known)
    result = _checked(solver, milliseconds, backstop)
    if result == solver_module.unsat:
        return Answer(True)
    if result == solver_module.sat:
        return Answer(False, solver.model())
    return Answer(None, reason=GAVE_UP)


def _solver(formulas: Sequence[Term]) -> Term:
    """Return a solver of its own: one that is asked twice gives up z3's tactics for reals."""
    solver = z3().Solver()
    solver.set("random_seed", 0)
    solver.add(*formulas)
    return solver


def _checked(solver: Term, milliseconds: int, backstop: int) -> Any:
    """Return what z3 says within a limit of steps.

    Raises:
        OutOfTime: It gave up, and not before the clock would have stopped it. z3 itself calls
            both ends by one name.
    """
    solver.set("rlimit", milliseconds * STEPS)
    # Only for what the solver does not count as steps; no answer is made of it.
    solver.set("timeout", milliseconds * backstop)
    start = time.monotonic()
    result = solver.check()
    spent = (time.monotonic() - start) * 1000
    if result == z3().unknown and spent >= milliseconds * backstop:
        raise QueryTimeout("z3 was stopped by the clock before its count of steps")
    return result
