"""Choose a format for each group: expected losses and costs, and the best choices.

The best choice comes from an integer program, or from the sizes of files. The culprits of a
format are the fewest nodes that must stay in float32.
"""

from __future__ import annotations

import dataclasses
import heapq
import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import TypeAlias, TypeVar

import numpy as np
import onnx_ir as ir

from onnx_passes.arrays import Array
from onnx_passes.model.save import written_bytes
from onnx_passes.optional import import_optional
from onnx_passes.report.text import plural
from onnx_passes.runtime.engine_base import Outputs
from onnx_passes.tuning.audit import audit
from onnx_passes.tuning.format_scores import Score
from onnx_passes.tuning.groups import FLOAT32, Format, convert
from onnx_passes.tuning.loss_budget import BudgetUse, LossBudget, RejectedError
from onnx_passes.tuning.search_record import Task

Choice: TypeAlias = tuple[int, ...]
"""Number of the option of each group."""

_MOST = 12
"""Number of choices whose outputs are kept."""


class ChoiceRuns:
    """Outputs of choices on the samples of the scores."""

    def __init__(self) -> None:
        self._known: dict[Choice, Sequence[Outputs]] = {}

    def add(self, choice: Choice, outputs: Sequence[Outputs]) -> None:
        """Keep the outputs of a choice, if there is room."""
        if len(self._known) < _MOST:
            self._known[choice] = outputs

    def outputs(self, choice: Choice) -> list[Outputs] | None:
        """Return the outputs of a choice; None if they are not known."""
        found = self._known.get(choice)
        return None if found is None else list(found)

    def nearest(self, choice: Choice, start: Choice) -> Choice:
        """Return the choice that was run, or `start`, and differs in the fewest groups."""

        def distance(other: Choice) -> int:
            return sum(a != b for a, b in zip(choice, other, strict=True))

        return min((start, *self._known), key=distance)


def predict(
    outputs: Sequence[Outputs], scores: Sequence[Score], sign: int = 1
) -> list[Outputs]:
    """Return the outputs of a model some of whose groups have other formats.

    To first order, each group moves them as far as it does alone. A `sign` of -1 moves them
    back.
    """
    found: list[Outputs] = [dict(sample) for sample in outputs]
    for score in scores:
        for sample, effect in zip(found, score.effect, strict=True):
            for name, shift in effect.items():
                value = sample[name]
                assert isinstance(value, np.ndarray), "only tensors move"
                # Of scalars, numpy makes no array.
                sample[name] = np.asarray(value + sign * shift)
    return found


def are_alike(outputs: Sequence[Outputs], others: Sequence[Outputs]) -> bool:
    """Whether outputs are finite numbers of the same shapes as others."""
    for ours, theirs in zip(outputs, others, strict=True):
        for name, value in theirs.items():
            found = ours.get(name)
            if not isinstance(value, np.ndarray) or not isinstance(found, np.ndarray):
                return False
            if found.shape != value.shape or found.dtype != value.dtype:
                return False
            if found.dtype.kind == "f" and not np.isfinite(found.astype(np.float32)).all():
                return False
    return True


_PAIRS = 64
"""Pairs are changed if no more changes than this are possible."""


@dataclass(frozen=True)
class Solution:
    """One option in each row; no choice within the limits costs less than `bound`."""

    picks: tuple[int, ...]
    cost: float
    bound: float

    @property
    def gap(self) -> float:
        """How far the cost is above the bound, as a share of the cost; 0 for an optimum."""
        return max(0.0, self.cost - self.bound) / abs(self.cost) if self.cost else 0.0


