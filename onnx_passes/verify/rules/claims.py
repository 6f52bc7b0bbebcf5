"""The formulas that say two graphs are equal, and the values in a model that breaks them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from onnx_passes.arrays import Array
from onnx_passes.ops.call import Tensor
from onnx_passes.ops.domains.bitvectors import IeeeSemantics, Term, z3
from onnx_passes.ops.domains.reals import RealSemantics, of_logarithms, same_quotient
from onnx_passes.ops.evaluation import concrete_shape, evaluate, unknowns
from onnx_passes.ops.semantics import Scalar, Semantics, is_float
from onnx_passes.verify.rules.pairs import ModelPair
from onnx_passes.verify.rules.proof import FloatMode
from onnx_passes.verify.rules.scalar import ScalarArgument
from onnx_passes.verify.rules.solver import BACKSTOP, Answer, QueryTimeout, differs, refute

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

    Attributes:
        pair: The graphs.
        semantics: The arithmetic.
        feeds: The unknowns, by input name.
        sides: Per output, its elements before and after.
        defined: Conditions under which the graph before is defined.
        obligations: Conditions under which the graph after is.
        mismatch: Why no formula is needed: types or shapes differ.
        argument: What reduced it to scalars, if anything did.
    """

    pair: ModelPair
    semantics: Semantics
    feeds: Mapping[str, Tensor]
    sides: list[tuple[Tensor, Tensor]]
    defined: list[Scalar]
    obligations: list[Scalar]
    mismatch: str | None = None
    argument: ScalarArgument | None = None

    def check(self, milliseconds: int, mode: FloatMode | None = None) -> Answer:
        """Ask z3 whether the claim is valid.

        Args:
            milliseconds: The limit of the query.
            mode: Which floats count; None outside of IEEE arithmetic.
        """
        solver = z3()
        negation = self._differences(mode)
        known = {c.get_id() for c in self.defined}
        negation += [solver.Not(c) for c in self.obligations if c.get_id() not in known]
        assumptions = [*self.defined, *self.semantics.facts]
        if mode == FloatMode.FINITE:
            assumptions += self._finite()
        answer = self._refute(negation, assumptions, milliseconds, self._easy(mode))
        if answer.holds and assumptions and self._is_vacuous(assumptions, milliseconds):
            return Answer(None, reason="the graph before is defined for no input")
        return answer

    def _refute(
        self,
        negation: Sequence[Scalar],
        assumptions: Sequence[Scalar],
        milliseconds: int,
        prefer: Sequence[Scalar] = (),
    ) -> Answer:
        """Look for a model of any of some formulas: of all at once, then of each.

        z3 counts few steps where many nonlinear terms meet, so that all at once take minutes
        where each alone takes milliseconds.
        """
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
        if answer.holds is not None or not parts:
            return answer
        for formula in negation:
            alone = [*assumptions, *self._laws([formula])]
            answer = refute([formula], alone, milliseconds=milliseconds, prefer=prefer)
            if not answer.holds:
                break
        if answer.holds is None:
            answer = refute(negation, known, milliseconds=milliseconds, prefer=prefer)
        return answer

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

    def close(self, milliseconds: int) -> str | None:
        """Return how close reals are, where rounded constants explain what they differ by.

        Everything but reals must still be equal.
        """
        solver = z3()
        largest = solver.Real("largest input")
        if self._within(
            lambda left: solver.If(left < 0, -left, left), _RELATIVE, milliseconds
        ):
            return CLOSE
        reals = self._reals()
        bounds = [c for s in reals for c in (s <= largest, -s <= largest)]
        bounds.append(largest >= 1)
        # Rounding is proportional to what is summed, which may cancel in the result.
        if self._within(lambda _: largest, _OF_INPUTS, milliseconds, bounds):
            return CLOSE_TO_INPUTS
        return None

    def _within(
        self,
        size: Callable[[Scalar], Scalar],
        share: str,
        milliseconds: int,
        bounds: Sequence[Scalar] = (),
    ) -> bool:
        solver, negation = z3(), []
        for before, left, right in self._elements():
            formula = differs(left, right)
            if formula is not None and is_float(before.dtype):
                gap, room = left - right, solver.RealVal(share) * size(left)
                formula = solver.Or(gap > room, -gap > room)
            if formula is not None:
                negation.append(formula)
        known = {c.get_id() for c in self.defined}
        negation += [solver.Not(c) for c in self.obligations if c.get_id() not in known]
        assumptions = [*self.defined, *self.semantics.facts, *bounds]
        answer = self._refute(negation, assumptions, milliseconds)
        return answer.holds is True

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
        return real and not _chooses(self.pair)

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
    """Evaluate both graphs, on scalars where an argument allows it, else on their shapes.

    Args:
        pair: Both graphs.
        semantics: The arithmetic.
        argument: Why scalars are enough; None if they are not.

    Raises:
        Unsupported: A graph has something without semantics.
    """
    feeds = (
        unknowns(pair.inputs, semantics) if argument is None else argument.unknowns(semantics)
    )
    before = evaluate(pair.before.graph, feeds, semantics)
    defined, semantics.defined = _conditions(semantics, before.values()), []
    after = evaluate(pair.after.graph, feeds, semantics)
    obligations, semantics.defined = _conditions(semantics, after.values()), []
    if not isinstance(semantics, IeeeSemantics) and _chooses(pair):
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
    pending: list[Scalar] = [s for tensor in outputs for s in tensor.data.flat]
    reached: set[int] = set()
    while pending:
        term = pending.pop()
        if term.get_id() not in reached:
            reached.add(term.get_id())
            pending.extend(term.children())
    return [condition for term, condition in semantics.defined if term.get_id() in reached]


def _chooses(pair: ModelPair) -> bool:
    return any(n.op_type == "Where" for m in (pair.before, pair.after) for n in m.graph)
