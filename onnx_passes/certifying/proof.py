"""What the prover and the property test find: proofs, counterexamples and faults.

Proofs are plain data, so that a certificate can hold them. A fault holds both models and the
tensors that differ.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from onnx_passes.arrays import Array
from onnx_passes.contracts import Contract, Equality, Tolerance
from onnx_passes.model.diff import canonical_lines
from onnx_passes.plain import PlainDict, PlainMapping


class Outcome(StrEnum):
    """How a claim stands."""

    PROVED = "proved"
    REFUTED = "refuted"
    UNDECIDED = "undecided"
    NOT_APPLICABLE = "not applicable"


class Arithmetic(StrEnum):
    """The arithmetics a rule can hold in."""

    BOOL = "bool"
    INT = "int"
    REAL = "real"
    IEEE = "ieee"


class FloatMode(StrEnum):
    """How two IEEE floats are compared, strongest first. NaN equals NaN in all of them."""

    STRICT = "strict"
    ZEROS_EQUAL = "signed zeros equal"
    FINITE = "finite only"


CUTS = "Split and Slice cut where they do here: between or within operands"
"""The condition on sizes of a proof in which an axis is cut at a number."""


@dataclass(frozen=True, slots=True)
class Coverage:
    """What a verdict ranges over.

    `everywhere` means every size; otherwise `text` lists the shapes. `conditions` are further
    assumptions, such as "constant c = 0.5".
    """

    everywhere: bool
    text: str
    conditions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Counterexample:
    """Inputs on which the two sides differ, and what differs in one clause."""

    feeds: Mapping[str, npt.NDArray[np.generic]]
    expected: Mapping[str, npt.NDArray[np.generic]]
    actual: Mapping[str, npt.NDArray[np.generic]]
    reason: str


@dataclass(frozen=True, slots=True)
class ArithmeticVerdict:
    """The verdict in one arithmetic.

    `method` is "scalar argument", "block normal form", "bounded z3" or "replay"; it is empty,
    and `coverage` None, if nothing was decided. `mode` is the strongest comparison that was
    proved in IEEE arithmetic, in `formats`.
    """

    arithmetic: Arithmetic
    outcome: Outcome
    method: str = ""
    coverage: Coverage | None = None
    mode: FloatMode | None = None
    formats: tuple[str, ...] = ()
    reason: str = ""
    counterexample: Counterexample | None = None

    def as_dict(self) -> PlainDict:
        """Return the judgement as JSON has it, without the tensors of a counterexample."""
        plain: PlainDict = asdict(replace(self, counterexample=None))
        del plain["counterexample"]
        return plain


# The order in which judgements on several templates are merged: the first one present counts.
_SEVERITY = (
    Outcome.REFUTED,
    Outcome.UNDECIDED,
    Outcome.PROVED,
    Outcome.NOT_APPLICABLE,
)


NEAR = "on a constant that the pattern or guard takes for another within a tolerance"
"""Note on a refutation that the author of a rule may have meant."""


@dataclass(frozen=True, slots=True)
class Proof:
    """The verdicts on a rule, or on one pair of graphs.

    `judgements` has one per arithmetic, in the order of ``Arithmetic``. `templates` counts the
    pairs of graphs they rest on. Nothing beyond `covers` is claimed. If the clock stopped the
    solver (`out_of_time`), nothing is decided.
    """

    judgements: tuple[ArithmeticVerdict, ...]
    templates: int = 1
    covers: PlainMapping = field(default_factory=dict)
    out_of_time: bool = False

    def __getitem__(self, arithmetic: Arithmetic) -> ArithmeticVerdict:
        return next(j for j in self.judgements if j.arithmetic == arithmetic)

    def as_dict(self) -> PlainDict:
        """Return the proof as JSON has it; equal proofs give equal dictionaries."""
        contract = self.contract
        return {
            "outcome": str(self.outcome),
            "contract": None if contract is None else str(contract),
            "judgements": [j.as_dict() for j in self.judgements],
            "templates": self.templates,
            "covers": dict(self.covers),
        }

    @property
    def outcome(self) -> Outcome:
        """The outcome over all arithmetics.

        Refuted where the exact arithmetic (real, int, bool) is. A rule that holds over the
        reals and not in IEEE arithmetic is proved, with a tolerance for its contract.
        """
        exact = [j.outcome for j in self.judgements if j.arithmetic != Arithmetic.IEEE]
        outcome = next((o for o in _SEVERITY if o in exact), Outcome.NOT_APPLICABLE)
        ieee = self[Arithmetic.IEEE].outcome
        if outcome == Outcome.UNDECIDED and ieee == Outcome.PROVED:
            return Outcome.PROVED
        return outcome

    @property
    def counterexample(self) -> Counterexample | None:
        """The first counterexample, those of the exact arithmetics first."""
        found = (j.counterexample for j in self.judgements)
        return next((c for c in found if c is not None), None)

    @property
    def contract(self) -> Contract | None:
        """The strongest contract the evidence supports; None where there is none.

        Equality needs a proof in every arithmetic that applies, IEEE included, infinities and
        NaN included. A rule that is proved over the reals or for finite values alone earns a
        tolerance.
        """
        if self.outcome != Outcome.PROVED:
            return None
        ieee = self[Arithmetic.IEEE]
        if ieee.outcome == Outcome.NOT_APPLICABLE:
            return Equality()
        exact = ieee.outcome == Outcome.PROVED and ieee.mode != FloatMode.FINITE
        return Equality() if exact else Tolerance()


def merge(proofs: list[Proof]) -> Proof:
    """Return the verdicts that hold for every one of ``proofs``.

    A refutation of one refutes all; of several proofs the one that covers least is kept.
    """
    judgements = []
    for arithmetic in Arithmetic:
        candidates = [p[arithmetic] for p in proofs]
        weakest = min(candidates, key=_weakest_first)
        if weakest.outcome == Outcome.PROVED:
            weakest = replace(weakest, coverage=_joint_coverage(weakest, candidates))
        judgements.append(weakest)
    return Proof(tuple(judgements), sum(p.templates for p in proofs))


def _joint_coverage(
    weakest: ArithmeticVerdict, candidates: list[ArithmeticVerdict]
) -> Coverage | None:
    covered = [c.coverage for c in candidates if c.coverage is not None]
    if weakest.coverage is None or not covered:
        return None
    everywhere = weakest.coverage.everywhere
    texts = dict.fromkeys(c.text for c in covered if c.everywhere == everywhere)
    conditions = dict.fromkeys(condition for c in covered for condition in c.conditions)
    return Coverage(everywhere, "; ".join(texts), tuple(conditions))


def _weakest_first(judgement: ArithmeticVerdict) -> tuple[int, bool, int]:
    modes = [None, *FloatMode]
    everywhere = judgement.coverage is not None and judgement.coverage.everywhere
    return (
        _SEVERITY.index(judgement.outcome),
        everywhere,
        -modes.index(judgement.mode),
    )


_SHOWN = 64
"""Elements of an array that a report shows."""


@dataclass(frozen=True, eq=False)
class Fault:
    """What a rule broke, with all it takes to see it.

    `kind` is the surrounding of the model, and `after` None if the rule returned nothing.
    `breaks` is "values" for any contract, "bits" for equality alone, "model" for an invalid
    result, "rule" if the rule fails, or "engine" if the engine runs only the original. Faults
    of the same cause mostly share `sort`.
    """

    reason: str
    kind: str
    before: ir.Model
    after: ir.Model | None = None
    found: Counterexample | None = None
    breaks: str = "values"
    sort: str = ""

    def text(self) -> str:
        """Return both models as text, with the tensors that show the difference."""
        lines = [f"{self.reason} ({self.kind})", "before:", *_indented(self.before)]
        if self.after is not None:
            lines += ["after:", *_indented(self.after)]
        if self.found is not None:
            sides = {
                "input": self.found.feeds,
                "expected": self.found.expected,
                "actual": self.found.actual,
            }
            lines += [
                f"{word} {name} = {array.dtype}{list(array.shape)} {_numbers(array)}"
                for word, side in sides.items()
                for name, array in side.items()
            ]
        return "\n".join(lines)


def _numbers(array: Array) -> str:
    """Return the numbers of an array; of many, the first few."""
    if array.size <= _SHOWN:
        return str(array.tolist())
    return f"[{', '.join(map(str, array.reshape(-1)[:_SHOWN].tolist()))}, ...]"


def _indented(model: ir.Model) -> list[str]:
    return [f"  {line}" for line in canonical_lines(model)]
