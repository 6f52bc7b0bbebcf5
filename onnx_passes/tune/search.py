"""The search: propose, measure, accept only what keeps the budget."""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import numpy as np
import onnx_ir as ir

from onnx_passes.data.statistics import Interval
from onnx_passes.errors import OnnxPassesError
from onnx_passes.runtime.base import Engine, Feeds, Outputs
from onnx_passes.tune.budget import Budget, Spent
from onnx_passes.tune.choice import Choice, Table, by_format, front
from onnx_passes.tune.fewest import fewest
from onnx_passes.tune.formats import Format, convert
from onnx_passes.tune.groups import Group
from onnx_passes.tune.journal import Record, plain
from onnx_passes.tune.objective import Objective
from onnx_passes.tune.score import Score, Scorer

_DISAGREES = 1.5
"""Ratio of measured and predicted loss from which on decisions are bisected."""
_FRONT = (0.01, 0.03, 0.1, 0.2, 0.4, 0.7, 1.0, 1.5, 2.5, 5.0)


@dataclass(frozen=True)
class Task:
    """What is asked.

    Attributes:
        model: As :func:`onnx_passes.tune.groups.prepare` returns it.
        groups: Its groups.
        formats: Formats by name.
        engine: Runs models, and is what they are measured on.
        objective: What has to be small.
        budget: What may be lost.
        feeds: The samples that the budget is about.
        sketch: The samples that groups are scored on.
        evaluations: Number of whole models that may be run on all samples.
        seconds: After which no other model is tried.
        ranges: Recorded ranges of values; filled by the search.
    """

    model: ir.Model
    groups: Sequence[Group]
    formats: Mapping[str, Format]
    engine: Engine
    objective: Objective
    budget: Budget
    feeds: Sequence[Feeds]
    sketch: Sequence[Feeds]
    evaluations: int = 8
    seconds: float = math.inf
    ranges: dict[str, tuple[float, float]] = field(default_factory=dict)

    def build(self, names: Mapping[str, str]) -> ir.Model:
        """Return the model in which groups have certain formats.

        Args:
            names: Format by group.

        Raises:
            PassError: A pass refuses it.
        """
        nodes = {group.name: group.nodes for group in self.groups}
        return convert(self.model, by_format(nodes, names), self.formats, self.ranges)

    @property
    def share(self) -> float:
        """How large the samples of the scores are, as a share of all."""
        return _bytes(self.sketch) / max(1, _bytes(self.feeds))

    @property
    def key(self) -> str:
        """What identifies the task: a hash of model, data and settings."""
        settings = {
            "groups": [[g.name, g.nodes, g.formats] for g in self.groups],
            "formats": sorted(repr(item) for item in self.formats.values()),
            "engine": self.engine.name,
            "objective": self.objective,
            "budget": [dict(self.budget.limits), repr(self.budget.flips)],
        }
        digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode())
        digest.update(ir.to_proto(self.model).SerializeToString(deterministic=True))
        for sample in (*self.feeds, *self.sketch):
            for name, value in sorted(sample.items()):
                digest.update(name.encode())
                digest.update(np.ascontiguousarray(value).tobytes())
        return digest.hexdigest()


@dataclass(frozen=True)
class Tried:
    """A model that was run.

    Attributes:
        names: Format by group.
        cost: Sum of the costs of its groups.
        predicted: Share of the budget that it was expected to use.
        spent: What it uses; None if it did not run.
        accepted: Whether it keeps the budget.
        why: Why it was rejected, in one clause.
    """

    names: Mapping[str, str]
    cost: float
    predicted: float
    spent: Spent | None
    accepted: bool
    why: str = ""


@dataclass
class Result:
    """How a search ended.

    Attributes:
        task: What was asked.
        model: The best model that keeps the budget; never missing.
        best: What is known of it.
        bound: No choice that is expected to keep the budget costs less.
        start: Cost of the original.
        tried: All models that were run, in order.
        scores: All scores.
        front: Expected loss and cost of choices that no other beats in both.
        ended: Why the search ended.
        work: Runs of whole models and of parts, in passes over all samples.
        seconds: What it took.
    """

    task: Task
    model: ir.Model
    best: Tried
    bound: float
    start: float
    tried: list[Tried] = field(default_factory=list)
    scores: list[Score] = field(default_factory=list)
    front: list[dict[str, Any]] = field(default_factory=list)
    ended: Literal["optimal", "evaluations", "time", "interrupted"] = "optimal"
    work: dict[str, float] = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def gap(self) -> float:
        """How far the cost is above the bound, as a share of it."""
        cost = self.best.cost
        return max(0.0, (cost - self.bound) / cost) if cost else 0.0