def solve(
    costs: Sequence[Array],
    losses: Sequence[Array],
    limits: Array,
    *,
    without: Sequence[tuple[int, ...]] = (),
    seconds: float = 10.0,
) -> Solution | None:
    """Choose one option in each row: of the least cost, within limits on sums of losses.

    By row, `costs` have shape [options] and `losses` [options, limits]. Choices in `without`
    are excluded. After `seconds`, the best so far is returned; None if none is within the
    limits. UsageError without scipy.
    """
    optimize, sparse = import_optional("scipy.optimize"), import_optional("scipy.sparse")
    sizes = [len(row) for row in costs]
    starts = np.cumsum([0, *sizes])
    total = int(starts[-1])
    one = sparse.lil_matrix((len(sizes), total))
    for row, (start, size) in enumerate(zip(starts, sizes, strict=False)):
        one[row, start : start + size] = 1
    rules = [optimize.LinearConstraint(one.tocsr(), 1, 1)]
    table = np.concatenate([np.asarray(row, float) for row in losses])
    possible = np.isfinite(table).all(1)
    if len(limits):
        finite = np.where(np.isfinite(table), table, 0.0)
        rules.append(optimize.LinearConstraint(finite.T, -np.inf, limits))
    for picks in without:
        marks = np.zeros(total)
        marks[starts[:-1] + np.array(picks)] = 1
        rules.append(optimize.LinearConstraint(marks[None], -np.inf, len(sizes) - 1))
    flat = np.concatenate([np.asarray(row, float) for row in costs])
    scale = float(np.abs(flat).max(initial=0.0)) or 1.0
    found = optimize.milp(
        flat / scale,
        constraints=rules,
        integrality=np.ones(total),
        bounds=optimize.Bounds(0, possible.astype(float)),
        options={"time_limit": seconds, "mip_rel_gap": 0.0},
    )
    if found.x is None:
        return None
    picks = tuple(
        int(np.argmax(found.x[start : start + size]))
        for start, size in zip(starts, sizes, strict=False)
    )
    cost = float(sum(row[pick] for row, pick in zip(costs, picks, strict=True)))
    bound = found.mip_dual_bound
    return Solution(picks, cost, cost if bound is None else min(cost, float(bound) * scale))


def list_neighbours(
    choice: tuple[int, ...], sizes: Sequence[int]
) -> Iterator[tuple[int, ...]]:
    """Yield the choices that differ in one group, or in two if these are not too many."""
    changes = [(i, k) for i, size in enumerate(sizes) for k in range(size) if k != choice[i]]
    for i, k in changes:
        yield (*choice[:i], k, *choice[i + 1 :])
    if len(changes) > _PAIRS:
        return
    for (i, k), (j, m) in itertools.combinations(changes, 2):
        if i != j:
            other = list(choice)
            other[i], other[j] = k, m
            yield tuple(other)


ALL = 1 << 13
"""Number of choices up to which all are evaluated; an integer program proposes beyond."""
_CUTS = 24


