"""What a run over a data set must show, how sure a number is, and when enough is known.

All intervals have two bounds, and each bound holds with the stated confidence. Exact bounds
raise ``UsageError`` if scipy is not installed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum

from onnx_passes.data.measures import PairState
from onnx_passes.errors import UsageError
from onnx_passes.optional import import_optional
from onnx_passes.plain import PlainDict, spelled

_BETS = tuple(2.0**-power for power in range(8))
"""Shares of the largest bet; the evidence is the mean over them."""


@dataclass(frozen=True)
class Interval:
    """A number with its bounds. Either bound holds with ``confidence``."""

    value: float
    low: float
    high: float
    confidence: float


def clopper_pearson(hits: int, count: int, confidence: float) -> Interval:
    """Return a share with its exact bounds (Clopper and Pearson, 1934)."""
    inverse = import_optional("scipy.special").betaincinv
    alpha = 1 - confidence
    low = float(inverse(hits, count - hits + 1, alpha)) if hits else 0.0
    high = float(inverse(hits + 1, count - hits, 1 - alpha)) if hits < count else 1.0
    return Interval(hits / count, low, high, confidence)


@dataclass(frozen=True)
class DecisionFlips:
    """Paired decisions on independent samples.

    ``lost`` are right in the reference and wrong in the candidate; ``gained`` is the reverse.
    """

    lost: int
    gained: int
    count: int

    @property
    def drop(self) -> float:
        """The accuracy that is lost, as a share of the samples."""
        return (self.lost - self.gained) / self.count if self.count else 0.0

    def interval(self, confidence: float) -> Interval:
        """Return the drop with bounds for a number of samples that was fixed before.

        The bounds are those of losses and gains by :func:`clopper_pearson`, each at half of
        the error, so that they hold whatever the two depend on.
        """
        half = 1 - (1 - confidence) / 2
        lost = clopper_pearson(self.lost, self.count, half)
        gained = clopper_pearson(self.gained, self.count, half)
        low, high = lost.low - gained.high, lost.high - gained.low
        return Interval(self.drop, low, high, confidence)

    def evidence_below(self, limit: float) -> float:
        """Return the logarithm of the evidence that the drop is below a limit.

        It is the capital of a bettor against "the drop is at least the limit", started with 1.
        If that holds, the capital ever reaches 1/a with a probability of at most a (Ville,
        1939), so that one may look after each shard and stop. The bets are fixed beforehand:
        the capital is the mean over them (Waudby-Smith and Ramdas, 2023). The limit is above
        -1 and below 1.
        """
        most = 1 / (1 - limit)
        return _log_mean([self._capital(bet * most, limit) for bet in _BETS])

    def evidence_above(self, limit: float) -> float:
        """Return the logarithm of the evidence that the drop is above a limit."""
        return DecisionFlips(self.gained, self.lost, self.count).evidence_below(-limit)

    def _capital(self, bet: float, limit: float) -> float:
        same = self.count - self.lost - self.gained
        total = 0.0
        for number, gain in ((self.lost, limit - 1), (self.gained, limit + 1), (same, limit)):
            if number:
                factor = bet * gain
                total += number * math.log1p(factor) if factor > -1 else -math.inf
        return total

    def sequence(self, confidence: float) -> Interval:
        """Return the drop with bounds that hold at all looks together."""
        wanted = -math.log(1 - confidence)
        high = _edge(lambda m: self.evidence_below(m) < wanted, self.drop, 1.0)
        low = -_edge(lambda m: self.evidence_above(-m) < wanted, -self.drop, 1.0)
        return Interval(self.drop, low, high, confidence)


def _log_mean(logs: list[float]) -> float:
    top = max(logs)
    if top == -math.inf:
        return top
    return top + math.log(math.fsum(math.exp(log - top) for log in logs) / len(logs))


def _edge(inside: Callable[[float], bool], low: float, high: float) -> float:
    """Return where a predicate that holds at ``low`` ends, within 1e-7; at most ``high``."""
    high -= 1e-9
    if inside(high):
        return 1.0
    while high - low > 1e-7:
        middle = (low + high) / 2
        low, high = (middle, high) if inside(middle) else (low, middle)
    return high


class RunOutcome(StrEnum):
    """How a run over a data set ends."""

    PASSED = "passed"
    FAILED = "failed"
    UNDECIDED = "not verified"
    INCOMPLETE = "incomplete"


EXIT_CODES = {
    RunOutcome.PASSED: 0,
    RunOutcome.FAILED: 1,
    RunOutcome.UNDECIDED: 4,
    RunOutcome.INCOMPLETE: 5,
}


@dataclass(frozen=True)
class Accuracy:
    """How much accuracy a candidate may lose, and how sure that has to be.

    ``drop`` is a share of the samples. Each verdict, passed or failed, is right with at least
    the probability ``confidence``. ``early`` stops as soon as it is known.
    """

    drop: float
    confidence: float = 0.95
    early: bool = False

    def __post_init__(self) -> None:
        """Raise ``UsageError`` if a number is out of range."""
        if not 0 <= self.drop < 1:
            raise UsageError(
                f"the drop of accuracy must be from 0 % on and below 100 %: {self.drop:.4%}"
            )
        if not 0.5 <= self.confidence < 1:
            raise UsageError(
                f"the confidence must be from 50 % on and below 100 %: {self.confidence:.4%}"
            )

    def interval(self, flips: DecisionFlips) -> Interval:
        """Return the drop with its bounds."""
        if self.early:
            return flips.sequence(self.confidence)
        return flips.interval(self.confidence)

    def decide(self, flips: DecisionFlips) -> RunOutcome:
        """Return what is known of the drop."""
        if not flips.count:
            return RunOutcome.UNDECIDED
        if self.early:
            wanted = -math.log(1 - self.confidence)
            if flips.evidence_below(self.drop) >= wanted:
                return RunOutcome.PASSED
            if flips.evidence_above(self.drop) >= wanted:
                return RunOutcome.FAILED
            return RunOutcome.UNDECIDED
        found = self.interval(flips)
        if found.high <= self.drop:
            return RunOutcome.PASSED
        return RunOutcome.FAILED if found.low > self.drop else RunOutcome.UNDECIDED

    def needed(self, flips: DecisionFlips) -> int | None:
        """Return about how many samples would decide, if shares stay; None for too many."""
        for step in range(1, 4 * _MOST_DOUBLINGS):
            factor = 2 ** (step / 4)
            more = DecisionFlips(
                *(round(n * factor) for n in (flips.lost, flips.gained, flips.count))
            )
            if self.decide(more) is not RunOutcome.UNDECIDED:
                return more.count
        return None


_MOST_DOUBLINGS = 20
"""More than a million times as many samples are not worth a number."""


@dataclass(frozen=True)
class Demand:
    """What is demanded of each candidate.

    If ``accuracy`` is ``None``, outputs are held to their limits. ``metrics`` are ranges by
    name. ``confidence`` is that of the bounds in a report.
    """

    accuracy: Accuracy | None = None
    metrics: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    confidence: float = 0.95

    @property
    def early(self) -> bool:
        """Whether a run may stop before all samples are evaluated."""
        return self.accuracy is not None and self.accuracy.early and not self.metrics

    def enough(self, states: list[PairState]) -> bool:
        """Whether the verdict on all candidates is known, or one failed."""
        if not self.early or self.accuracy is None:
            return False
        decided = [self.accuracy.decide(flips_of(state)) for state in states]
        return RunOutcome.FAILED in decided or all(d is RunOutcome.PASSED for d in decided)

    def judge(self, state: PairState, *, alone: bool) -> PlainDict:
        """Return the verdict as JSON; ``alone`` says that there is only the reference."""
        found: PlainDict = {"statistics": self._statistics(state)}
        verdicts = [self._judge_metrics(state, found)] if self.metrics else []
        if self.accuracy is not None:
            verdicts.append(self._judge_accuracy(state, found))
        elif not alone and not self.metrics:
            verdicts.append(self._judge_outputs(state, found))
        for outcome in (RunOutcome.FAILED, RunOutcome.UNDECIDED):
            if outcome in verdicts:
                return found | {"outcome": str(outcome)}
        outcome = RunOutcome.PASSED if state.samples else RunOutcome.UNDECIDED
        return found | {"outcome": str(outcome)}

    def _statistics(self, state: PairState) -> PlainDict:
        """Return bounds of what is a share of independent samples."""
        found: PlainDict = {"confidence": self.confidence}
        if not state.samples:
            return found
        shares = {"failing_samples": (state.failing, state.samples)}
        classes = state.classes
        if classes.rows == state.samples:
            shares["flips"] = classes.flips, classes.rows
            if classes.labelled:
                for side in ("left", "right"):
                    shares[f"accuracy_{side}"] = classes.correct(side), classes.labelled
        for name, (hits, count) in shares.items():
            found[name] = asdict(clopper_pearson(hits, count, self.confidence))
        return found

    def _judge_accuracy(self, state: PairState, found: PlainDict) -> RunOutcome:
        assert self.accuracy is not None
        rule, flips = self.accuracy, flips_of(state)
        outcome = rule.decide(flips)
        bounds = rule.interval(flips) if flips.count else None
        found["accuracy"] = {
            "drop": spelled(flips.drop),
            "limit": rule.drop,
            "lost": flips.lost,
            "gained": flips.gained,
            "samples": flips.count,
            "low": None if bounds is None else bounds.low,
            "high": None if bounds is None else bounds.high,
            "confidence": rule.confidence,
            "early": rule.early,
        }
        if outcome is RunOutcome.UNDECIDED and flips.count:
            found["accuracy"]["samples_needed"] = rule.needed(flips)
        return outcome

    def _judge_outputs(self, state: PairState, found: PlainDict) -> RunOutcome:
        found["outputs"] = {"failing_samples": state.failing, "samples": state.samples}
        if state.failing:
            return RunOutcome.FAILED
        return RunOutcome.PASSED if state.samples else RunOutcome.UNDECIDED

    def _judge_metrics(self, state: PairState, found: PlainDict) -> RunOutcome:
        values = state.metrics.finish()
        found["metrics"] = {
            name: {"value": values[name], "low": spelled(low), "high": spelled(high)}
            for name, (low, high) in self.metrics.items()
        }
        inside = all(
            low <= float(values[name]) <= high for name, (low, high) in self.metrics.items()
        )
        return RunOutcome.PASSED if inside else RunOutcome.FAILED


def flips_of(state: PairState) -> DecisionFlips:
    """Return the paired decisions; ``UsageError`` if samples do not have one label each."""
    classes = state.classes
    if not state.samples:
        return DecisionFlips(0, 0, 0)
    if not classes.labelled:
        raise UsageError(
            "accuracy is demanded, and the data has no labels for an output of class scores",
            help="name the column of labels (labels=COLUMN), and the output (--scores NAME)",
        )
    if classes.labelled != state.samples:
        raise UsageError(
            f"accuracy is demanded with a confidence, and {classes.labelled:,} labels belong "
            f"to {state.samples:,} samples, so that they are not independent",
            help="use a metric with a range instead: --metric NAME=LOW:HIGH",
        )
    return DecisionFlips(
        classes.paired["only_left"], classes.paired["only_right"], classes.labelled
    )
