"""The verdict on a pair of graphs in one arithmetic: exact numbers, or IEEE bit for bit.

Arguments for every size come first. Otherwise z3 is asked for a formula that says the graphs
are equal. A counterexample of z3 counts only if an engine shows it.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import onnx_ir as ir

from onnx_passes.arrays import Array
from onnx_passes.certifying.equivalence import (
    SUMMATION,
    ModelPair,
    ScalarArgument,
    block_argument,
    scalar_argument,
)
from onnx_passes.certifying.proof import (
    Arithmetic,
    ArithmeticVerdict,
    Counterexample,
    Coverage,
    FloatMode,
    Outcome,
)
from onnx_passes.certifying.replay import Feeds, Replayer
from onnx_passes.ops.call import Tensor
from onnx_passes.ops.domains.bitvectors import (
    FLOAT16,
    FORMATS,
    FloatFormat,
    IeeeSemantics,
    Term,
    z3,
)
from onnx_passes.ops.domains.reals import RealSemantics, of_logarithms, same_quotient
from onnx_passes.ops.evaluation import concrete_shape, evaluate, unknowns
from onnx_passes.ops.semantics import Scalar, Semantics, Unsupported, is_float

GAVE_UP = "z3 gave up"
STEPS = 2000
"""Steps of z3 that count as a millisecond; nonlinear arithmetic takes three times as long."""
BACKSTOP = 1000
"""How many times that limit z3 may take, in wall time, before it is stopped."""


class QueryTimeout(Exception):  # noqa: N818 (an outcome, as Unsupported is)
    """The wall time of a query ended before its steps did: nothing follows from that."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What z3 said about a claim: valid, broken by `model`, or None if z3 gave up."""

    holds: bool | None
    model: Term = None
    reason: str = ""


