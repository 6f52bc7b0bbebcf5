"""The search: propose, measure, accept only what keeps the budget."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import replace

import onnx_ir as ir

from onnx_passes.errors import EngineError
from onnx_passes.model.save import written_bytes
from onnx_passes.model.walk import weight_bytes
from onnx_passes.passes.precision._node_selection import OVERRIDABLE, overridable
from onnx_passes.tuning.attempts import TuningAttempts
from onnx_passes.tuning.audit import audit
from onnx_passes.tuning.building_engines import Judges
from onnx_passes.tuning.cheapest_choice import CheapestChoice
from onnx_passes.tuning.choice import ChoiceTable
from onnx_passes.tuning.choice_runs import Choice
from onnx_passes.tuning.file_sizes import list_by_size
from onnx_passes.tuning.format_scores import Score, Scorer
from onnx_passes.tuning.pareto_front import find_front
from onnx_passes.tuning.part_formats import FLOAT32
from onnx_passes.tuning.search_journal import Record, plain
from onnx_passes.tuning.search_task import Ended, SearchResult, Task, TriedModel
from onnx_passes.tuning.sketch import Sketch, draw
from onnx_passes.tuning.tried_models import find_tried, record_tried

_PATIENCE = 2
"""So many choices that are expected to lose too much are run in a row."""
_SMALL = 1 << 28
"""Bytes of weights from which on all groups of a model are converted at once."""
_CAREFUL = (0.85, 0.7, 0.5, 0.25)
"""Shares of the budget that choices may be expected to use, in turn, once half of the runs
are spent and none was accepted."""
_FRONT = (0.01, 0.03, 0.1, 0.2, 0.4, 0.7, 1.0, 1.5, 2.5, 5.0)


class TuningSearch:
    """Looks for the cheapest model that keeps the budget.

    Args:
        task: The task.
        record: Where decisions are written.
        report: Called with a sentence on each step.
        progress: Called with the groups that are scored and all there are.
    """

    def __init__(
        self,
        task: Task,
        record: Record,
        report: Callable[[str], object] = lambda text: None,
        progress: Callable[[int, int], object] = lambda done, total: None,
    ) -> None:
        self.task, self.record, self.report, self.progress = task, record, report, progress
        self._all = task.whole()
        self._whole = self._on_sketch = 0.0
        self._start = time.monotonic()
        self._judges = Judges(task.judges, task.sketch[0])
        self._judged: dict[str, str] = {}

    def run(self) -> SearchResult:
        """Search; an interrupt ends it with the best model so far.

        Raises:
            ConfigError: The original itself does not keep the budget.
            EngineError: The engine does not run the original.
            IncompleteDataError: A part of the data could not be evaluated.
        """
        try:
            return self._run_all()
        finally:
            self._all.close()

    def _run_all(self) -> SearchResult:
        spent = self._all.begin()
        self._whole += 1
        task = self.task = self._draw()
        nothing = {group.name: "float32" for group in task.groups}
        first = TriedModel(nothing, 0.0, 0.0, spent, accepted=True)
        result = SearchResult(task, task.model, first, -math.inf, 0.0)
        try:
            self._search(result)
        except KeyboardInterrupt:
            result.ended = "interrupted"
        except _UnrecordedError as error:
            result.ended = "not recorded"
            self.report(f"the original does not run with inner values as outputs: {error}")
        result.seconds = time.monotonic() - self._start
        result.work["whole model"] = self._whole
        result.work["whole model, few samples"] = self._on_sketch
        self.record.add(
            "choice", names=dict(result.best.names), cost=result.best.cost, ended=result.ended
        )
        return result

    def _draw(self) -> Task:
        """Choose the samples of the scores, or those that an earlier search has chosen."""
        task, original = self.task, self._all.original
        if original is None or task.drawn is not None:
            return task
        drawn = self.record.sketch(task.feeds)
        if drawn is None and self.record.of("score"):
            drawn = Sketch(task.sketch)  # an earlier search took the first ones
        if drawn is None:
            drawn = draw(task.feeds, task.sketch, original, task.budget)
            self.record.add_sketch(drawn)
        return replace(task, sketch=drawn.feeds, drawn=drawn)

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
        if early and not task.score_all and self.record.folder is None:
            return
        self.report("scoring each group in each format")
        scores: list[Score] = []
        if not early:
            result.scores = scores
        for place, group in enumerate(task.groups):
            self.progress(place, len(task.groups))
            scorer.groups = [group]
            for score in scorer.score(self.record.score):
                self.record.add_score(score)
                scores.append(score)
        self.progress(len(task.groups), len(task.groups))
        result.work["parts"] = scorer.work.partial * task.share
        result.work["regions"] = float(scorer.work.regions)
        self._on_sketch += scorer.work.whole * task.share
        result.scores = scores
        rows = [
            [s for s in scores if s.group == group.name and not s.refused]
            for group in task.groups
        ]
        if task.objective == "size" and rows:
            # What no group has, so that costs are bytes of whole files.
            rest = written_bytes(task.model) - sum(row[0].cost for row in rows)
            rows[0] = [replace(score, cost=score.cost + rest) for score in rows[0]]
        outputs = scorer.recorded.outputs
        rows = [[task.join_effects(score, outputs) for score in row] for row in rows]
        table = ChoiceTable(rows, task.join(outputs), task.budget, spread=task.spread)
        if early:
            self._draw_front(result, table)
            return
        result.start = table.cost(table.start)
        result.best = TriedModel(
            result.best.names, result.start, 0.0, result.best.spent, accepted=True
        )
        self._tries = TuningAttempts(
            task,
            table,
            self.record,
            self._all,
            self._refuses,
            self.report,
        )
        first = result.tried
        try:
            self._improve(result, table)
            if task.objective == "size" and self._small and result.ended != "time":
                self._compare_files(result, table)
        finally:
            result.tried = first + self._tries.tried
            self._whole += self._tries.runs
            self._on_sketch += self._tries.few.spent
        self._draw_front(result, table)

    @property
    def _small(self) -> bool:
        return weight_bytes(self.task.model) <= _SMALL

    def _draw_front(self, result: SearchResult, table: ChoiceTable) -> None:
        result.front = [
            {"names": table.names(c), "expected": plain(share), "cost": cost}
            for c, share, cost in find_front(table, _FRONT)
        ]

    def _refuses(self, model: ir.Model, names: Mapping[str, str]) -> str | None:
        """Return why a model is not accepted, before it is run; None if it may be."""
        task = self.task
        faults = audit(model, task.model, task.groups, names, task.formats, task.ranges)
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
        if task.objective == "time" or not self._small:
            return False
        scores = scorer.costs()
        cheapest = CheapestChoice(task, scores, scorer.recorded.outputs)
        older = find_tried(self.record, cheapest.names)
        if older is not None and not older.accepted:
            result.tried.append(older)
            return False
        found = cheapest.attempt(self._all, self._refuses)
        self._whole += cheapest.runs
        self._on_sketch += cheapest.spent
        if found is None:
            return False
        tried, model = found
        if older is None:
            record_tried(self.record, tried)
        result.tried.append(tried)
        if model is None:
            self.report(f"the cheapest choice is rejected: {tried.why}")
            return False
        result.scores = scores
        result.start = sum(score.cost for score in scores if score.format == FLOAT32)
        if task.objective == "size":
            result.start = float(written_bytes(task.model))
        result.best, result.model, result.bound = tried, model, cheapest.bound
        result.ended = self._ended(result)
        assert tried.spent is not None, "it was accepted"
        nothing = dict.fromkeys(tried.names, FLOAT32)
        result.front = [
            {"names": nothing, "expected": 0.0, "cost": result.start},
            {
                "names": dict(tried.names),
                "expected": plain(tried.spent.total),
                "cost": tried.cost,
            },
        ]
        result.work["parts"] = result.work["regions"] = 0.0
        self.report("the cheapest of all choices keeps the budget: nothing has to be scored")
        return True

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
            return choice not in tries.rejected and table.expected(choice) <= 1.0

        while True:
            found, low = list_by_size(task, table.rows, result.best.cost, allowed)
            size, choice = found[0] if found else (math.inf, table.start)
            result.bound = min(low, result.best.cost, size)
            result.ended = self._ended(result)
            if size >= result.best.cost or tries.measured >= task.evaluations:
                return
            _, tried, model = tries.attempt(choice, 1.0)
            if model is not None and tried.cost < result.best.cost:
                result.best, result.model = tried, model
                self.report(f"accepted: cost {tried.cost:.6g} of {result.start:.6g}")

    def _ended(self, result: SearchResult) -> Ended:
        if result.gap == 0.0:
            return "optimal"
        return "within the gap" if result.gap <= self.task.gap else "evaluations"

    def _improve(self, result: SearchResult, table: ChoiceTable) -> None:
        task, tries = self.task, self._tries
        now, doubts, rescored, misses = table.start, False, False, 0
        while True:
            ran = tries.measured
            share = 1.0 if now != table.start else room(ran, task.evaluations)
            limit = tries.doubt if doubts else share
            choice, bound = tries.propose(limit, result.best.cost, task.gap / 2)
            if not doubts and share >= 1.0:
                result.bound = bound
            # What gains less than the gap that is allowed is not worth a run.
            small = bound > result.best.cost * (1 - task.gap)
            if choice is None or small or misses >= _PATIENCE:
                if not doubts:
                    doubts = True
                    continue
                if not rescored and tries.loses_less:
                    rescored = True
                    if tries.few.rescore(now, task.gap):
                        self.report("some lose less within the model than by themselves")
                        doubts, misses = False, 0
                        continue
                if share < 1.0:
                    result.ended = "evaluations"
                    return
                result.ended = self._ended(result)
                return
            if ran >= task.evaluations:
                result.ended = "evaluations"
                return
            if time.monotonic() - self._start > task.seconds:
                result.ended = "time"
                return
            choice, tried, model = tries.attempt(choice, limit)
            if model is None:
                misses += doubts
                continue
            result.best, result.model, now = tried, model, choice
            doubts, misses = False, 0
            self.report(f"accepted: cost {tried.cost:.6g} of {result.start:.6g}")


def room(ran: int, most: int) -> float:
    """Return what a choice may be expected to use of the budget if none was accepted.

    Args:
        ran: Runs of whole models on all samples, each rejected; the search ends with the last.
        most: Number of runs that are allowed.
    """
    usual = (most + 1) // 2
    if ran < usual or ran >= most:
        return 1.0
    return _CAREFUL[min((ran - usual) * len(_CAREFUL) // (most - usual), 3)]


class _UnrecordedError(Exception):
    """The original does not run with its inner values as outputs."""
