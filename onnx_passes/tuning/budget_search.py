"""The search: propose, measure, accept only what keeps the budget."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import replace

import onnx_ir as ir

from onnx_passes.errors import EngineError
from onnx_passes.model.walk import weight_bytes
from onnx_passes.passes.precision._select import OVERRIDABLE, overridable
from onnx_passes.tuning.attempts import TuningAttempts
from onnx_passes.tuning.audit import audit
from onnx_passes.tuning.building_engines import Judges
from onnx_passes.tuning.cheapest_choice import CheapestChoice
from onnx_passes.tuning.choice import ChoiceTable
from onnx_passes.tuning.format_scores import Scorer
from onnx_passes.tuning.pareto_front import find_front
from onnx_passes.tuning.part_formats import FLOAT32
from onnx_passes.tuning.search_journal import Record, plain
from onnx_passes.tuning.search_task import SearchResult, Task, TriedModel
from onnx_passes.tuning.sketch import Sketch, draw
from onnx_passes.tuning.tried_models import record_tried

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
        if self._try_cheapest(result, scorer):
            return
        self.report("scoring each group in each format")
        for place, group in enumerate(task.groups):
            self.progress(place, len(task.groups))
            scorer.groups = [group]
            for score in scorer.score(self.record.score):
                self.record.add_score(score)
                result.scores.append(score)
        self.progress(len(task.groups), len(task.groups))
        result.work["parts"] = scorer.work.partial * task.share
        result.work["regions"] = float(scorer.work.regions)
        self._on_sketch += scorer.work.whole * task.share
        rows = [
            [s for s in result.scores if s.group == group.name and not s.refused]
            for group in task.groups
        ]
        outputs = scorer.recorded.outputs
        rows = [[task.join_effects(score, outputs) for score in row] for row in rows]
        table = ChoiceTable(rows, task.join(outputs), task.budget, spread=task.spread)
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
        early = result.tried
        try:
            self._improve(result, table)
        finally:
            result.tried = early + self._tries.tried
            self._whole += self._tries.runs
            self._on_sketch += self._tries.few.spent
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
        group by group.
        """
        task = self.task
        small = weight_bytes(task.model) <= _SMALL
        if task.score_all or task.objective == "time" or not small:
            return False
        if self.record.folder is not None:
            return False  # a record shows why each group has its format
        scores = scorer.costs()
        cheapest = CheapestChoice(task, scores, scorer.recorded.outputs)
        found = cheapest.attempt(self._all, self._refuses)
        self._whole += cheapest.runs
        self._on_sketch += cheapest.spent
        if found is None:
            return False
        tried, model = found
        record_tried(self.record, tried)
        result.tried.append(tried)
        if model is None:
            self.report(f"the cheapest choice is rejected: {tried.why}")
            return False
        result.scores = scores
        result.start = sum(score.cost for score in scores if score.format == FLOAT32)
        result.best, result.model, result.bound = tried, model, tried.cost
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

    def _improve(self, result: SearchResult, table: ChoiceTable) -> None:
        task, tries = self.task, self._tries
        now, doubts, rescored, misses = table.start, False, False, 0
        while True:
            ran = sum(tried.spent is not None for tried in tries.tried)
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
                result.ended = "optimal" if result.gap == 0.0 else "within the gap"
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