def differs(left: Term, right: Term) -> Term | None:
    """Return a formula that says two terms differ, or None where they are the same term.

    z3 shares equal terms, so that a rewrite which only moves values around needs no solver.
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

    The limit counts the solver's steps, about ``STEPS`` in a millisecond, because a verdict
    must not depend on the machine. OutOfTime if a query takes `backstop` times that in wall
    time. Constraints in `prefer` are tried first, for a model that is easier to replay. They
    never make a broken claim look valid, because the query is then repeated without them.
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

    OutOfTime if the clock stopped it before the steps ran out: z3 calls both by one name.
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


CLOSE = "up to a relative 1e-6, because constants are rounded"
CLOSE_TO_INPUTS = "up to 1e-4 of the largest input, or of 1, because constants are rounded"
_RELATIVE, _OF_INPUTS = "1/1000000", "1/10000"
_PRIME = 7
"""How many numbers the elements of a point are of; sizes are seldom multiples of it."""
_TOGETHER = 16
"""Share of the steps that all elements of a claim get at once, before each alone."""
_EASY = 64
"""Bound on the reals that are tried first for a counterexample: an engine shows it clearly."""


@dataclass(frozen=True)
class Claim:
    """That two graphs, evaluated in one arithmetic, are equal.

    `feeds` are the unknowns, and `sides` the elements of each output before and after. The
    original is defined under `defined`, the result under `obligations`. A `mismatch` of types
    or shapes needs no formula.
    """

    pair: ModelPair
    semantics: Semantics
    feeds: Mapping[str, Tensor]
    sides: list[tuple[Tensor, Tensor]]
    defined: list[Scalar]
    obligations: list[Scalar]
    mismatch: str | None = None
    argument: ScalarArgument | None = None

    def check(
        self, milliseconds: int, mode: FloatMode | None = None, *, patient: bool = True
    ) -> Answer:
        """Ask z3 whether the claim is valid, without a `mode` outside of IEEE arithmetic.

        Unless it is `patient`, elements are not asked one by one.
        """
        negation = self._differences(mode) + self._undefined()
        assumptions = [*self.defined, *self.semantics.facts]
        if mode == FloatMode.FINITE:
            assumptions += self._finite()
        easy = self._easy(mode)
        answer = self._refute(negation, assumptions, milliseconds, easy, patient=patient)
        if answer.holds and assumptions and self._is_vacuous(assumptions, milliseconds):
            return Answer(None, reason="the graph before is defined for no input")
        return answer

    def _refute(
        self,
        negation: Sequence[Scalar],
        assumptions: Sequence[Scalar],
        milliseconds: int,
        prefer: Sequence[Scalar] = (),
        *,
        patient: bool = True,
    ) -> Answer:
        """Look for a model of any of some formulas: of all at once, then of each.

        z3 counts few steps where many nonlinear terms meet, so that all at once take minutes
        where each alone takes milliseconds.
        """
        if self._holds_in_general(negation, assumptions, milliseconds):
            return Answer(True)
        known = [*assumptions, *self._laws(self._terms())]
        parts = len(negation) > 1 and not isinstance(self.semantics, IeeeSemantics)
        first = milliseconds // _TOGETHER if parts else milliseconds
        patience = BACKSTOP // _TOGETHER if parts else BACKSTOP
        try:
            answer = refute(
                negation, known, milliseconds=first, prefer=prefer, backstop=patience
            )
        except QueryTimeout:
            # Each is asked alone below, and all again, with the whole time.
            if not parts:
                raise
            answer = Answer(None)
        if answer.holds is not None or not parts or not patient:
            return answer
        for formula in negation:
            alone = [*assumptions, *self._laws([formula])]
            answer = refute([formula], alone, milliseconds=milliseconds, prefer=prefer)
            if not answer.holds:
                break
        if answer.holds is None:
            answer = refute(negation, known, milliseconds=milliseconds, prefer=prefer)
        return answer

    def _holds_in_general(
        self, negation: Sequence[Scalar], assumptions: Sequence[Scalar], milliseconds: int
    ) -> bool:
        """Whether formulas are false whatever the values are of all that both sides compute.

        Of a sum over many elements, z3 has one unknown then. That it has squares alone is all
        that is left of it. Of what is assumed, only that of the same unknowns is.
        """
        solver = z3()
        if not isinstance(self.semantics, RealSemantics) or not self._shared:
            return False
        pairs = [(t, solver.Real(f"shared {n}")) for n, t in enumerate(self._shared)]
        known = [solver.substitute(each, *pairs) for each in assumptions]
        known += [unknown >= 0 for term, unknown in pairs if is_sum_of_squares(term)]
        limit, patience = milliseconds // _TOGETHER, BACKSTOP // _TOGETHER
        with contextlib.suppress(QueryTimeout):
            for formula in (solver.substitute(each, *pairs) for each in negation):
                near = [each for each in known if unknowns_in(each) <= unknowns_in(formula)]
                if not refute([formula], near, milliseconds=limit, backstop=patience).holds:
                    return False
            return True
        return False

    @cached_property
    def _shared(self) -> list[Scalar]:
        """The largest terms that occur on both sides."""
        sides = [*self._elements()]
        other = subterms([right for _, _, right in sides])
        inner = subterms([left for _, left, _ in sides], until=other)
        return [t for k, t in inner.items() if k in other and t.children() and z3().is_real(t)]

    def _laws(self, terms: Sequence[Scalar]) -> list[Scalar]:
        return of_logarithms(terms) if isinstance(self.semantics, RealSemantics) else []

    def _terms(self) -> list[Scalar]:
        return [s for _, left, right in self._elements() for s in (left, right)]

    def _is_vacuous(self, assumptions: Sequence[Scalar], milliseconds: int) -> bool:
        anything, somewhere = [z3().BoolVal(True)], self._somewhere()
        answer = refute(anything, assumptions, milliseconds=milliseconds, prefer=somewhere)
        return answer.holds is True

    def _somewhere(self) -> list[Scalar]:
        """Return one point, at which z3 sees at once whether a graph is defined."""
        floats = [t for t in self.feeds.values() if is_float(t.dtype)]
        elements = [(s, tensor.dtype) for tensor in floats for s in tensor.data.flat]
        return [
            scalar == self.semantics.literal(1.0 + number % _PRIME, dtype)
            for number, (scalar, dtype) in enumerate(elements)
        ]

    def close(self, milliseconds: int, *, patient: bool = True) -> str | None:
        """Return how close reals are, where rounded constants explain what they differ by.

        Everything but reals must still be equal. Unless it is `patient`, only a relative
        distance is asked for, whatever the values are of all that both sides compute.
        """
        solver = z3()
        largest = solver.Real("largest input")
        negation, assumptions = self._farther(
            lambda left: solver.If(left < 0, -left, left), _RELATIVE
        )
        if not patient:
            general = self._holds_in_general(negation, assumptions, milliseconds)
            return (
                CLOSE if general and not self._is_vacuous(assumptions, milliseconds) else None
            )
        if self._refute(negation, assumptions, milliseconds).holds:
            return CLOSE
        reals = self._reals()
        bounds = [c for s in reals for c in (s <= largest, -s <= largest)]
        bounds.append(largest >= 1)
        # Rounding is proportional to what is summed, which may cancel in the result.
        negation, assumptions = self._farther(lambda _: largest, _OF_INPUTS)
        near = self._refute(negation, [*assumptions, *bounds], milliseconds)
        return CLOSE_TO_INPUTS if near.holds else None

    def _farther(
        self, size: Callable[[Scalar], Scalar], share: str
    ) -> tuple[list[Scalar], list[Scalar]]:
        """Return formulas that say how an element is farther off, and what is assumed."""
        solver, negation = z3(), []
        for before, left, right in self._elements():
            formula = differs(left, right)
            if formula is not None and is_float(before.dtype):
                gap, room = left - right, solver.RealVal(share) * size(left)
                formula = solver.Or(gap > room, -gap > room)
            if formula is not None:
                negation.append(formula)
        return negation + self._undefined(), [*self.defined, *self.semantics.facts]

    def _undefined(self) -> list[Scalar]:
        """Return formulas that say how the result is not defined where the original is."""
        known = {c.get_id() for c in self.defined}
        return [z3().Not(c) for c in self.obligations if c.get_id() not in known]

    def inputs(self, model: Term) -> dict[str, Array]:
        """Return the values that a model gives to the inputs, shaped as the pair's inputs."""
        arrays = {}
        for value in self.pair.inputs:
            tensor = self.feeds[str(value.name)]
            numbers = [
                self._number(model.eval(s, model_completion=True), tensor)
                for s in tensor.data.flat
            ]
            with np.errstate(over="ignore"):
                # numpy makes a float64 first, as NaN must pass through bfloat16's cast.
                flat = np.array(numbers).astype(tensor.dtype.numpy())
            shape = concrete_shape(value)
            arrays[str(value.name)] = np.broadcast_to(flat.reshape(tensor.shape), shape).copy()
        return arrays

    def _number(self, scalar: Scalar, tensor: Tensor) -> bool | int | float:
        number = self.semantics.number(scalar, tensor.dtype)
        if number is None and z3().is_algebraic_value(scalar):
            return float(scalar.approx(20).as_fraction())
        return 0 if number is None else number

    def _differences(self, mode: FloatMode | None) -> list[Scalar]:
        solver, found = z3(), []
        for before, left, right in self._elements():
            formula = differs(left, right)
            if formula is None or (self._divides(before) and same_quotient(left, right)):
                continue
            loose = mode in (FloatMode.ZEROS_EQUAL, FloatMode.FINITE)
            if loose and is_float(before.dtype):
                formula = solver.And(formula, solver.Not(solver.fpEQ(left, right)))
            found.append(formula)
        return found

    def _divides(self, tensor: Tensor) -> bool:
        """Whether equality may be assumed where a divisor is zero."""
        real = isinstance(self.semantics, RealSemantics) and is_float(tensor.dtype)
        return real and not _has(self.pair, {"Where"})

    def _elements(self) -> Iterator[tuple[Tensor, Scalar, Scalar]]:
        for before, after in self.sides:
            for left, right in zip(before.data.flat, after.data.flat, strict=True):
                yield before, left, right

    def _reals(self) -> list[Scalar]:
        floats = (t for t in self.feeds.values() if is_float(t.dtype))
        return [s for tensor in floats for s in tensor.data.flat]

    def _finite(self) -> list[Scalar]:
        solver = z3()
        tensors = [*self.feeds.values(), *(before for before, _ in self.sides)]
        return [
            solver.Not(solver.Or(solver.fpIsInf(s), solver.fpIsNaN(s)))
            for tensor in tensors
            if is_float(tensor.dtype)
            for s in tensor.data.flat
        ]

    def _easy(self, mode: FloatMode | None) -> list[Scalar]:
        if mode is not None:
            return []
        return [c for s in self._reals() for c in (s >= -_EASY, s <= _EASY)]


