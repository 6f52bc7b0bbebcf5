"""Smallest sets of nodes that fail: bisection, one at a time, delta debugging."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Literal, Protocol, TypeAlias

from onnx_passes.verify.bisection import first_of
from onnx_passes.verify.reduce.parts import Nodes, Parts, reach

Mode: TypeAlias = Literal["auto", "bisect", "linear", "ddmin"]
MODES: tuple[Mode, ...] = ("auto", "bisect", "linear", "ddmin")


class PartJudge(Protocol):
    """Returns the parts that fail; what cannot be judged does not."""

    @property
    def width(self) -> int:
        """How many parts are judged at a time."""
        ...

    def fail(self, parts: Sequence[Nodes]) -> list[bool]:
        """Judge some parts, at most ``width`` of them."""
        ...


def search(parts: Parts, judge: PartJudge, mode: Mode, bad: Nodes) -> Nodes:
    """Return a set of nodes that fails, as small as the mode finds.

    ``bisect`` finds the earliest end of a failing part and then its latest start, in a
    logarithmic number of checks. ``linear`` removes one node at a time until none can go,
    ``ddmin`` halves of what is left first (Zeller and Hildebrandt, 2002). ``auto`` bisects for
    one node after the other without which nothing fails, looking near those it knows first (as
    QuickXplain does for constraints; Junker, 2004). It ends with ``ddmin``, so that no single
    node can be removed from the result.

    Args:
        parts: The model.
        judge: Judges parts.
        mode: How to search.
        bad: The nodes to begin with, which fail.
    """
    run = _Minimiser(parts, judge)
    if mode == "bisect":
        return run.latest_start(run.earliest_end(bad))
    if mode == "linear":
        return run.one_by_one(bad)
    if mode == "ddmin":
        return run.ddmin(bad, pieces=2)
    if len(bad) > 2:  # of two, each is tried alone either way
        bad = run.needed(bad)
    return run.ddmin(bad, pieces=len(bad))


class _Minimiser:
    def __init__(self, parts: Parts, judge: PartJudge) -> None:
        self.parts, self.judge = parts, judge

    def earliest_end(self, bad: Nodes) -> Nodes:
        order = sorted(bad)
        count = self.shortest(order, lambda n: self.parts.trim(order[:n]), low=0)
        return self.parts.trim(order[:count])

    def latest_start(self, bad: Nodes) -> Nodes:
        order = sorted(bad)
        total = len(order)
        count = self.shortest(order, lambda n: self.parts.trim(order[total - n :]), low=0)
        return self.parts.trim(order[total - count :])

    def shortest(self, order: Sequence[int], part: _Part, *, low: int) -> int:
        """Return the least number for which a part fails, above one that does not."""

        def fail(points: Sequence[int]) -> list[bool]:
            return self.failing([part(point) for point in points])

        return first_of(low, len(order), fail, self.judge.width)

    def failing(self, candidates: Sequence[Nodes]) -> list[bool]:
        """Judge parts; one without nodes does not fail."""
        real = [kept for kept in candidates if kept]
        told = iter(self.judge.fail(real) if real else ())
        return [next(told) if kept else False for kept in candidates]

    def first(self, candidates: Sequence[Nodes]) -> Nodes | None:
        """Return the first part that fails."""
        for start in range(0, len(candidates), self.judge.width):
            batch = candidates[start : start + self.judge.width]
            for kept, wrong in zip(batch, self.failing(batch), strict=True):
                if wrong:
                    return kept
        return None

    def one_by_one(self, bad: Nodes) -> Nodes:
        shrunk = True
        while shrunk and len(bad) > 1:
            shrunk = False
            left = sorted(bad)
            while left:
                batch, left = left[-self.judge.width :], left[: -self.judge.width]
                tries = [self.parts.trim(bad - {i}) for i in reversed(batch) if i in bad]
                kept = self.first([t for t in tries if len(t) < len(bad)])
                if kept is not None:
                    left += [i for i in batch if i in kept and i not in left]
                    left = [i for i in left if i in kept]
                    bad, shrunk = kept, True
        return bad

    def ddmin(self, bad: Nodes, *, pieces: int) -> Nodes:
        while len(bad) > 1:
            order = sorted(bad)
            pieces = max(2, min(pieces, len(order)))
            chunks = [frozenset(chunk) for chunk in _split(order, pieces)]
            single = pieces == len(order) > 2  # that one node fails alone was known before
            alone = [] if single else [self.parts.trim(chunk) for chunk in chunks]
            kept = self.first([t for t in alone if len(t) < len(bad)])
            if kept is not None:
                bad, pieces = kept, 2
                continue
            # Of two chunks, each is what the other leaves.
            left = chunks if pieces > 2 else ()
            without = [self.parts.trim(bad - chunk) for chunk in left]
            kept = self.first([t for t in without if len(t) < len(bad)])
            if kept is not None:
                bad, pieces = kept, pieces - 1
            elif pieces == len(order):
                break
            else:
                pieces = 2 * pieces
        return bad

    def needed(self, bad: Nodes) -> Nodes:
        """Find one after the other node without which nothing fails, the last one first."""
        found: list[int] = []
        rest = sorted(bad)
        while rest:
            count = self._count(found, rest)
            if count == 0:
                break
            found.append(rest[count - 1])
            rest = self._nearest(found, rest[: count - 1])
        return self.parts.grow(found)

    def _count(self, found: Sequence[int], rest: Sequence[int]) -> int:
        """Return how many of the rest, from the first on, it takes to fail."""

        def part(count: int) -> Nodes:
            return self.parts.grow([*found, *rest[:count]])

        if not found:
            return self.shortest(rest, part, low=0)
        low, step = -1, 0
        while step < len(rest):
            # What is missing is near; steps get longer, in case that it is not.
            steps = [step]
            while len(steps) < self.judge.width and 2 * steps[-1] < len(rest):
                steps.append(max(1, 2 * steps[-1]))
            wrong = self.failing([part(s) for s in steps])
            for each, bad in zip(steps, wrong, strict=True):
                if bad:
                    return self.shortest(rest[:each], part, low=low)
                low = each
            step = max(1, 2 * steps[-1])
        return self.shortest(rest, part, low=low)

    def _nearest(self, found: Sequence[int], rest: Sequence[int]) -> list[int]:
        """Sort nodes: between those that are needed first, then by their distance to these."""
        inside = reach(found, self.parts.children) & reach(found, self.parts.parents)
        distance = dict.fromkeys(found, 0)
        frontier = list(found)
        while frontier:
            following = []
            for index in frontier:
                for other in (*self.parts.parents[index], *self.parts.children[index]):
                    if other not in distance:
                        distance[other] = distance[index] + 1
                        following.append(other)
            frontier = following
        far = len(self.parts.nodes)
        return sorted(rest, key=lambda i: (i not in inside, distance.get(i, far), -i))


class _Part(Protocol):
    def __call__(self, count: int, /) -> Nodes:
        """Return the part of the first nodes of an order."""
        ...


def _split(order: list[int], pieces: int) -> list[list[int]]:
    bounds = [len(order) * i // pieces for i in range(pieces + 1)]
    return [order[a:b] for a, b in pairwise(bounds)]
