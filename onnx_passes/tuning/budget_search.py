"""The search: propose choices, measure them, and accept only what keeps the budget.

The cheapest choice is tried first. Other choices run on few samples, and on all samples if
these allow it.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import onnx_ir as ir

from onnx_passes.errors import EngineError
from onnx_passes.model.save import written_bytes
from onnx_passes.model.walk import weight_bytes
from onnx_passes.optional import import_optional
from onnx_passes.passes.precision._node_selection import OVERRIDABLE, overridable
from onnx_passes.plain import spelled
from onnx_passes.report.text import amount
from onnx_passes.runtime.engine_base import Outputs
from onnx_passes.tuning.choice import (
    Choice,
    ChoiceTable,
    Part,
    all_of,
    find_front,
    find_smallest_subset,
    holds_any,
    list_by_size,
)
from onnx_passes.tuning.format_scores import BuildChecker, Score, Scorer, describe_failure
from onnx_passes.tuning.groups import FLOAT32, UNITS, audit
from onnx_passes.tuning.loss_budget import BudgetUse, RejectedError, SamplesInMemory
from onnx_passes.tuning.search_record import Ended, SearchResult, Task, TriedModel

_DISAGREES = 1.5
"""Ratio of measured and expected loss from which on the groups to blame are sought."""


class FewSamples:
    """Runs of choices on few samples."""

    def __init__(self, task: Task, table: ChoiceTable) -> None:
        self._task, self._table = task, table
        self._spent = 0.0
        """Runs of whole models, in passes over all samples."""

    def measure(self, choice: Choice) -> float:
        """Return the share of the budget that a choice uses on the samples."""
        outputs = self._task.run_few(self._task.build(self._table.names(choice)))
        self._spent += self._task.share
        return self._table.measure(outputs).total

    def find_together(self, choice: Choice, measured: float) -> Part:
        """Return the fewest options of a choice that lose more together than expected.

        They are all of its options if it loses about as much as expected, and may be too many
        if runs are spent: those of a pass over all samples.
        """
        table, limit = self._table, self._spent + 1.0

        def harms(part: Sequence[int]) -> bool:
            some = tuple(pick if row in part else 0 for row, pick in enumerate(choice))
            if self._spent >= limit:
                return False
            return self.measure(some) > _DISAGREES * max(table.predict(some).total, 1e-9)

        if measured <= max(1.0, _DISAGREES * table.predict(choice).total):
            return all_of(choice)
        members = [row for row, pick in enumerate(choice) if pick]
        return frozenset((row, choice[row]) for row in find_smallest_subset(members, harms))


def find_cheapest(task: Task, scores: Sequence[Score]) -> tuple[dict[str, str], float, float]:
    """Return the cheapest choice by the costs of groups: its names, its cost, and a bound."""
    rows: dict[str, list[Score]] = {}
    for score in scores:
        if not score.refused:
            rows.setdefault(score.group, []).append(score)
    picks = {name: min(row, key=lambda score: score.cost) for name, row in rows.items()}
    cost = bound = sum(score.cost for score in picks.values())
    if task.objective == "size":
        found, low = list_by_size(task, [*rows.values()])
        if found:
            cost, choice = found[0]
            picked = zip(rows.items(), choice, strict=True)
            picks = {name: row[pick] for (name, row), pick in picked}
        bound = min(low, cost)
    return {name: score.format for name, score in picks.items()}, cost, bound


_HOPELESS = 1.5
"""The cheapest choice is not reported if few samples use more of the budget."""
_DOUBT, _LEAST_DOUBT = 1.5, 1.02
"""Choices may lose less than expected. Cheaper ones that are expected to use up to this share
of the budget are run on few samples as well. The truer expectations were, the fewer are."""
_CLEAR_ATTEMPTS = 0.6
"""What is expected to use less of the budget is run on all samples at once."""
_DESCENTS = 6


class TuningAttempts:
    """Runs choices, and corrects what is expected of others.

    `refuses` returns why an engine does not build a model; None if all do.
    """

    def __init__(
        self,
        task: Task,
        table: ChoiceTable,
        whole: SamplesInMemory,
        refuses: Callable[[ir.Model, Mapping[str, str]], str | None],
        report: Callable[[str], object],
    ) -> None:
        self._task, self._table = task, table
        self._whole, self._refuses, self._report = whole, refuses, report
        self._few = FewSamples(task, table)
        self.rejected: set[Part] = set()
        self.tried: list[TriedModel] = []
        self.runs = 0
        """Runs of whole models on all samples."""
        self.larger = 0
        """Choices whose files were not smaller than the best one."""
        self._expected: dict[Choice, float] = {}
        self._errors: list[float] = []
        self._ratios: list[float] = []

    @property
    def measured(self) -> int:
        """The number of choices that were run on all samples."""
        return sum(tried.spent is not None for tried in self.tried)

    @property
    def doubt(self) -> float:
        """Up to which expected share of the budget a choice may still keep it."""
        if not self._errors:
            return _DOUBT
        return min(_DOUBT, max(_LEAST_DOUBT, *(1 / error for error in self._errors)))

    def attempt(
        self, choice: Choice, limit: float, below: float
    ) -> tuple[Choice, TriedModel, ir.Model | None]:
        """Run a choice, or a cheaper one that few samples allow.

        A file of `below` bytes or more is not run. Return the choice that was run last, what
        was found, and its model if it was accepted.
        """
        passed: tuple[Choice, float | None] | None = None
        for _ in range(_DESCENTS):
            found = self._weigh(choice, below) or self._run_few(choice, limit)
            if isinstance(found, TriedModel):
                self._reject(choice, found)
                if passed is None:
                    return choice, found, None
            else:
                passed = choice, found
                if found is None:
                    break
            less = self._table.cost(passed[0]) * (1 - self._task.gap)
            cheaper, _ = self._table.best(1.0, less, self.rejected)
            if cheaper is None:
                break
            choice = cheaper
        assert passed is not None, "a choice that did not pass was returned above"
        return self._run_all(*passed)

    def _reject(self, choice: Choice, tried: TriedModel) -> None:
        self.rejected.add(all_of(choice))
        self.tried.append(tried)
        self._report(f"rejected: {tried.why}")

    def _blame(self, choice: Choice, few: float) -> None:
        """Leave out the options of a rejected choice that lose more together than expected."""
        together, rows = self._few.find_together(choice, few), self._table.rows
        if together < all_of(choice):
            self.rejected.add(together)
            names = ", ".join(rows[row][pick].group for row, pick in sorted(together))
            self._report(f"more is lost than expected beside each other: {names}")

    def _weigh(self, choice: Choice, below: float) -> TriedModel | None:
        """Reject a choice whose file is not smaller: groups share weights and Casts."""
        if self._task.objective != "size" or not is_small(self._task.model):
            return None
        try:
            size = written_bytes(self._task.build(self._table.names(choice)))
        except Exception as error:
            return self._note(choice, None, describe_failure(error))
        if size < below:
            return None
        self.larger += 1
        return self._note(choice, None, f"its file has {size:,} bytes, which is not less")

    def _run_few(self, choice: Choice, limit: float) -> TriedModel | float | None:
        """Run a choice on few samples.

        Return why it is rejected, or its share of the budget; None if it needs no such run.
        """
        table = self._table
        expected = table.expected(choice)
        self._expected[choice] = expected
        flips = self._task.budget.flips
        if expected <= _CLEAR_ATTEMPTS and not flips:
            return None
        try:
            few = self._few.measure(choice)
        except Exception as error:
            return self._note(choice, None, describe_failure(error))
        # What all samples show beyond few is not known before the first run on all.
        most = min(limit, 1.0) if self._ratios else min(limit, 1.1)
        if few * table.factor > most and not flips:
            self._errors.append(_within(few * table.factor / expected if expected else 1.0))
            self._blame(choice, few)
            used = f"uses {few:.3g} of the budget on {len(self._task.sketch)} samples"
            return self._note(choice, None, f"{used}; {table.describe_worst(choice)}")
        return few

    def _run_all(
        self, choice: Choice, few: float | None
    ) -> tuple[Choice, TriedModel, ir.Model | None]:
        table, names = self._table, self._table.names(choice)
        try:
            model = self._task.build(names)
            reason = self._refuses(model, names)
        except Exception as error:
            reason, model = describe_failure(error), None
        spent = None
        if reason is None and model is not None:
            try:
                spent = self._whole.measure(model)
                self.runs += 1
            except RejectedError as error:
                reason = str(error)
        if model is None or spent is None:
            tried = self._note(choice, None, reason or "")
            self._reject(choice, tried)
            return choice, tried, None
        why = spent.problem and f"{spent.problem}; {table.describe_worst(choice)}"
        tried = self._note(choice, spent, why, model)
        self._learn(self._expected[choice], few, spent.total)
        if not tried.accepted:
            self._blame(choice, self._few.measure(choice) if few is None else few)
            self._reject(choice, tried)
            return choice, tried, None
        self.tried.append(tried)
        return choice, tried, model

    def _note(
        self, choice: Choice, spent: BudgetUse | None, why: str, model: ir.Model | None = None
    ) -> TriedModel:
        table = self._table
        cost, expected = table.cost(choice), self._expected.get(choice, math.nan)
        if model is not None and self._task.objective == "size":
            cost = float(written_bytes(model))
        accepted = spent is not None and spent.holds
        return TriedModel(table.names(choice), cost, expected, spent, accepted, why)

    def _learn(self, expected: float, few: float | None, spent: float) -> None:
        """Correct what is expected by what was measured on all samples."""
        base = expected / self._table.factor if few is None else few
        if base > 0 and math.isfinite(spent) and spent > 0:
            self._ratios.append(_within(spent / base))
            # One model says little of the next one: the mean is drawn towards 1.
            logs = sum(map(math.log, self._ratios)) / (len(self._ratios) + 1)
            self._table.factor = math.exp(logs)
        if expected > 0 and spent > 0:
            self._errors.append(_within(spent / expected))


def _within(ratio: float) -> float:
    return min(4.0, max(0.25, ratio))


_PATIENCE = 2
"""Choices run in a row that are expected to lose too much."""
_SMALL = 1 << 28
"""Bytes of weights from which on all groups of a model are converted at once."""
_FRONT = (0.01, 0.03, 0.1, 0.2, 0.4, 0.7, 1.0, 1.5, 2.5, 5.0)


class TuningSearch:
    """Looks for the cheapest model that keeps the budget; reports scored groups and all."""

    def __init__(
        self,
        task: Task,
        report: Callable[[str], object] = lambda text: None,
        progress: Callable[[int, int], object] = lambda done, total: None,
    ) -> None:
        self.task, self.report, self.progress = task, report, progress
        self._all = task.whole()
        self._whole = 0
        self._start = time.monotonic()
        self._judges = BuildChecker(task.judges, task.sketch[0])
        self._judged: dict[str, str] = {}
        self._table: ChoiceTable | None = None

    def run(self) -> SearchResult:
        """Search; an interrupt ends it with the best model so far.

        ConfigError if the original does not keep the budget, EngineError if the engine does
        not run it.
        """
        task, spent = self.task, self._all.begin()
        self._whole += 1
        nothing = {group.name: "float32" for group in task.groups}
        first = TriedModel(nothing, 0.0, 0.0, spent, accepted=True)
        result = SearchResult(task, task.original, first, -math.inf, 0.0)
        try:
            self._search(result)
        except KeyboardInterrupt:
            result.ended = "interrupted"
        except _UnrecordedError as error:
            result.ended = "not recorded"
            self.report(f"the original does not run with inner values as outputs: {error}")
        result.seconds = time.monotonic() - self._start
        result.work["whole model"] = float(self._whole)
        if result.model is task.original:
            result.notes.append(f"the original is returned: {self._reason(result)}")
        return result

    def _reason(self, result: SearchResult) -> str:
        """Return why no group has another format."""
        if result.tried:
            return f"the last choice was rejected: {result.tried[-1].why}"
        if self._table is None:
            return "nothing was scored"
        return self._table.describe_least()

    def _search(self, result: SearchResult) -> None:
        task = self.task
        count = len(task.groups)
        self.report(f"{count} group{'s' if count != 1 else ''}: recording the original")
        if inputs := overridable(task.model):
            self.report(f"{len(inputs)} weights {OVERRIDABLE}: {', '.join(inputs[:3])}")
        scorer = self._scorer()
        self._judged = self._judges.refusals(task.model)
        for judge in task.judges:
            result.judges[judge.name] = self._judged.get(judge.name, "")
        for name, reason in self._judged.items():
            self.report(f"{name} does not build the original: {reason}")
        early = self._try_cheapest(result, scorer)
        if early and not task.score_all:
            return
        import_optional("scipy.optimize")  # known before hours of work, not after
        self.report("scoring each group in each format")
        scores: list[Score] = []
        if not early:
            result.scores = scores
        for place, group in enumerate(task.groups):
            self.progress(place, len(task.groups))
            scores += scorer.score(group)
        self.progress(len(task.groups), len(task.groups))
        result.scores = scores
        rows = [
            [s for s in scores if s.group == group.name and not s.refused]
            for group in task.groups
        ]
        if task.objective == "size" and rows:
            # What no group has, so that costs are bytes of whole files.
            rest = written_bytes(task.model) - sum(row[0].cost for row in rows)
            rows[0] = [replace(score, cost=score.cost + rest) for score in rows[0]]
        table = ChoiceTable(rows, scorer.recorded.outputs, task.budget)
        self._table = table
        if early:
            self._draw_front(result, table)
            return
        result.start = table.cost(table.start)
        result.best = TriedModel(
            result.best.names, result.start, 0.0, result.best.spent, accepted=True
        )
        self._tries = TuningAttempts(task, table, self._all, self._refuses, self.report)
        first = result.tried
        try:
            self._improve(result, table)
            if task.objective == "size" and is_small(task.model) and result.ended != "time":
                self._compare_files(result, table)
        finally:
            result.tried = first + self._tries.tried
            self._whole += self._tries.runs
        self._draw_front(result, table)

    def _draw_front(self, result: SearchResult, table: ChoiceTable) -> None:
        result.front = [
            {"names": table.names(c), "expected": spelled(share), "cost": cost}
            for c, share, cost in find_front(table, _FRONT)
        ]

    def _refuses(self, model: ir.Model, names: Mapping[str, str]) -> str | None:
        """Return why a model is not accepted, before it is run; None if it may be."""
        task = self.task
        faults = audit(model, task.model, task.groups, names, task.formats)
        if faults:
            return f"it does not hold the chosen formats: {faults[0]}"
        return self._judges.refuses(self._judged, model)

    def _try_cheapest(self, result: SearchResult, scorer: Scorer) -> bool:
        """Run the cheapest choice, if it may keep the budget; return whether it does.

        Costs in seconds have to be measured first, and models of large weights are converted
        group by group. What is to be reported of each group is scored behind it, so that a
        report changes no choice.
        """
        task = self.task
        if task.objective == "time" or not is_small(task.model):
            return False
        scores = scorer.costs()
        names, cost, bound = find_cheapest(task, scores)
        if set(names.values()) == {FLOAT32}:
            return False
        found = self._run_cheapest(names, cost, scorer.recorded.outputs)
        if found is None:
            return False
        tried, model = found
        result.tried.append(tried)
        if model is None:
            self.report(f"the cheapest choice is rejected: {tried.why}")
            return False
        result.scores = scores
        result.start = sum(score.cost for score in scores if score.format == FLOAT32)
        if task.objective == "size":
            result.start = float(written_bytes(task.model))
        result.best, result.model, result.bound = tried, model, bound
        result.ended = self._ended(result)
        assert tried.spent is not None, "it was accepted"
        nothing = dict.fromkeys(tried.names, FLOAT32)
        result.front = [
            {"names": nothing, "expected": 0.0, "cost": result.start},
            {
                "names": dict(tried.names),
                "expected": spelled(tried.spent.total),
                "cost": tried.cost,
            },
        ]
        self.report("the cheapest of all choices keeps the budget: nothing has to be scored")
        return True

    def _run_cheapest(
        self, names: Mapping[str, str], cost: float, original: list[Outputs]
    ) -> tuple[TriedModel, ir.Model | None] | None:
        """Run a choice, on few samples first; return its model if it keeps the budget.

        `original` are the outputs of the original on these samples. None if the choice is far
        beyond the budget there.
        """
        task, expected, why = self.task, math.nan, ""
        model: ir.Model | None = None
        spent: BudgetUse | None = None
        try:
            model = task.build(names)
            why = self._refuses(model, names) or ""
            if not why:
                few = task.budget.measure(task.run_few(model), original, sure=False)
                expected = few.total
                if expected > _HOPELESS and not few.broken:
                    return None
                if not few.holds:
                    why = few.problem
            if not why:
                self._whole += 1
                spent = self._all.measure(model)
                why = spent.problem
        except RejectedError as error:
            why = str(error)
        except Exception as error:
            why = describe_failure(error)
        tried = TriedModel(names, cost, expected, spent, not why, why)
        return tried, model if not why else None

    def _scorer(self) -> Scorer:
        task = self.task
        try:
            return Scorer(
                task.model,
                task.groups,
                task.formats,
                task.engine,
                task.objective,
                task.sketch,
                task.known,
                self._judges,
            )
        except EngineError as error:
            raise _UnrecordedError(error.message) from error

    def _compare_files(self, result: SearchResult, table: ChoiceTable) -> None:
        """Look for a smaller file among choices that cost about as much by their groups."""
        tries, task = self._tries, self.task

        def allowed(choice: Choice) -> bool:
            return not holds_any(choice, tries.rejected) and table.expected(choice) <= 1.0

        while True:
            found, low = list_by_size(task, table.rows, result.best.cost, allowed)
            size, choice = found[0] if found else (math.inf, table.start)
            result.bound = min(low, result.best.cost, size)
            result.ended = self._ended(result)
            if size >= result.best.cost or tries.measured >= task.evaluations:
                return
            _, tried, model = tries.attempt(choice, 1.0, result.best.cost)
            if model is not None and tried.cost < result.best.cost:
                self._accept(result, tried, model)

    def _accept(self, result: SearchResult, tried: TriedModel, model: ir.Model) -> None:
        unit = UNITS[self.task.objective]
        result.best, result.model = tried, model
        cost, start = amount(tried.cost, unit), amount(result.start, unit)
        self.report(f"accepted: cost {cost} of {start}")

    def _ended(self, result: SearchResult) -> Ended:
        if result.gap == 0.0:
            return "optimal"
        return "within the gap" if result.gap <= self.task.gap else "evaluations"

    def _improve(self, result: SearchResult, table: ChoiceTable) -> None:
        task, tries = self.task, self._tries
        doubts, misses = False, 0
        while True:
            limit = tries.doubt if doubts else 1.0
            choice, bound = table.best(limit, result.best.cost, tries.rejected)
            if not doubts:
                result.bound = bound
            # What gains less than the gap that is allowed is not worth a run.
            small = bound > result.best.cost * (1 - task.gap)
            if choice is None or small or misses + tries.larger >= _PATIENCE:
                if not doubts:
                    doubts = True
                    continue
                result.ended = self._ended(result)
                return
            if tries.measured >= task.evaluations:
                result.ended = "evaluations"
                return
            if time.monotonic() - self._start > task.seconds:
                result.ended = "time"
                return
            _, tried, model = tries.attempt(choice, limit, result.best.cost)
            if model is None:
                misses += doubts
                continue
            self._accept(result, tried, model)
            doubts, misses = False, 0


def is_small(model: ir.Model) -> bool:
    """Whether all groups of a model are converted at once."""
    return weight_bytes(model) <= _SMALL


class _UnrecordedError(Exception):
    """The original does not run with its inner values as outputs."""