def claim(
    pair: ModelPair, semantics: Semantics, argument: ScalarArgument | None = None
) -> Claim:
    """Evaluate both graphs, on scalars if an argument allows it, or raise Unsupported."""
    feeds = (
        unknowns(pair.inputs, semantics) if argument is None else argument.unknowns(semantics)
    )
    before = evaluate(pair.before.graph, feeds, semantics)
    defined, semantics.defined = _conditions(semantics, before.values()), []
    after = evaluate(pair.after.graph, feeds, semantics)
    obligations, semantics.defined = _conditions(semantics, after.values()), []
    if not isinstance(semantics, IeeeSemantics) and _has(pair, {"Where"}):
        # A branch not taken need not be defined. Division by zero is then some function of
        # its operands, as z3 has it, and equality must hold whatever that function is.
        defined, obligations = [], []
    sides, mismatch = [], None
    for name, left in before.items():
        right = after[name]
        if argument is not None and left.data.size == right.data.size == 1:
            left, right = (Tensor(t.data.reshape(()), t.dtype) for t in (left, right))
        if left.dtype != right.dtype:
            mismatch = f"output {name} is {right.dtype.name}, expected {left.dtype.name}"
        elif left.shape != right.shape:
            mismatch = f"output {name} is {list(right.shape)}, expected {list(left.shape)}"
        else:
            sides.append((left, right))
    return Claim(pair, semantics, feeds, sides, defined, obligations, mismatch, argument)


