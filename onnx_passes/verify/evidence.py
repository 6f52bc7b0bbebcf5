"""Verdicts of checks, and evidence that an application of a rewrite keeps its promise.

This is plain data, so that a report can hold and write it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from enum import StrEnum

LEVEL = "level"
"""Kind of the checks that ask how far a compiler gets with a model."""

ENGINE = "engine"
"""Kind of checks that found an engine to treat the result other than the original."""

EXECUTED = "executed"
"""The level of a check that compared numbers; those below compared nothing."""

BY_STRUCTURE = "the nodes that the outputs depend on compute what they did"
"""Why a part is proved."""

AS_WRITTEN = "held against the original as written"
"""What is said of outputs that an engine gives, which rewrites graphs itself."""


class Verdict(StrEnum):
    """The outcome of a check, or of a whole pass."""

    PASSED = "passed"
    FAILED = "failed"
    UNCHANGED = "unchanged"
    NOT_VERIFIED = "not verified"


@dataclass(frozen=True)
class OutputCheck:
    """How one output of one sample compares.

    Attributes:
        output: Name of the output, with the path into sequences (``y[2]``).
        passed: Whether it keeps the contract.
        reason: Why it does not, in one clause ("shape is [3], expected [2,3]").
        max_abs: Largest absolute difference over finite elements, if both are numeric.
        max_rel: Largest relative difference over finite elements with nonzero reference.
        worst: Index of the worst element.
        expected: The reference's element at ``worst``, as text.
        actual: The candidate's element at ``worst``, as text.
        mismatched: Number of elements outside the limit.
        size: Number of elements.
        rtol: Relative tolerance that was applied (0 under equality).
        atol: Absolute tolerance that was applied (0 under equality).
        limit: What was allowed at ``worst``, the scale of a region included; None where
            elements must be equal.
        share: Largest difference as a share of what was allowed at its element; None where
            elements must be equal. Over 1 it fails.
        rmse_old: Root mean square error of the reference against one in float64, where that
            is what results are judged by.
        rmse_new: That of the candidate.
    """

    output: str
    passed: bool
    reason: str | None = None
    max_abs: float | None = None
    max_rel: float | None = None
    worst: tuple[int, ...] | None = None
    expected: str | None = None
    actual: str | None = None
    mismatched: int = 0
    size: int = 0
    rtol: float = 0.0
    atol: float = 0.0
    limit: float | None = None
    share: float | None = None
    rmse_old: float | None = None
    rmse_new: float | None = None


@dataclass(frozen=True)
class EngineSpread:
    """How far two runs of the original are apart, which no rewrite is to blame for.

    Attributes:
        output: Name of the output, with the path into sequences.
        between: What was run, as text: "two runs", ...
        max_abs: Largest absolute difference over finite elements.
        max_rel: Largest relative difference over finite elements.
    """

    output: str
    between: str
    max_abs: float
    max_rel: float


@dataclass(frozen=True)
class BudgetShare:
    """What a pass took of the error budget of one output.

    All but ``limit`` are shares of what is allowed: 1 is the whole budget.

    Attributes:
        output: Name of the output, with the path into sequences.
        step: How far the pass moved the output.
        total: How far the output is from the original.
        summed: Sum of the steps so far; more than ``total`` where errors cancel by luck.
        limit: What is allowed at the element that is nearest to its limit or beyond it.
    """

    output: str
    step: float
    total: float
    summed: float
    limit: float


@dataclass(frozen=True)
class MetricCheck:
    """One metric against its range.

    Attributes:
        name: Registered name of the metric.
        value: What was measured.
        low: Least value accepted.
        high: Greatest value accepted.
        samples: Number of samples it was measured on.
    """

    name: str
    value: float
    low: float
    high: float
    samples: int

    @property
    def passed(self) -> bool:
        """Whether the value lies in the range; NaN does not."""
        return self.low <= self.value <= self.high


@dataclass(frozen=True)
class Check:
    """One question put to one engine, or to the structure, and its answer.

    Attributes:
        kind: "structure", "interface", "equality", "tolerance", "metric", "drift", "level",
            "error-growth", or "engine": an engine treats two models otherwise that agree.
        verdict: The outcome.
        engine: Name of the engine; None where none is involved.
        scope: "model" for whole-model runs, "region" for changed regions only.
        reason: Why it failed or did not run, in one sentence.
        sample: Index of the reference sample that failed.
        outputs: Per output, the worst sample's comparison.
        metrics: Per metric.
        seconds: Wall time.
        budget: What a pass under tolerance took of each output's error budget.
        level: How far an engine got that compiles ("executed", "built", "parsed", "rejected",
            "absent"); None for checks of another kind.
    """

    kind: str
    verdict: Verdict
    engine: str | None = None
    scope: str = "model"
    reason: str | None = None
    sample: int | None = None
    outputs: tuple[OutputCheck, ...] = ()
    metrics: tuple[MetricCheck, ...] = ()
    seconds: float = 0.0
    budget: tuple[BudgetShare, ...] = ()
    level: str | None = None

    @property
    def compares(self) -> bool:
        """Whether an engine executed something, so that its verdict is about numbers."""
        return bool(self.engine) and self.level in (None, EXECUTED)

    @property
    def executes(self) -> bool:
        """Whether an engine ran something for it."""
        return self.compares and bool(self.outputs or self.metrics or self.level)

    @property
    def max_abs(self) -> float | None:
        """Largest absolute error over all outputs, None where none is numeric."""
        return max((o.max_abs for o in self.outputs if o.max_abs is not None), default=None)


@dataclass(frozen=True)
class Checks:
    """All checks after one pass."""

    checks: tuple[Check, ...] = field(default=())

    @property
    def verdict(self) -> Verdict:
        """Failed if any failed, else not verified if any was not, else passed.

        A compiler that executes nothing verifies nothing: what it says counts against a pass
        where it fails, and otherwise only where no engine compared numbers.
        """
        compared = any(check.compares for check in self.checks)
        counted = (
            c
            for c in self.checks
            if c.level in (None, EXECUTED) or c.verdict is Verdict.FAILED or not compared
        )
        verdicts = {check.verdict for check in counted}
        for verdict in (Verdict.FAILED, Verdict.NOT_VERIFIED, Verdict.PASSED):
            if verdict in verdicts:
                return verdict
        return Verdict.UNCHANGED


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


def each_application_executed(evidence: Collection[Evidence]) -> bool:
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
