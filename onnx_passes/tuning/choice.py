"""From scores to choices: what a choice is expected to lose and cost, and the best one."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from onnx_passes.runtime.base import Array, Outputs
from onnx_passes.tuning.budget import Budget, Spent
from onnx_passes.tuning.formats import FLOAT32
from onnx_passes.tuning.score import Score, predict
from onnx_passes.tuning.solve import solve

Choice = tuple[int, ...]
"""Number of the option of each group."""

_ALL = 1 << 13
"""Up to so many choices are all looked at; beyond, an integer program proposes some."""
_CUTS = 24


@dataclass
class Table:
    """The options of each group.

    Attributes:
        rows: By group, its scores; float32 first, refused formats left out.
        outputs: Outputs of the original on the samples of the scores.
        budget: What may be lost.
        factor: What a prediction is multiplied with, by what was measured so far.
        weights: What the loss of one group is multiplied with: more than 1 where a
            bisection found that it loses more beside others.
    """

    rows: list[list[Score]]
    outputs: Sequence[Outputs]
    budget: Budget
    factor: float = 1.0
    weights: dict[str, float] = field(default_factory=dict)
    _known: dict[Choice, Spent] = field(default_factory=dict)

    @property
    def start(self) -> Choice:
        """All in float32."""
        return (0,) * len(self.rows)

    def scores(self, choice: Choice) -> list[Score]:
        """Return the scores of the groups that are not in float32."""
        picked = [row[pick] for row, pick in zip(self.rows, choice, strict=True)]
        return [score for score in picked if score.format != FLOAT32]

    def names(self, choice: Choice) -> dict[str, str]:
        """Return the format of each group."""
        return {
            row[pick].group: row[pick].format
            for row, pick in zip(self.rows, choice, strict=True)
        }

    def cost(self, choice: Choice) -> float:
        """Return the sum of the costs of the groups."""
        return sum(row[pick].cost for row, pick in zip(self.rows, choice, strict=True))

    def predict(self, choice: Choice) -> Spent:
        """Return what a choice is expected to use of the budget."""
        if choice not in self._known:
            found = predict(self.outputs, self.scores(choice))
            self._known[choice] = self.budget.measure(found, self.outputs, sure=False)
        return self._known[choice]

    def expected(self, choice: Choice) -> float:
        """Return the share of the budget that a choice is expected to use, as corrected."""
        changed = [score.group for score in self.scores(choice)]
        weight = max((self.weights.get(name, 1.0) for name in changed), default=1.0)
        return self.predict(choice).total * self.factor * weight

    def size(self) -> int:
        """Return the number of choices."""
        return math.prod(len(row) for row in self.rows)

    def alone(self, row: int, option: int) -> Choice:
        """Return the choice in which one group has an option, and all others float32."""
        return tuple(option if i == row else 0 for i in range(len(self.rows)))

    def changed(self, choice: Choice, row: int, option: int) -> Choice:
        """Return a choice in which one group has another option."""
        return (*choice[:row], option, *choice[row + 1 :])

    def replace(
        self,
        row: int,
        option: int,
        beside: Choice,
        before: Sequence[Outputs],
        after: Sequence[Outputs],
    ) -> None:
        """Replace how far an option moves the outputs by what was measured.

        Args:
            row: The group.
            option: The option.
            beside: The choice that it was measured beside, in which the group has another.
            before: Outputs of that choice.
            after: Outputs with the option.
        """
        old = self.rows[row][beside[row]].effect if beside[row] else ()
        effect: list[dict[str, Array]] = []
        for place, (first, second) in enumerate(zip(before, after, strict=True)):
            moved = dict(old[place]) if place < len(old) else {}
            for name, value in second.items():
                found = np.asarray(value)
                if found.dtype.kind == "f" and found.shape == np.shape(first[name]):  # type: ignore[arg-type]
                    moved[name] = found - np.asarray(first[name]) + moved.get(name, 0)
            effect.append(moved)
        self.rows[row][option] = dataclasses.replace(self.rows[row][option], effect=effect)
        self._known.clear()

    def best(
        self, limit: float, below: float, without: set[Choice]
    ) -> tuple[Choice | None, float]:
        """Return the cheapest choice that is expected to keep the budget.

        Args:
            limit: The share of the budget that may be used.
            below: It has to cost less than this.
            without: Choices that were tried and found wrong.

        Returns:
            The choice, or None; and a bound: no choice that is expected to keep the budget
            costs less.
        """
        if self.size() <= _ALL:
            return self._exactly(limit, below, without)
        return self._by_program(limit, below, without)

    def _exactly(
        self, limit: float, below: float, without: set[Choice]
    ) -> tuple[Choice | None, float]:
        options = [range(len(row)) for row in self.rows]
        every = [c for c in itertools.product(*options) if c not in without]
        for choice in sorted(every, key=self.cost):
            cost = self.cost(choice)
            if cost >= below:
                break
            if self.expected(choice) <= limit:
                return choice, cost
        return None, below

    def _by_program(
        self, limit: float, below: float, without: set[Choice]
    ) -> tuple[Choice | None, float]:
        costs = [np.array([score.cost for score in row]) for row in self.rows]
        kinds = sorted(self.predict(self.start).shares)
        losses = [
            np.array([self._losses(i, k, kinds) for k in range(len(row))])
            for i, row in enumerate(self.rows)
        ]
        room, tried, bound = 1.0, set(without), -math.inf
        best: Choice | None = None
        for _ in range(_CUTS):
            limits = np.full(len(kinds), limit * room)
            found = solve(costs, losses, limits, without=sorted(tried))
            if found is None:
                break
            bound = max(bound, found.bound) if room >= 1.0 else bound
            if found.cost >= below:
                break
            share = self.expected(found.picks)
            if share <= limit:
                best = found.picks
                break
            tried.add(found.picks)
            room *= max(0.5, min(0.97, limit / share)) if math.isfinite(share) else 0.5
        if best is not None:
            best = self._improve(best, limit, without)
        cost = below if best is None else self.cost(best)
        return best, min(cost, bound) if math.isfinite(bound) else cost

    def _losses(self, row: int, option: int, kinds: Sequence[str]) -> list[float]:
        spent = self.predict(self.alone(row, option)).shares
        name = self.rows[row][option].group
        weight = self.factor * self.weights.get(name, 1.0)
        return [spent.get(kind, 0.0) * weight for kind in kinds]

    def _improve(self, choice: Choice, limit: float, without: set[Choice]) -> Choice:
        """Change the formats of one or two groups as long as that is cheaper and allowed."""
        while True:
            cost = self.cost(choice)
            for other in sorted(self._near(choice), key=self.cost):
                if self.cost(other) >= cost:
                    return choice
                if other not in without and self.expected(other) <= limit:
                    choice = other
                    break
            else:
                return choice

    def _near(self, choice: Choice) -> Iterator[Choice]:
        changes = [
            (i, k)
            for i, row in enumerate(self.rows)
            for k in range(len(row))
            if k != choice[i]
        ]
        for i, k in changes:
            yield (*choice[:i], k, *choice[i + 1 :])
        if len(changes) > 64:
            return
        for (i, k), (j, m) in itertools.combinations(changes, 2):
            if i != j:
                other = list(choice)
                other[i], other[j] = k, m
                yield tuple(other)


def front(table: Table, steps: Sequence[float]) -> list[tuple[Choice, float, float]]:
    """Return choices that are not worse than another in both expected loss and cost.

    Args:
        table: The options.
        steps: Shares of the budget for which a choice is looked for.

    Returns:
        Choice, expected share of the budget, cost; the dearest first.
    """
    found = {table.start}
    for step in steps:
        choice, _ = table.best(step, math.inf, set())
        if choice is not None:
            found.add(choice)
    points = [(choice, table.expected(choice), table.cost(choice)) for choice in found]
    return [
        point
        for point in sorted(points, key=lambda p: (p[1], p[2]))
        if not any(o[1] <= point[1] and o[2] < point[2] for o in points)
    ]


def by_format(
    groups: Mapping[str, Sequence[str]], names: Mapping[str, str]
) -> dict[str, list[str]]:
    """Return the names of nodes by format.

    Args:
        groups: Names of nodes by group.
        names: Format by group.
    """
    found: dict[str, list[str]] = {}
    for group, name in names.items():
        found.setdefault(name, []).extend(groups[group])
    return found
