"""From scores to choices: what a choice is expected to lose and cost, and the best one."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce

import numpy as np

from onnx_passes.arrays import Array
from onnx_passes.runtime.engine_base import Outputs
from onnx_passes.tuning.choice_runs import Choice, ChoiceRuns, are_alike, predict
from onnx_passes.tuning.format_scores import Score
from onnx_passes.tuning.integer_program import list_neighbours, solve
from onnx_passes.tuning.loss_budget import LossBudget, Spent
from onnx_passes.tuning.part_formats import FLOAT32

ALL = 1 << 13
"""Number of choices up to which all are evaluated; an integer program proposes beyond."""
_CUTS = 24


@dataclass
class ChoiceTable:
    """The options of each group.

    Attributes:
        rows: By group, its scores; float32 first, refused formats left out.
        outputs: Outputs of the original on the samples of the scores.
        budget: What may be lost.
        factor: What a prediction is multiplied with: how much more than on the samples of the
            scores was lost on all.
        weights: What the loss of one group is multiplied with: more than 1 where a
            bisection found that it loses more beside others.
        spread: Returns outputs of all samples, made of those of the samples of the scores.
    """

    rows: list[list[Score]]
    outputs: Sequence[Outputs]
    budget: LossBudget
    factor: float = 1.0
    weights: dict[str, float] = field(default_factory=dict)
    spread: Callable[[Sequence[Outputs]], Sequence[Outputs]] = lambda outputs: outputs
    _known: dict[Choice, tuple[Choice, Spent]] = field(default_factory=dict)
    _alone: dict[Choice, Spent] = field(default_factory=dict)
    _runs: ChoiceRuns = field(default_factory=ChoiceRuns)
    _every: tuple[Array, Array, Array] | None = None
    _reference: Sequence[Outputs] | None = None
    _ratio: float | None = None

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

    def note(self, choice: Choice, outputs: Sequence[Outputs]) -> None:
        """Take the outputs of a choice: others are predicted from the nearest that was run.

        Args:
            choice: The choice.
            outputs: Its outputs on the samples of the scores.
        """
        if are_alike(outputs, self.outputs):
            self._runs.add(choice, outputs)

    def measured(self, choice: Choice) -> list[Outputs] | None:
        """Return the outputs of a choice that was run; None if they are not known."""
        return self._runs.outputs(choice)

    def predict(self, choice: Choice) -> Spent:
        """Return what a choice is expected to use of the budget.

        What its groups move the outputs by is added to those of the nearest choice that was
        run, so that what groups lose beside each other is in it.
        """
        base = self._runs.nearest(choice, self.start)
        known = self._known.get(choice)
        if known is None or known[0] != base:
            found = self._predict_from(base, choice)
            known = self._known[choice] = base, self.measure(found)
        return known[1]

    def predict_alone(self, choice: Choice) -> Spent:
        """Return what a choice is expected to use by the scores of its groups alone."""
        if choice not in self._alone:
            found = predict(self.outputs, self.scores(choice))
            self._alone[choice] = self.measure(found)
        return self._alone[choice]

    def expected(self, choice: Choice) -> float:
        """Return the share of the budget that a choice is expected to use, as corrected."""
        base = self._runs.nearest(choice, self.start)
        changed = [
            row[pick].group
            for row, pick, old in zip(self.rows, choice, base, strict=True)
            if pick and pick != old
        ]
        weight = max((self.weights.get(name, 1.0) for name in changed), default=1.0)
        return self.predict(choice).total * self.factor * weight

    def measure(self, outputs: Sequence[Outputs]) -> Spent:
        """Return what outputs on the samples of the scores use of the budget.

        Args:
            outputs: Arrays by name, of the shapes and types of those of the original.
        """
        if self._reference is None:
            self._reference = self.spread(self.outputs)
        return self.budget.measure(self.spread(outputs), self._reference, sure=False)

    def _predict_from(self, base: Choice, choice: Choice) -> list[Outputs]:
        if base == self.start:
            return predict(self.outputs, self.scores(choice))
        pairs = [
            (row[new], row[old])
            for row, new, old in zip(self.rows, choice, base, strict=True)
            if new != old
        ]
        run = self._runs.outputs(base) or ()
        found = predict(run, [new for new, _ in pairs if new.effect])
        return predict(found, [old for _, old in pairs if old.effect], sign=-1)

    def size(self) -> int:
        """Return the number of choices."""
        return math.prod(len(row) for row in self.rows)

    def alone(self, row: int, option: int) -> Choice:
        """Return the choice in which one group has an option, and all others float32.

        Args:
            row: Number of the group.
            option: Number of its option.
        """
        return tuple(option if i == row else 0 for i in range(len(self.rows)))

    def changed(self, choice: Choice, row: int, option: int) -> Choice:
        """Return a choice in which one group has another option.

        Args:
            choice: The option of each group.
            row: Number of the group.
            option: Number of its new option.
        """
        return (*choice[:row], option, *choice[row + 1 :])

    def replace(self, row: int, option: int, effect: Sequence[Mapping[str, Array]]) -> None:
        """Replace how far an option moves the outputs by what was measured.

        Args:
            row: The group.
            option: Its format.
            effect: The differences of the outputs by name, of their shapes, for each sample.
        """
        self.rows[row][option] = dataclasses.replace(self.rows[row][option], effect=effect)
        self._known.clear()
        self._alone.clear()
        self._every = self._ratio = None

    def best(
        self,
        limit: float,
        below: float,
        without: set[Choice],
        gap: float = 0.0,
        *,
        closely: bool = True,
    ) -> tuple[Choice | None, float]:
        """Return the cheapest choice that is expected to keep the budget.

        Args:
            limit: The share of the budget that may be used.
            below: It has to cost less than this.
            without: Choices that were tried and found wrong.
            gap: Of choices that cost more by at most this share, the one that is expected to
                lose least is taken.
            closely: Whether choices near that of an integer program are looked at as well.

        Returns:
            The choice, or None; and a bound: no choice that is expected to keep the budget
            costs less.
        """
        if self.size() <= ALL:
            return self._exactly(limit, below, without, gap)
        return self._by_program(limit, below, without, closely)

    def _exactly(
        self, limit: float, below: float, without: set[Choice], gap: float
    ) -> tuple[Choice | None, float]:
        best: Choice | None = None
        bound, least = below, limit
        if self._ratio is None:
            sizes = [len(row) for row in self.rows]
            self._ratio = bound_cancellation(sizes, lambda c: self.predict_alone(c).total)
        hopeless = self._ratio * limit / self.factor
        costs, losses, picks = self.every()
        for place in np.flatnonzero((costs < below) & ~(losses > hopeless)):
            cost, choice = float(costs[place]), tuple(map(int, picks[place]))
            if best is not None and cost > bound * (1 + gap):
                break
            if choice in without:
                continue
            expected = self.expected(choice)
            if best is None and expected <= limit:
                best, bound, least = choice, cost, expected
            elif best is not None and expected < least:
                best, least = choice, expected
        return best, bound

    def every(self) -> tuple[Array, Array, Array]:
        """Return all choices, the cheapest first.

        Returns:
            The costs, floats of shape [choices]; the sums of what the groups lose alone; and
            the number of the option of each group, of shape [choices, groups].
        """
        if self._every is None:
            costs = [np.array([score.cost for score in row]) for row in self.rows]
            losses = [
                np.array([self.predict_alone(self.alone(i, k)).total for k in range(len(row))])
                for i, row in enumerate(self.rows)
            ]
            self._every = sort_choices(costs, losses)
        return self._every

    def _by_program(
        self, limit: float, below: float, without: set[Choice], closely: bool
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
        if best is not None and closely:
            best = self._improve(best, limit, without)
        cost = below if best is None else self.cost(best)
        return best, min(cost, bound) if math.isfinite(bound) else cost

    def _losses(self, row: int, option: int, kinds: Sequence[str]) -> list[float]:
        spent = self.predict_alone(self.alone(row, option)).shares
        name = self.rows[row][option].group
        weight = self.factor * self.weights.get(name, 1.0)
        return [spent.get(kind, 0.0) * weight for kind in kinds]

    def _improve(self, choice: Choice, limit: float, without: set[Choice]) -> Choice:
        """Change the formats of one or two groups as long as that is cheaper and allowed."""
        sizes = [len(row) for row in self.rows]
        while True:
            cost = self.cost(choice)
            for other in sorted(list_neighbours(choice, sizes), key=self.cost):
                if self.cost(other) >= cost:
                    return choice
                if other not in without and self.expected(other) <= limit:
                    choice = other
                    break
            else:
                return choice


_MOST, _SLACK, _LOOKS = 4.0, 1.5, 24
"""Errors of groups may cancel each other up to the first factor. They cancel at most the
second factor more than in a sample of choices; the third is the size of the sample."""


def sort_choices(
    costs: Sequence[Array], losses: Sequence[Array]
) -> tuple[Array, Array, Array]:
    """Return all choices, the cheapest first.

    Args:
        costs: By group, the cost of each option, floats of shape [options].
        losses: By group, the loss of each option, floats of shape [options].

    Returns:
        The costs of the choices, of shape [choices]; the sums of the losses of their groups;
        and the number of the option of each group, of shape [choices, groups].
    """
    cost, loss = (np.ravel(reduce(np.add.outer, rows)) for rows in (costs, losses))
    order = np.argsort(cost, kind="stable")
    picks = np.stack(np.unravel_index(order, [len(row) for row in costs]), 1)
    return cost[order], loss[order], picks


def bound_cancellation(sizes: Sequence[int], loss: Callable[[Choice], float]) -> float:
    """Return how many times less a choice may lose than the sum of its groups.

    Of a mean of squares, about the sum is lost; of a maximum or a root, less. What is further
    beyond a budget is hopeless, and need not be looked at closely.

    Args:
        sizes: By group, the number of its options, the first float32.
        loss: Returns the share of the budget that a choice uses by the scores of its groups.
    """
    rng, least = np.random.default_rng(0), math.inf
    for _ in range(_LOOKS):
        choice = tuple(int(rng.integers(size)) for size in sizes)
        total = sum(
            loss(tuple(pick if i == row else 0 for i in range(len(sizes))))
            for row, pick in enumerate(choice)
        )
        if 0 < total < math.inf:
            least = min(least, loss(choice) / total)
    return _MOST if least in (0.0, math.inf) else min(_MOST, _SLACK / least)
