"""Choose a format for each group: expected losses and costs, and the best choices.

The best choice comes from an integer program, or from the sizes of files. The culprits of a
format are the fewest nodes that must stay in float32.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias, TypeVar

import numpy as np
import onnx_ir as ir

from onnx_passes.arrays import Array
from onnx_passes.model.save import written_bytes
from onnx_passes.optional import import_optional
from onnx_passes.report.text import plural
from onnx_passes.runtime.engine_base import Outputs
from onnx_passes.tuning.format_scores import Score
from onnx_passes.tuning.groups import FLOAT32, Format, audit, convert
from onnx_passes.tuning.loss_budget import BudgetUse, LossBudget, RejectedError
from onnx_passes.tuning.search_record import Task

Choice: TypeAlias = tuple[int, ...]
"""Number of the option of each group."""
Part: TypeAlias = frozenset[tuple[int, int]]
"""The options of some groups: pairs of the number of a group and that of its option."""


def all_of(choice: Choice) -> Part:
    """Return the options of all groups."""
    return frozenset(enumerate(choice))


def holds_any(choice: Choice, parts: Collection[Part]) -> bool:
    """Whether a choice has all options of one of some parts."""
    own = all_of(choice)
    return any(part <= own for part in parts)


def predict(outputs: Sequence[Outputs], scores: Sequence[Score]) -> list[Outputs]:
    """Return the outputs of a model some of whose groups have other formats.

    To first order, each group moves them as far as it does alone.
    """
    found: list[Outputs] = [dict(sample) for sample in outputs]
    for score in scores:
        for sample, effect in zip(found, score.effect, strict=True):
            for name, shift in effect.items():
                value = sample[name]
                assert isinstance(value, np.ndarray), "only tensors move"
                # Of scalars, numpy makes no array.
                sample[name] = np.asarray(value + shift)
    return found


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
    without: Collection[Part] = (),
    seconds: float = 10.0,
) -> Solution | None:
    """Choose one option in each row: of the least cost, within limits on sums of losses.

    By row, `costs` have shape [options] and `losses` [options, limits]. Choices that have a
    part in `without` are excluded. After `seconds`, the best so far is returned; None if none
    is within the limits. UsageError without scipy.
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
    for part in sorted(map(sorted, without)):
        marks = np.zeros(total)
        marks[[starts[row] + pick for row, pick in part]] = 1
        rules.append(optimize.LinearConstraint(marks[None], -np.inf, len(part) - 1))
    flat = np.concatenate([np.asarray(row, float) for row in costs])
    scale = float(np.abs(flat).max(initial=0.0)) or 1.0
    found = optimize.milp(
        flat / scale,
        constraints=rules,
        integrality=np.ones(total),
        bounds=optimize.Bounds(0, possible.astype(float)),
        # With presolve, HiGHS prints to the standard output of the process.
        options={"time_limit": seconds, "mip_rel_gap": 0.0, "presolve": False},
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


_CUTS, _FRONT_CUTS = 24, 6
"""Steps of a search for a choice, and for a point of a front."""
_ROOM = 2.5
"""How many times less the groups of a choice may lose together than alone."""


@dataclass
class ChoiceTable:
    """The options of each group.

    `rows` has the scores of each group, float32 first, without refused formats. `outputs` are
    the original's on the samples of the scores. Predictions are multiplied by `factor`, which
    is how much more was lost on all samples.
    """

    rows: list[list[Score]]
    outputs: Sequence[Outputs]
    budget: LossBudget
    factor: float = 1.0
    _known: dict[Choice, BudgetUse] = field(default_factory=dict)

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

    def predict(self, choice: Choice) -> BudgetUse:
        """Return what a choice is expected to use of the budget: what its groups do alone."""
        if choice not in self._known:
            found = predict(self.outputs, self.scores(choice))
            self._known[choice] = self.measure(found)
        return self._known[choice]

    def describe_worst(self, choice: Choice) -> str:
        """Return which group of a choice is expected to lose the most."""
        losses = [
            (self.predict(self.alone(row, option)).total, row, option)
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
        row, option = min(cheaper, key=lambda pair: self.predict(self.alone(*pair)).total)
        problem = self.predict(self.alone(row, option)).problem
        return f"{self._named(row, option)} loses the least" + (problem and f": {problem}")

    def _named(self, row: int, option: int) -> str:
        score = self.rows[row][option]
        return f"{score.group} in {score.format}"

    def expected(self, choice: Choice) -> float:
        """Return the share of the budget that a choice is expected to use, as corrected."""
        return self.predict(choice).total * self.factor

    def measure(self, outputs: Sequence[Outputs]) -> BudgetUse:
        """Return what outputs on the samples of the scores use of the budget."""
        return self.budget.measure(outputs, self.outputs, sure=False)

    def alone(self, row: int, option: int) -> Choice:
        """Return the choice in which one group has an option, and all others float32."""
        return tuple(option if i == row else 0 for i in range(len(self.rows)))

    def best(
        self, limit: float, below: float, without: Collection[Part], cuts: int = _CUTS
    ) -> tuple[Choice | None, float]:
        """Return the cheapest choice that is expected to keep the budget.

        It is expected to use at most the share `limit` and costs less than `below`. An integer
        program adds up what groups lose alone. As errors cancel, it may go beyond the limit
        first, and comes back by what its choices are expected to lose, in at most `cuts`
        steps. No choice has a part in `without`. The second result is a bound: no choice
        within the program's limits costs less.
        """
        costs = [np.array([score.cost for score in row]) for row in self.rows]
        kinds = sorted(self.predict(self.start).shares)
        losses = [
            np.array([self._losses(i, k, kinds) for k in range(len(row))])
            for i, row in enumerate(self.rows)
        ]
        room, tried, bound = _ROOM, set(without), -math.inf
        best: Choice | None = None
        for _ in range(cuts):
            limits = np.full(len(kinds), limit * room)
            found = solve(costs, losses, limits, without=tried)
            if found is None:
                break
            bound = max(bound, found.bound) if room >= 1.0 else bound
            if found.cost >= below:
                break
            share = self.expected(found.picks)
            if share <= limit:
                best = self._improve(found.picks, limit, without)
                break
            tried.add(all_of(found.picks))
            room *= max(0.5, min(0.97, limit / share)) if math.isfinite(share) else 0.5
        cost = below if best is None else self.cost(best)
        return best, min(cost, bound) if math.isfinite(bound) else cost

    def _losses(self, row: int, option: int, kinds: Sequence[str]) -> list[float]:
        spent = self.predict(self.alone(row, option))
        if spent.broken:
            return [math.inf] * len(kinds)
        return [spent.shares.get(kind, 0.0) * self.factor for kind in kinds]

    def _improve(self, choice: Choice, limit: float, without: Collection[Part]) -> Choice:
        """Change the formats of one or two groups as long as that is cheaper and allowed."""
        sizes = [len(row) for row in self.rows]
        while True:
            cost = self.cost(choice)
            for other in sorted(list_neighbours(choice, sizes), key=self.cost):
                if self.cost(other) >= cost:
                    return choice
                if not holds_any(other, without) and self.expected(other) <= limit:
                    choice = other
                    break
            else:
                return choice


def find_front(
    table: ChoiceTable, steps: Sequence[float]
) -> list[tuple[Choice, float, float]]:
    """Return choices that are not worse than another in both expected loss and cost.

    The dearest comes first, each with its expected share of the budget and its cost. `steps`
    are shares for which a choice is looked for.
    """
    found = {table.start}
    chosen = (table.best(step, math.inf, set(), _FRONT_CUTS)[0] for step in steps)
    found.update(choice for choice in chosen if choice is not None)
    points = [(choice, table.expected(choice), table.cost(choice)) for choice in found]
    return [
        point
        for point in sorted(points, key=lambda p: (p[1], p[2]))
        if not any(o[1] <= point[1] and o[2] < point[2] for o in points)
    ]


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
    budget, EngineError if the engine does not run it. PassError if the format's pass refuses
    the model.
    """
    search = _Search(task, item)
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
        faults = audit(self.model, task.model, task.groups, names, formats)
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