def _conditions(semantics: Semantics, outputs: Iterable[Tensor]) -> list[Scalar]:
    """Return when the terms that reach an output are defined; others do not matter."""
    if not semantics.defined:
        return []
    reached = subterms([s for tensor in outputs for s in tensor.data.flat])
    return [condition for term, condition in semantics.defined if term.get_id() in reached]


def subterms(terms: Iterable[Scalar], until: Collection[int] = ()) -> dict[int, Scalar]:
    """Return terms and all that they are made of, by number; of those in `until` no parts."""
    pending, found = list(terms), {}
    while pending:
        term = pending.pop()
        if term.get_id() not in found:
            found[term.get_id()] = term
            pending.extend(() if term.get_id() in until else term.children())
    return found


def unknowns_in(term: Scalar) -> set[int]:
    """Return the numbers of the unknowns of a term."""
    found = subterms([term]).items()
    return {
        k for k, t in found if z3().is_const(t) and t.decl().kind() == z3().Z3_OP_UNINTERPRETED
    }


def is_sum_of_squares(term: Scalar) -> bool:
    """Whether a real is written as a sum of squares and numbers that are not negative."""
    solver, parts = z3(), term.children()
    if solver.is_rational_value(term):
        return bool(term.as_fraction() >= 0)
    if solver.is_mul(term) and len(parts) == 2 and parts[0].eq(parts[1]):
        return True
    sums = solver.is_add(term) or solver.is_mul(term) or solver.is_div(term)
    return bool(sums) and all(map(is_sum_of_squares, parts))


@dataclass(frozen=True, slots=True)
class Effort:
    """How much the prover spends.

    `milliseconds` of a query are counted in z3's own steps, so that verdicts do not depend on
    the machine. `samples` are run on the engine before the proof. A rule is proved on
    `templates` models of any kind, then on models of other ranks up to `most`, and on all
    other types. `limit` counts drawn models, without enumerated ones. Others are run, unless
    the rule `was_tested`.
    """

    milliseconds: int = 1000
    samples: int = 12
    templates: int = 6
    most: int = 14
    limit: int = 24
    ieee: bool = True
    was_tested: bool = False
    seed: int = 0


