"""How sure a number is: exact intervals, and bounds that hold at each look.

All intervals have two bounds, and each bound holds with the stated confidence. Exact
bounds raise ``UsageError`` if scipy is not installed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from onnx_passes.optional import import_optional

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