@dataclass
class ChoiceTable:
    """The options of each group.

    `rows` has the scores of each group, float32 first, without refused formats. `outputs` are
    the original's on the samples of the scores, and `spread` makes outputs of all samples of
    them. Predictions are multiplied by `factor`, which is how much more was lost on all
    samples. `weights` multiply the loss of a group that a bisection found to lose more beside
    others.
    """

    rows: list[list[Score]]
    outputs: Sequence[Outputs]
    budget: LossBudget
    factor: float = 1.0
    weights: dict[str, float] = field(default_factory=dict)
    spread: Callable[[Sequence[Outputs]], Sequence[Outputs]] = lambda outputs: outputs
    _known: dict[Choice, tuple[Choice, BudgetUse]] = field(default_factory=dict)
    _alone: dict[Choice, BudgetUse] = field(default_factory=dict)
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
        """Take the outputs of a choice: others are predicted from the nearest that was run."""
        if are_alike(outputs, self.outputs):
            self._runs.add(choice, outputs)

    def measured(self, choice: Choice) -> list[Outputs] | None:
        """Return the outputs of a choice that was run; None if they are not known."""
        return self._runs.outputs(choice)

    def predict(self, choice: Choice) -> BudgetUse:
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

    def predict_alone(self, choice: Choice) -> BudgetUse:
        """Return what a choice is expected to use by the scores of its groups alone."""
        if choice not in self._alone:
            found = predict(self.outputs, self.scores(choice))
            self._alone[choice] = self.measure(found)
        return self._alone[choice]

    def describe_worst(self, choice: Choice) -> str:
        """Return which group of a choice is expected to lose the most."""
        losses = [
            (self.predict_alone(self.alone(row, option)).total, row, option)
            for row, option in enumerate(choice)
            if option
        ]
        _, row, option = max(losses)
        return f"{self._named(row, option)} loses the most"

    def describe_least(self) -> str:
        """Return what keeps any group from having another format than float32."""
        options = [(r, k) for r, scores in enumerate(self.rows) for k in range(1, len(scores))]
        cheaper = [(r, k) for r, k in options if self.rows[r][k].cost < self.rows[r][0].cost]
        if not options:
            return "no group can have another format"
        if not cheaper:
            return "no format costs less than float32 in any group"
        row, option = min(
            cheaper, key=lambda pair: self.predict_alone(self.alone(*pair)).total
        )
        problem = self.predict_alone(self.alone(row, option)).problem
        return f"{self._named(row, option)} loses the least" + (problem and f": {problem}")

    def _named(self, row: int, option: int) -> str:
        score = self.rows[row][option]
        return f"{score.group} in {score.format}"

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

    def measure(self, outputs: Sequence[Outputs]) -> BudgetUse:
        """Return what outputs on the samples of the scores use of the budget."""
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
        """Return the choice in which one group has an option, and all others float32."""
        return tuple(option if i == row else 0 for i in range(len(self.rows)))

    def changed(self, choice: Choice, row: int, option: int) -> Choice:
        """Return a choice in which one group has another option."""
        return (*choice[:row], option, *choice[row + 1 :])

    def replace(self, row: int, option: int, effect: Sequence[Mapping[str, Array]]) -> None:
        """Replace how far an option moves the outputs by what was measured."""
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

        It is expected to use at most the share `limit` and costs less than `below`. Of choices
        that cost more by at most the share `gap`, the one with the least expected loss is
        returned. With `closely`, neighbours of the integer program's choice count as well. The
        second result is a bound: no choice that is expected to keep the budget costs less.
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

        Costs have shape [choices], as do the sums of what the groups lose alone. The numbers
        of the options have shape [choices, groups].
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


_MOST_CHOSEN, _SLACK, _LOOKS = 4.0, 1.5, 24
"""Errors of groups may cancel each other up to the first factor. They cancel at most the
second factor more than in a sample of choices; the third is the size of the sample."""


def sort_choices(
    costs: Sequence[Array], losses: Sequence[Array]
) -> tuple[Array, Array, Array]:
    """Return all choices, the cheapest first.

    Costs and summed losses have shape [choices]; the numbers of the options have shape
    [choices, groups].
    """
    cost, loss = (np.ravel(reduce(np.add.outer, rows)) for rows in (costs, losses))
    order = np.argsort(cost, kind="stable")
    picks = np.stack(np.unravel_index(order, [len(row) for row in costs]), 1)
    return cost[order], loss[order], picks