_ROUNDED = frozenset({"Sqrt", "Pow", "BatchNormalization", "Gelu", "Erf", "Tanh"})
"""Operators whose rounded constants may be roots, or lie in the argument of a curve."""
_EXPONENTIAL = frozenset(
    {"Exp", "Log", "Sigmoid", "Softmax", "LogSoftmax", "Softplus", "Mish"}
)
_NEAR = "roots of constants to 40 digits, curves of arguments within 1e-6 by their slope"


def judge_exact(pair: ModelPair, replayer: Replayer, effort: Effort) -> ArithmeticVerdict:
    """Return the verdict in the pair's own exact arithmetic.

    An engine is asked first, because a run takes a millisecond; then come, in this order, the
    arguments that cover most: scalars, blocks, the given shapes.
    """
    if pair.has_floats:
        arithmetic = Arithmetic.REAL
    else:
        arithmetic = Arithmetic.INT if pair.has_integers else Arithmetic.BOOL
    judgement = ArithmeticVerdict(arithmetic, Outcome.UNDECIDED)
    found = replayer.search(effort.samples, real=pair.has_floats, seed=effort.seed)
    if found is not None:
        judgement = refuted(judgement, "replay", found)
    else:
        judgement = _prove(judgement, pair, replayer, effort)
    return judgement


def refuted(base: ArithmeticVerdict, method: str, found: Counterexample) -> ArithmeticVerdict:
    """Return ``base`` refuted by a counterexample that an engine showed."""
    return replace(
        base,
        outcome=Outcome.REFUTED,
        method=method,
        counterexample=found,
        reason=found.reason,
        coverage=None,
        mode=None,
    )


def _prove(
    base: ArithmeticVerdict, pair: ModelPair, replayer: Replayer, effort: Effort
) -> ArithmeticVerdict:
    reasons: list[str] = []
    argument = scalar_argument(pair)
    result = None
    if argument is not None:
        asked = replace(base, method="scalar argument", coverage=argument.coverage)
        result = _ask(asked, pair, argument, replayer, effort, reasons)
    if result is None and (filled := scalar_argument(pair, numbers=True)) is not None:
        asked = replace(base, method="scalar argument", coverage=filled.coverage)
        result = _ask(asked, pair, filled, replayer, effort, reasons)
    if result is None:
        result = _by_blocks(base, pair, reasons)
    if result is None:
        # One element may represent too many: what the engine does not show is not an answer.
        coverage = Coverage(False, pair.shapes, tuple(pair.constants()))
        asked = replace(base, method="bounded z3", coverage=coverage)
        result = _ask(asked, pair, None, replayer, effort, reasons)
    return result or replace(base, reason="; ".join(dict.fromkeys(reasons)))


def _by_blocks(
    base: ArithmeticVerdict, pair: ModelPair, reasons: list[str], *, ring: bool = True
) -> ArithmeticVerdict | None:
    try:
        coverage = block_argument(pair, ring=ring)
    except Unsupported as unsupported:
        reasons.append(f"no block normal form: {unsupported}")
        return None
    return replace(base, outcome=Outcome.PROVED, method="block normal form", coverage=coverage)