class Search:
    """Looks for the cheapest model that keeps the budget.

    Args:
        task: What is asked.
        record: Where decisions are written.
        tell: Called with a sentence on each step.
    """

    def __init__(
        self, task: Task, record: Record, tell: Callable[[str], object] = lambda text: None
    ) -> None:
        self.task, self.record, self.tell = task, record, tell
        self._whole = self._on_sketch = 0.0
        self._start = time.monotonic()
        self._rejected: set[Choice] = set()

    def run(self) -> Result:
        """Search; an interrupt ends it with the best model so far.

        Raises:
            ConfigError: The original itself does not keep the budget.
            EngineError: The engine does not run the original.
        """
        task = self.task
        original = self._run(task.model, task.feeds)
        self._whole += 1
        task.budget.begin(original)
        nothing = {group.name: "float32" for group in task.groups}
        spent = task.budget.measure(original, original)
        first = Tried(nothing, 0.0, 0.0, spent, accepted=True)
        result = Result(task, task.model, first, -math.inf, 0.0)
        try:
            self._search(result, original)
        except KeyboardInterrupt:
            result.ended = "interrupted"
        result.seconds = time.monotonic() - self._start
        result.work["whole model"] = self._whole
        result.work["whole model, few samples"] = self._on_sketch
        self.record.add(
            "choice", names=dict(result.best.names), cost=result.best.cost, ended=result.ended
        )
        return result

    def _search(self, result: Result, original: list[Outputs]) -> None:
        task = self.task
        self.tell(f"{len(task.groups)} groups: recording the original")
        scorer = Scorer(
            task.model, task.groups, task.formats, task.engine, task.objective, task.sketch
        )
        task.ranges.update(scorer.recorded.ranges)
        self.tell("scoring each group in each format")
        for group in task.groups:
            scorer.groups = [group]
            for score in scorer.score(self.record.score):
                self.record.add_score(score)
                result.scores.append(score)
        result.work["parts"] = scorer.work.partial * task.share
        result.work["regions"] = float(scorer.work.regions)
        self._on_sketch += scorer.work.whole * task.share
        rows = [
            [s for s in result.scores if s.group == group.name and not s.refused]
            for group in task.groups
        ]
        table = Table(rows, scorer.recorded.outputs, task.budget)
        result.start = table.cost(table.start)
        result.best = Tried(
            result.best.names, result.start, 0.0, result.best.spent, accepted=True
        )
        self._improve(result, table, original)
        result.front = [
            {"names": table.names(c), "expected": plain(share), "cost": cost}
            for c, share, cost in front(table, _FRONT)
        ]

    def _improve(self, result: Result, table: Table, original: list[Outputs]) -> None:
        task, count = self.task, 0
        while True:
            choice, bound = table.best(1.0, result.best.cost, self._rejected)
            result.bound = bound
            if choice is None:
                return
            if count >= task.evaluations:
                result.ended = "evaluations"
                return
            if time.monotonic() - self._start > task.seconds:
                result.ended = "time"
                return
            tried, model = self._try(choice, table, original)
            count += tried.spent is not None
            result.tried.append(tried)
            if tried.accepted and model is not None:
                result.best, result.model = tried, model
                self.tell(f"accepted: cost {tried.cost:.6g} of {result.start:.6g}")
            else:
                self._rejected.add(choice)
                self.tell(f"rejected: {tried.why}")

    def _try(
        self, choice: Choice, table: Table, original: list[Outputs]
    ) -> tuple[Tried, ir.Model | None]:
        """Run a choice on the few samples of the scores, and then on all."""
        names, cost, predicted = (
            table.names(choice),
            table.cost(choice),
            table.expected(choice),
        )
        known = self._known(names)
        model: ir.Model | None = None
        if known is not None and not known.accepted:
            self._learn(table, choice, known.spent)
            return known, None
        try:
            model = self.task.build(names)
            if known is not None:
                self._learn(table, choice, known.spent)
                return known, model
            few = self._sketch(table, choice)
            if few > 1.0 and not self.task.budget.flips:
                why = f"uses {few:.3g} of the budget on {len(self.task.sketch)} samples"
                tried = Tried(names, cost, predicted, None, accepted=False, why=why)
                self._note(tried)
                return tried, None
            outputs = self._run(model, self.task.feeds)
            self._whole += 1
        except OnnxPassesError as error:
            tried = Tried(names, cost, predicted, None, accepted=False, why=error.message)
            self._note(tried)
            return tried, None
        spent = self.task.budget.measure(outputs, original)
        why = "" if spent.holds else f"uses {spent.total:.3g} of the budget"
        tried = Tried(names, cost, predicted, spent, spent.holds, why)
        self._note(tried)
        self._learn(table, choice, spent)
        return tried, model

    def _learn(self, table: Table, choice: Choice, spent: Spent | None) -> None:
        """Correct predictions by what was measured."""
        before = table.expected(choice)
        if spent is None or not math.isfinite(spent.total) or not before:
            return
        ratio = spent.total / before
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

    def _measure_few(self, table: Table, choice: Choice) -> float:
        model = self.task.build(table.names(choice))
        outputs = self._run(model, self.task.sketch)
        self._on_sketch += self.task.share
        return self.task.budget.measure(outputs, table.outputs, sure=False).total

    def _run(self, model: ir.Model, feeds: Sequence[Feeds]) -> list[Outputs]:
        with self.task.engine.prepare(model) as session:
            return [session.run(feed) for feed in feeds]

    def _note(self, tried: Tried) -> None:
        spent = tried.spent
        self.record.add(
            "try",
            names=dict(tried.names),
            cost=tried.cost,
            predicted=plain(tried.predicted),
            accepted=tried.accepted,
            why=tried.why,
            shares=None if spent is None else {n: plain(v) for n, v in spent.shares.items()},
            values=None if spent is None else {n: plain(v) for n, v in spent.values.items()},
            flips=None if spent is None or spent.flips is None else asdict(spent.flips),
        )

    def _known(self, names: Mapping[str, str]) -> Tried | None:
        """Return what an earlier run has found of a choice."""
        for entry in self.record.of("try"):
            if entry["names"] == dict(names):
                shares, values = entry["shares"], entry["values"]
                spent = None
                if shares is not None:
                    spent = Spent(
                        {n: float(v) for n, v in shares.items()},
                        {n: float(v) for n, v in values.items()},
                        None if entry["flips"] is None else Interval(**entry["flips"]),
                    )
                return Tried(
                    names,
                    entry["cost"],
                    float(entry["predicted"]),
                    spent,
                    entry["accepted"],
                    entry["why"],
                )
        return None


def _bytes(feeds: Sequence[Feeds]) -> int:
    return sum(v.nbytes for f in feeds for v in f.values() if isinstance(v, np.ndarray))
