"""What shows that an application of a rewrite keeps its promise."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """How strong the evidence is, the strongest first."""

    PROVED = "proved"
    EXECUTED = "executed"
    OUTPUTS_ONLY = "outputs only"
    BLIND = "blind"
    NOTHING = "nothing"

    @property
    def verifies(self) -> bool:
        """Whether a pass may be called verified on such evidence."""
        return self in (Kind.PROVED, Kind.EXECUTED, Kind.OUTPUTS_ONLY)


ORDER = tuple(Kind)
"""All kinds, the strongest first."""


@dataclass(frozen=True)
class Evidence:
    """What is known of one connected part of a change, and of the applications that made it.

    Attributes:
        what: The part, as text: the rules, or the operators before and after.
        kind: The strongest evidence found.
        numbers: Numbers of the applications in the pipeline; empty without a record.
        elements: Number of elements that were compared, over all samples.
        values: Names of the values that were compared, at most a few.
        reason: Where the part agreed, or why there is no stronger evidence, in one sentence.
        unobserved: Where it differs at values that no sample has; None where none was found.
    """

    what: str
    kind: Kind
    numbers: tuple[int, ...] = ()
    elements: int = 0
    values: tuple[str, ...] = ()
    reason: str | None = None
    unobserved: str | None = None

    @property
    def count(self) -> int:
        """Number of applications: those recorded, or the part itself."""
        return len(self.numbers) or 1


def vouches(evidence: Collection[Evidence]) -> bool:
    """Whether there is evidence, and every application was proved or executed by itself."""
    return bool(evidence) and weakest(e.kind for e in evidence) in (Kind.PROVED, Kind.EXECUTED)


def weakest(kinds: Iterable[Kind]) -> Kind:
    """Return the weakest of some kinds; proved where there is none."""
    return max(kinds, key=ORDER.index, default=Kind.PROVED)


def count_kinds(evidence: Iterable[Evidence]) -> Counter[Kind]:
    """Count applications by the kind of their evidence."""
    found: Counter[Kind] = Counter()
    for one in evidence:
        found[one.kind] += one.count
    return found