def _ask(
    asked: ArithmeticVerdict,
    pair: ModelPair,
    argument: ScalarArgument | None,
    replayer: Replayer,
    effort: Effort,
    reasons: list[str],
) -> ArithmeticVerdict | None:
    """Put a claim to z3; return the judgement, or None where it decides nothing."""
    try:
        statement = claim(pair, RealSemantics(), argument)
        answer = statement.check(effort.milliseconds, patient=False)
        near = answer.holds is None and pair.has_floats and asked.coverage is not None
        if near and statement.close(effort.milliseconds, patient=False) is not None:
            return _proved_near(asked, CLOSE)
        if answer.holds is None:
            answer = statement.check(effort.milliseconds)
        if not answer.holds and _has(pair, _EXPONENTIAL):
            lawful = claim(pair, RealSemantics(laws=True), argument)
            if lawful.check(effort.milliseconds).holds:
                return replace(asked, outcome=Outcome.PROVED)
    except Unsupported as unsupported:
        reasons.append(f"{asked.method}: {unsupported}")
        return None
    if statement.mismatch is not None:
        reasons.append(f"{asked.method}: {statement.mismatch}")
        return None
    if answer.holds:
        return replace(asked, outcome=Outcome.PROVED)
    if answer.holds is None:
        reasons.append(f"{asked.method}: {answer.reason}")
        return None
    close = _close(statement, effort) if pair.has_floats else None
    if close is not None and asked.coverage is not None:
        return _proved_near(asked, close)
    feeds = statement.inputs(answer.model)
    found = replayer.compare(feeds, real=pair.has_floats)
    if found is not None:
        return refuted(asked, asked.method, found)
    reasons.append(f"{asked.method}: {not_replayed(feeds, replayer)}")
    return None


def _proved_near(asked: ArithmeticVerdict, close: str) -> ArithmeticVerdict:
    """Return a verdict proved on the condition that rounded constants explain a distance."""
    assert asked.coverage is not None
    coverage = replace(asked.coverage, conditions=(*asked.coverage.conditions, close))
    return replace(asked, outcome=Outcome.PROVED, coverage=coverage)


def _close(statement: Claim, effort: Effort) -> str | None:
    """Return how close the sides of a claim are, if need be with roots of constants near."""
    found = statement.close(effort.milliseconds)
    if found is not None or not _has(statement.pair, _ROUNDED):
        return found
    near = claim(statement.pair, RealSemantics(near=True), statement.argument)
    found = near.close(effort.milliseconds)
    return None if found is None else f"{found}; {_NEAR}"


def _has(pair: ModelPair, operators: Collection[str]) -> bool:
    names = {n.op_type for m in (pair.before, pair.after) for n in m.graph}
    reduces = "Reduce" in operators and any(name.startswith("Reduce") for name in names)
    return reduces or not names.isdisjoint(operators)


def not_replayed(feeds: Feeds, replayer: Replayer) -> str:
    """Say what z3 found and why it does not count."""
    shown = ", ".join(f"{k} = {v.reshape(-1)[:4].tolist()}" for k, v in feeds.items())
    failure = replayer.runs(feeds)
    why = (
        f"which does not run: {failure}" if failure else "where the engine sees no difference"
    )
    return f"z3 has a counterexample, {shown}, {why}"


_SUMS = frozenset(
    {"MatMul", "Gemm", "Conv", "Einsum", "Softmax", "LayerNormalization", "CumSum", "Reduce"}
)
"""Operators that sum, and how the names of others begin."""

Decision: TypeAlias = "bool | Counterexample | str"
"""Valid; or broken, on an engine; or why it is undecided."""


def judge_ieee(pair: ModelPair, replayer: Replayer, effort: Effort) -> ArithmeticVerdict:
    """Return the verdict in IEEE arithmetic, in the strongest mode that holds."""
    base = ArithmeticVerdict(Arithmetic.IEEE, Outcome.UNDECIDED)
    if not effort.ieee:
        return replace(base, reason="not asked: bits are known to differ")
    found = replayer.search(2 * effort.samples, real=False, seed=effort.seed)
    if found is not None and _is_finite(found):
        judgement = refuted(base, "replay", found)
    else:
        argument, by_blocks = scalar_argument(pair), None
        if found is None and argument is None:
            bits = replace(base, mode=FloatMode.STRICT, formats=("every float format",))
            by_blocks = _by_blocks(bits, pair, [], ring=False)
        judgement = by_blocks or _by_z3(base, pair, replayer, effort, found, argument)
        filled = scalar_argument(pair, numbers=True)
        if judgement.outcome == Outcome.UNDECIDED and filled is not None:
            again = _by_z3(base, pair, replayer, effort, found, filled)
            judgement = again if again.outcome == Outcome.PROVED else judgement
    return judgement


