"""Bisection: the least number for which a monotone predicate holds."""

from __future__ import annotations

from collections.abc import Callable, Sequence


def first_true(count: int, holds: Callable[[int], bool]) -> int:
    """Return the least n of 1 to ``count`` for which a monotone predicate holds.

    That it holds for ``count`` is known, and not asked.

    Args:
        count: The greatest n.
        holds: The predicate.
    """
    return first_of(0, count, lambda points: [holds(point) for point in points])


def first_of(
    low: int, high: int, hold: Callable[[Sequence[int]], Sequence[bool]], width: int = 1
) -> int:
    """Return the least number for which a monotone predicate holds, asking for some at a time.

    Args:
        low: A number for which it does not hold.
        high: A number for which it holds.
        hold: The predicate of each of some numbers between, in ascending order.
        width: The most numbers it is asked for at a time.
    """
    while high - low > 1:
        count = min(width, high - low - 1)
        spread = (low + (high - low) * i // (count + 1) for i in range(1, count + 1))
        points = [point for point in dict.fromkeys(spread) if point > low]
        found = list(hold(points))
        place = found.index(True) if True in found else len(points)
        high = points[place] if place < len(points) else high
        low = points[place - 1] if place else low
    return high


def first_above(
    count: int, measure: Callable[[int], float], final: float, threshold: float
) -> tuple[int, float, float]:
    """Return the least n whose score is above a threshold.

    Args:
        count: The greatest n.
        measure: Gives the score of n, asked for a logarithm of ``count`` times.
        final: The score of ``count``; that of 0 is taken for 0.
        threshold: What a good score is not above.

    Returns:
        n, the score of the one before it, and its own.
    """
    scores = {0: 0.0, count: final}

    def is_bad(n: int) -> bool:
        scores[n] = measure(n)
        return scores[n] > threshold

    found = first_true(count, is_bad)
    return found, scores.get(found - 1, 0.0), scores[found]