def bound_cancellation(sizes: Sequence[int], loss: Callable[[Choice], float]) -> float:
    """Return how many times less a choice may lose than the sum of its groups.

    Of a mean of squares, about the sum is lost; of a maximum or a root, less. What is further
    beyond a budget is hopeless, and need not be looked at closely. `sizes` counts the options
    of each group, and `loss` returns a share of the budget.
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
    return _MOST_CHOSEN if least in (0.0, math.inf) else min(_MOST_CHOSEN, _SLACK / least)


_POINTS = 40
"""Points of a front that are looked at more closely."""


def find_front(
    table: ChoiceTable, steps: Sequence[float]
) -> list[tuple[Choice, float, float]]:
    """Return choices that are not worse than another in both expected loss and cost.

    The dearest comes first, each with its expected share of the budget and its cost. `steps`
    are shares for which a choice is looked for if there are too many to look at all.
    """
    found = {table.start}
    if table.size() <= ALL:
        found.update(_roughly_best(table))
    else:
        # A table of many points, each of them roughly: the search itself looks closely.
        chosen = (table.best(step, math.inf, set(), closely=False)[0] for step in steps)
        found.update(choice for choice in chosen if choice is not None)
    points = [(choice, table.expected(choice), table.cost(choice)) for choice in found]
    return [
        point
        for point in sorted(points, key=lambda p: (p[1], p[2]))
        if not any(o[1] <= point[1] and o[2] < point[2] for o in points)
    ]


def _roughly_best(table: ChoiceTable) -> list[Choice]:
    """Return choices that no other beats, if losses of groups just add up."""
    _, losses, picks = table.every()
    least = np.fmin.accumulate(losses)
    kept = np.flatnonzero(losses < np.concatenate([[math.inf], least[:-1]]))
    step = max(1, math.ceil(len(kept) / _POINTS))
    return [tuple(map(int, picks[place])) for place in kept[::step]]


_BUILDS, _SIZE_LOOKS = 16, 512
"""Choices that are built at most, and looked at."""


def list_by_size(
    task: Task,
    rows: Sequence[Sequence[Score]],
    below: float = math.inf,
    allowed: Callable[[Choice], bool] = lambda choice: True,
) -> tuple[list[tuple[float, Choice]], float]:
    """Return choices whose files are the smallest, and a bound of all files.

    Sizes are in bytes, the smallest first. The second result is a size that no other allowed
    choice is below. `below` is a size that is known to be reached.
    """
    found: list[tuple[float, Choice]] = []
    rest = written_bytes(task.model) - sum(row[0].cost for row in rows)
    lows = [[score.cost - score.shared for score in row] for row in rows]
    order = [sorted(range(len(low)), key=low.__getitem__) for low in lows]

    def bound(places: Choice) -> float:
        picked = zip(lows, order, places, strict=True)
        return rest + sum(low[own[place]] for low, own, place in picked)

    first = (0,) * len(rows)
    heap, looks, low = [(bound(first), first, 0)], 0, -math.inf
    while heap:
        low, places, last = heapq.heappop(heap)
        looks += 1
        # Of a large model a few bytes are worth no build.
        small = low >= below * (1 - task.gap / 10)
        if small or len(found) >= _BUILDS or looks > _SIZE_LOOKS:
            break
        for row in range(last, len(rows)):  # each choice is reached in one way
            if places[row] + 1 < len(order[row]):
                other = (*places[:row], places[row] + 1, *places[row + 1 :])
                heapq.heappush(heap, (bound(other), other, row))
        choice = tuple(own[place] for own, place in zip(order, places, strict=True))
        if allowed(choice):
            names = {row[i].group: row[i].format for row, i in zip(rows, choice, strict=True)}
            try:
                size = float(written_bytes(task.build(names)))
            except Exception:  # a fault of a pass refuses the choice, as it does elsewhere
                continue
            found.append((size, choice))
            below = min(below, size)
    else:
        low = math.inf
    return sorted(found), low


ItemT = TypeVar("ItemT")


def find_smallest_subset(
    items: Sequence[ItemT], holds: Callable[[Sequence[ItemT]], bool]
) -> list[ItemT]:
    """Return few items for which something holds; no item can be left out.

    Halves are tried first, so that few needed ones among many cost few tests (as QuickXplain;
    Junker, 2004). Then each is left out once, since not all that holds of some items holds of
    more.
    """
    found = _find_needed([], list(items), holds, changed=False)
    for item in list(found):
        rest = [other for other in found if other is not item]
        if holds(rest):
            found = rest
    return found


def _find_needed(
    kept: list[ItemT],
    items: list[ItemT],
    holds: Callable[[Sequence[ItemT]], bool],
    *,
    changed: bool,
) -> list[ItemT]:
    """Return items that suffice beside those that are kept already."""
    if changed and holds(kept):
        return []
    if len(items) <= 1:
        return list(items)
    half = len(items) // 2
    first, second = items[:half], items[half:]
    right = _find_needed([*kept, *first], second, holds, changed=True)
    left = _find_needed([*kept, *right], first, holds, changed=bool(right))
    return [*left, *right]


@dataclass(frozen=True)
class Culprits:
    """The nodes that must stay in float32; none of them may be left out.

    All others have `format`, but those in `kept`, which its pass leaves, and says why in
    `notes`. `without` is what the model uses of the budget if none has to stay; None if it
    does not run. `runs` counts models.
    """

    format: str
    nodes: tuple[str, ...]
    kept: tuple[str, ...]
    notes: tuple[str, ...]
    spent: BudgetUse
    without: BudgetUse | None
    runs: int
    model: ir.Model


def find_culprits(
    task: Task, item: Format, report: Callable[[str], object] = lambda text: None
) -> Culprits:
    """Find the fewest nodes that must stay in float32.

    No node of the result can be left out. ConfigError if the original does not keep the
    budget, EngineError if the engine does not run it. IncompleteDataError if data could not be
    evaluated, PassError if the format's pass refuses the model.
    """
    search = _Search(task, item)
    try:
        return _find(search, report)
    finally:
        search.whole.close()


def _find(search: _Search, report: Callable[[str], object]) -> Culprits:
    task, item = search.task, search.item
    search.whole.begin()
    nodes = [name for group in task.groups for name in group.nodes]
    without = search.measure(())
    if without is not None and without.holds:
        return search.result((), without, without)
    report(f"{len(nodes)} nodes in {item.name} do harm; looking for the fewest that do")
    found = find_smallest_subset(nodes, search.holds)
    spent = search.measure(found)
    assert spent is not None, "these nodes were seen to suffice"
    report(f"{plural(len(found), 'node')} found, {plural(search.runs, 'model')} run")
    order = {name: place for place, name in enumerate(nodes)}
    return search.result(sorted(found, key=order.__getitem__), spent, without)


class _Search:
    def __init__(self, task: Task, item: Format) -> None:
        self.task, self.item, self.runs = task, item, 0
        self.model, self.notes = task.model, list[str]()
        self.whole = task.whole()
        self._known: dict[frozenset[str], BudgetUse | None] = {}

    def measure(self, kept: Sequence[str]) -> BudgetUse | None:
        """Return what the model uses of the budget if some nodes stay in float32."""
        key = frozenset(kept)
        if key in self._known and self._known[key] is None:
            return None
        task = self.task
        chosen = [n for g in task.groups for n in g.nodes if n not in key]
        try:
            self.notes.clear()
            formats = {self.item.name: self.item}
            self.model = convert(
                task.model, {self.item.name: chosen}, formats, task.known, self.notes
            )
            self._known[key] = self.whole.measure(self.model)
        except RejectedError:
            self._known[key] = None
        finally:
            self.runs += 1
        return self._known[key]

    def result(
        self, nodes: Sequence[str], spent: BudgetUse, without: BudgetUse | None
    ) -> Culprits:
        """Return what was found, of the model that was measured last."""
        task, item = self.task, self.item
        names = {g.name: item.name for g in task.groups}
        formats = {FLOAT32: task.formats[FLOAT32], item.name: item}
        faults = audit(self.model, task.model, task.groups, names, formats, task.ranges)
        left = {fault.node for fault in faults}
        if item.pass_name == "convert-float16":
            halves = {n.name for n in self.model.graph.all_nodes() if _is_half(n)}
            left |= {
                str(n.name) for n in task.model.graph.all_nodes() if _is_float(n)
            } - halves
        meant = [name for group in task.groups for name in group.nodes]
        kept = tuple(name for name in meant if name in left and name not in nodes)
        notes = tuple(dict.fromkeys(self.notes))
        return Culprits(
            item.name, tuple(nodes), kept, notes, spent, without, self.runs, self.model
        )

    def holds(self, kept: Sequence[str]) -> bool:
        """Whether the budget is kept if some nodes stay in float32."""
        key = frozenset(kept)
        if key not in self._known:
            self.measure(kept)
        spent = self._known[key]
        return spent is not None and spent.holds


def _is_half(node: ir.Node) -> bool:
    return any(value.dtype is ir.DataType.FLOAT16 for value in node.outputs)


def _is_float(node: ir.Node) -> bool:
    return any(value.dtype is ir.DataType.FLOAT for value in node.outputs)