def _is_finite(found: Counterexample) -> bool:
    arrays = (*found.feeds.values(), *found.expected.values())
    floats = (a.astype(np.float64) for a in arrays if a.dtype.kind not in "biu")
    return all(bool(np.isfinite(a).all()) for a in floats)


def _by_z3(
    base: ArithmeticVerdict,
    pair: ModelPair,
    replayer: Replayer,
    effort: Effort,
    found: Counterexample | None,
    argument: ScalarArgument | None,
) -> ArithmeticVerdict:
    if argument is not None:
        coverage = argument.coverage
    else:
        summed = (SUMMATION,) if _has(pair, _SUMS) else ()
        coverage = Coverage(False, pair.shapes, (*pair.constants(), *summed))
    asked = replace(
        base, method="scalar argument" if argument else "bounded z3", coverage=coverage
    )
    modes = [FloatMode.FINITE] if found is not None else list(FloatMode)
    broken, reason = found, ""
    for mode in modes:
        decision, formats = _decide(pair, argument, mode, replayer, effort)
        if decision is True:
            why = f"not for all values: {broken.reason}" if broken is not None else ""
            return replace(
                asked, outcome=Outcome.PROVED, mode=mode, formats=formats, reason=why
            )
        if isinstance(decision, Counterexample):
            broken = decision
            if _is_finite(decision):
                break
        elif isinstance(decision, str):
            reason = decision
            if decision.startswith(GAVE_UP):
                # A weaker mode is not easier for z3.
                break
    if broken is not None:
        return refuted(asked, "replay" if broken is found else asked.method, broken)
    return replace(base, reason=reason)


def _decide(
    pair: ModelPair,
    argument: ScalarArgument | None,
    mode: FloatMode,
    replayer: Replayer,
    effort: Effort,
) -> tuple[Decision, tuple[str, ...]]:
    """Put one mode to z3, in half precision first, if that represents the real one."""
    decision: Decision = "no format applies"
    if argument is None and _has(pair, _SUMS):
        # Floats under uninterpreted sums: z3 sees at once that it is so, or hardly ever.
        effort = replace(effort, milliseconds=effort.milliseconds // 4)
    proved: list[str] = []
    for form in _formats(pair):
        try:
            statement = claim(pair, IeeeSemantics(form), argument)
            if statement.mismatch is not None:
                return statement.mismatch, ()
            decision = _ask_rounding(statement, mode, replayer, effort)
        except Unsupported as unsupported:
            return str(unsupported), ()
        if isinstance(decision, Counterexample):
            return decision, ()
        if isinstance(decision, str) and decision.startswith(GAVE_UP):
            break
        if decision is True:
            names = [form.name] if form else sorted(FORMATS[t].name for t in pair.float_types)
            proved += names
    # Half precision alone decides where the wider format is out of reach.
    return (True, tuple(dict.fromkeys(proved))) if proved else (decision, ())


def _ask_rounding(
    statement: Claim, mode: FloatMode, replayer: Replayer, effort: Effort
) -> Decision:
    answer = statement.check(effort.milliseconds, mode)
    if answer.holds:
        return True
    if answer.holds is None:
        return answer.reason
    if mode == FloatMode.STRICT:
        return "zeros of unlike sign differ"
    feeds = statement.inputs(answer.model)
    return replayer.compare(feeds, real=False) or not_replayed(feeds, replayer)


def _formats(pair: ModelPair) -> Iterator[FloatFormat | None]:
    """Yield half precision, where it is faithful, and the pair's own formats."""
    if pair.float_types in ({ir.DataType.FLOAT}, {ir.DataType.DOUBLE}) and _fits_half(pair):
        yield FLOAT16
    yield None


def _fits_half(pair: ModelPair) -> bool:
    """Whether every float constant is a normal number of half precision, nearly."""
    for number in pair.float_constants():
        if np.isfinite(number) and number and not 6.2e-5 < abs(number) < 65504:
            return False
    return True
