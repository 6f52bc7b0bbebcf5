"""The search: propose, measure, accept only what keeps the budget."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence

import onnx_ir as ir

from onnx_passes.errors import OnnxPassesError
from onnx_passes.runtime.base import Outputs
from onnx_passes.tuning.asked import Result, Task, Tried
from onnx_passes.tuning.budget import Spent
from onnx_passes.tuning.choice import Choice, Table, front
from onnx_passes.tuning.fewest import fewest
from onnx_passes.tuning.journal import Record, plain
from onnx_passes.tuning.judges import Judges
from onnx_passes.tuning.score import Scorer
from onnx_passes.tuning.tries import known, note
from onnx_passes.tuning.whole import RejectedError

_DISAGREES = 1.5
"""Ratio of measured and predicted loss from which on decisions are bisected."""
_DOUBT = 1.5
"""Few samples may tell too much: cheaper choices that are expected to use up to this share of
the budget are tried as well, once no other is left."""
_RESCORED = 20.0
"""What is expected to use more of the budget is not scored again."""
_FRONT = (0.01, 0.03, 0.1, 0.2, 0.4, 0.7, 1.0, 1.5, 2.5, 5.0)


class Search:
    """Looks for the cheapest model that keeps the budget.

    Args:
        task: What is asked.
        record: Where decisions are written.
        tell: Called with a sentence on each step.
        progress: Called with the groups that are scored and all there are.
    """

    def __init__(
        self,
        task: Task,
        record: Record,
        tell: Callable[[str], object] = lambda text: None,
        progress: Callable[[int, int], object] = lambda done, total: None,
    ) -> None:
        self.task, self.record, self.tell, self.progress = task, record, tell, progress
        self._all = task.whole()
        self._whole = self._on_sketch = 0.0
        self._start = time.monotonic()
        self._rejected: set[Choice] = set()
        self._judges = Judges(task.judges, task.sketch[0])
        self._judged: dict[str, str] = {}

    def run(self) -> Result:
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

    def _run_all(self) -> Result:
        task = self.task
        spent = self._all.begin()
        self._whole += 1
        nothing = {group.name: "float32" for group in task.groups}
        first = Tried(nothing, 0.0, 0.0, spent, accepted=True)
        result = Result(task, task.model, first, -math.inf, 0.0)
        try:
            self._search(result)
        except KeyboardInterrupt:
            result.ended = "interrupted"
        result.seconds = time.monotonic() - self._start
        result.work["whole model"] = self._whole
        result.work["whole model, few samples"] = self._on_sketch
        self.record.add(
            "choice", names=dict(result.best.names), cost=result.best.cost, ended=result.ended
        )
        return result

    def _search(self, result: Result) -> None:
        task = self.task
        self.tell(f"{len(task.groups)} groups: recording the original")
        scorer = Scorer(
            task.model,
            task.groups,
            task.formats,
            task.engine,
            task.objective,
            task.sketch,
            task.known,
            self._judges,
        )
        self._judged = self._judges.refusals(task.model)
        for judge in task.judges:
            result.judges[judge.name] = self._judged.get(judge.name, "")
        for name, reason in self._judged.items():
            self.tell(f"{name} does not build the original: {reason}")
        self.tell("scoring each group in each format")
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
        table = Table(rows, task.join(outputs), task.budget)
        result.start = table.cost(table.start)
        result.best = Tried(
            result.best.names, result.start, 0.0, result.best.spent, accepted=True
        )
        self._improve(result, table)
        result.front = [
            {"names": table.names(c), "expected": plain(share), "cost": cost}
            for c, share, cost in front(table, _FRONT)
        ]

    def _improve(self, result: Result, table: Table) -> None:
        task, count, limit = self.task, 0, 1.0
        rescored, now = False, table.start
        while True:
            choice, bound = table.best(limit, result.best.cost, self._rejected)
            result.bound = bound
            if choice is None and limit < _DOUBT:
                limit = _DOUBT
                continue
            if choice is None and not rescored:
                rescored, limit = True, 1.0
                if self._rescore(table, now):
                    continue
            if choice is None:
                return
            if count >= task.evaluations:
                result.ended = "evaluations"
                return
            if time.monotonic() - self._start > task.seconds:
                result.ended = "time"
                return
            tried, model = self._try(choice, table, limit)
            count += tried.spent is not None
            result.tried.append(tried)
            if tried.accepted and model is not None:
                result.best, result.model, now = tried, model, choice
                self.tell(f"accepted: cost {tried.cost:.6g} of {result.start:.6g}")
            else:
                self._rejected.add(choice)
                self.tell(f"rejected: {tried.why}")

    def _try(
        self, choice: Choice, table: Table, limit: float
    ) -> tuple[Tried, ir.Model | None]:
        """Run a choice on the few samples of the scores, and then on all."""
        names, cost, predicted = (
            table.names(choice),
            table.cost(choice),
            table.expected(choice),
        )
        older = known(self.record, names)
        model: ir.Model | None = None
        if older is not None and not older.accepted:
            self._learn(table, choice, older.spent)
            return older, None
        try:
            model = self.task.build(names)
            if older is not None:
                self._learn(table, choice, older.spent)
                return older, model
            few = self._sketch(table, choice)
            if few > limit and not self.task.budget.flips:
                why = f"uses {few:.3g} of the budget on {len(self.task.sketch)} samples"
                tried = Tried(names, cost, predicted, None, accepted=False, why=why)
                note(self.record, tried)
                self._correct(table, choice, few)
                return tried, None
        except OnnxPassesError as error:
            tried = Tried(names, cost, predicted, None, accepted=False, why=error.message)
            note(self.record, tried)
            return tried, None
        reason = self._judges.refuses(self._judged, model)
        if reason is not None:
            tried = Tried(names, cost, predicted, None, accepted=False, why=reason)
            note(self.record, tried)
            return tried, None
        try:
            spent = self._all.measure(model)
        except RejectedError as error:
            tried = Tried(names, cost, predicted, None, accepted=False, why=str(error))
            note(self.record, tried)
            return tried, None
        self._whole += 1
        why = "" if spent.holds else f"uses {spent.total:.3g} of the budget"
        tried = Tried(names, cost, predicted, spent, spent.holds, why)
        note(self.record, tried)
        self._learn(table, choice, spent)
        return tried, model

    def _learn(self, table: Table, choice: Choice, spent: Spent | None) -> None:
        if spent is not None:
            self._correct(table, choice, spent.total)

    def _correct(self, table: Table, choice: Choice, measured: float) -> None:
        """Correct predictions by what was measured."""
        before = table.expected(choice)
        ratio = measured / before if before else math.nan
        if math.isfinite(ratio) and ratio > 0:
            table.factor *= min(4.0, max(0.25, ratio))

    def _sketch(self, table: Table, choice: Choice) -> float:
        """Run a choice on the few samples, and bisect it if it loses more than expected."""
        measured = self._measure_few(table, choice)
        predicted = table.predict(choice).total
        if measured > _DISAGREES * predicted and measured > 1.0:
            culprits = self._bisect(table, choice)
            for name in culprits:
                table.weights[name] = max(
                    table.weights.get(name, 1.0), min(8.0, measured / max(predicted, 1e-9))
                )
            self.record.add(
                "interaction",
                groups=culprits,
                predicted=plain(predicted),
                measured=plain(measured),
            )
            self.tell(f"more is lost than expected beside each other: {', '.join(culprits)}")
        return measured

    def _bisect(self, table: Table, choice: Choice) -> list[str]:
        """Return the fewest groups of a choice that lose more than expected together."""
        members = [i for i, pick in enumerate(choice) if pick]

        def harms(part: Sequence[int]) -> bool:
            some = tuple(pick if i in part else 0 for i, pick in enumerate(choice))
            expected = table.predict(some).total
            return self._measure_few(table, some) > _DISAGREES * max(expected, 1e-9)

        found = fewest(members, harms)
        return [table.rows[i][choice[i]].group for i in sorted(found)]

    def _rescore(self, table: Table, now: Choice) -> bool:
        """Score what is expected to lose too much again, in the whole model.

        An engine may run a part by other kernels than within the model. Those that gain most
        come first, for as many runs on few samples as take the time of one on all.

        Args:
            table: The options; scores that were too high are replaced.
            now: The choice that others are tried beside.

        Returns:
            Whether a score was replaced.
        """
        gains = [
            (table.cost(now) - table.cost(other), place, option)
            for place, row in enumerate(table.rows)
            for option in range(len(row))
            if table.cost(other := table.changed(now, place, option)) < table.cost(now)
            and table.expected(other) < _RESCORED
        ]
        before, spent, found = self._run_few(table.names(now)), self.task.share, False
        for _, place, option in sorted(gains, reverse=True):
            if spent >= 1.0:
                break
            other, spent = table.changed(now, place, option), spent + self.task.share
            try:
                outputs = self._run_few(table.names(other))
                measured = self.task.budget.measure(outputs, table.outputs, sure=False).total
            except OnnxPassesError:
                continue  # it does not run, or its outputs have other shapes
            if measured * _DISAGREES < table.predict(other).total:
                table.replace(place, option, now, before, outputs)
                found = True
        if found:
            self.tell("some lose less within the model than by themselves")
        return found

    def _measure_few(self, table: Table, choice: Choice) -> float:
        outputs = self._run_few(table.names(choice))
        return self.task.budget.measure(outputs, table.outputs, sure=False).total

    def _run_few(self, names: Mapping[str, str]) -> list[Outputs]:
        with self.task.engine.prepare(self.task.build(names)) as session:
            outputs = self.task.join([session.run(feed) for feed in self.task.sketch])
        self._on_sketch += self.task.share
        return outputs
