"""Checks of a reduction that judge each candidate over a whole data set."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import onnx_ir as ir

from onnx_passes.data.dataset import DataSet
from onnx_passes.data.demand import Demand
from onnx_passes.data.evaluation_job import DataJob, EngineChoice, Feeder, ModelFile, RunSpec
from onnx_passes.data.evaluation_result import DataResult
from onnx_passes.data.job_evaluation import evaluate
from onnx_passes.data.measures import Measures
from onnx_passes.data.plan import IncompleteDataError, ShardPlan
from onnx_passes.data.shard_evaluation import WorkerProcessors
from onnx_passes.data.workers import Executor
from onnx_passes.errors import (
    EngineError,
    EngineUnavailableError,
    OnnxPassesError,
    UsageError,
)
from onnx_passes.model.copy import copy_model
from onnx_passes.model.extract import Cut, extract
from onnx_passes.plain import PlainMapping
from onnx_passes.runtime.engine_base import Engine, Feeds
from onnx_passes.verify.reduce.candidates import (
    CandidateStore,
    CheckOutcome,
    SmallerModel,
    Status,
)
from onnx_passes.verify.reduce.checks import UNKNOWN, PassCheck, RunCheck, is_finite
from onnx_passes.verify.reduce.parts import Boundary
from onnx_passes.verify.region import is_constant_node


@dataclass
class DataCandidates:
    """Runs candidates over a data set.

    What a candidate reads from inside of the model is computed from the data, batch by batch,
    by the nodes ahead of it. A run ends at the first shard with a sample that differs.
    ``executor`` runs the shards of one candidate after the other. ``boundary`` gets the sample
    that differs most of the first candidate that fails. ``right`` computes inner values. With
    ``allow_mixed``, workers with different processors may run models in 8 bits.
    """

    model: ir.Model
    plan: ShardPlan
    measures: Measures
    executor: Executor
    store: CandidateStore
    boundary: Boundary
    right: EngineChoice
    allow_mixed: bool = False
    _failed: bool = field(default=False, init=False)

    @property
    def text(self) -> str:
        """The data and its limits, so that answers for other ones are not taken."""
        limits = {k: v for k, v in self.measures.to_json().items() if v}
        return f"data {self.plan.digest} within {limits}"

    def start(self) -> None:
        """Give the boundary a sample of the data instead of made-up inputs."""
        self._use(int(DataSet(self.plan).rows(0, 1)[0]))

    def compare(
        self,
        expected: tuple[ir.Model | SmallerModel, EngineChoice],
        actual: tuple[ir.Model | SmallerModel, EngineChoice],
        bad: Callable[[str, str], CheckOutcome],
    ) -> CheckOutcome:
        """Compare two models over the data.

        ``bad`` makes the outcome of a failure from the kind of fault and what is wrong. Raises
        ``IncompleteDataError`` if the whole model does not run on all of the data, and
        ``OnnxPassesError`` if the workers are gone, or differ.
        """
        names = {str(value.name) for value in _model(expected[0]).graph.inputs}
        if not names <= self._values:
            return UNKNOWN
        result = self._run(expected, actual)
        counts, (pair,) = result.data["counts"], result.data["pairs"]
        if pair["found"]["failing_samples"]:
            if not self._failed:
                self._failed = True
                self._use(result.worst_rows()[0])
            return bad("differs", _describe(result, pair["found"]))
        reasons = [entry["reason"] for entry in (*counts["left_out"], *counts["broken"])]
        if not reasons:
            return CheckOutcome(Status.GOOD)
        if counts["broken"] or self._run(expected).data["counts"]["left_out"]:
            why = f"a part of the data set could not be evaluated: {reasons[0]}"
            if _size(_model(expected[0])) == _size(self.model):
                raise IncompleteDataError(
                    why, help="mend that part, or leave it out of the data"
                )
            return CheckOutcome(Status.UNJUDGED, why)
        # What is right has run on all of the data.
        return bad("does not run", f"does not run on all of the data: {reasons[0]}")

    def _run(self, *pairs: tuple[ir.Model | SmallerModel, EngineChoice]) -> DataResult:
        with ExitStack() as stack:
            written: dict[int, int] = {}
            models: list[ModelFile] = []
            runs: list[RunSpec] = []
            for model, choice in pairs:
                if id(model) not in written:
                    written[id(model)] = len(models)
                    path = stack.enter_context(self.store.file(model))
                    models.append(ModelFile.of(path, f"candidate {len(models)}"))
                place = written[id(model)]
                runs.append(RunSpec(place, choice, f"{models[place].name} on {choice.name}"))
            feeder = self._feeder(_model(pairs[0][0]), len(models))
            if feeder.model is not None:
                ahead = self._ahead(feeder)
                path = stack.enter_context(self.store.file(ahead))
                models.append(ModelFile.of(path, "ahead"))
                reads = tuple(str(value.name) for value in ahead.graph.inputs)
                fed = tuple(n for n in reads if n in self.plan.binding.columns)
                feeder = Feeder(feeder.model, feeder.engine, fed, feeder.gives)
            measures = self._measures(_model(pairs[0][0]))
            job = DataJob(self.plan, tuple(models), tuple(runs), measures, (), feeder)
            return evaluate(
                job,
                Demand(first=True),
                self.executor,
                accept=WorkerProcessors(job, allow_mixed=self.allow_mixed).accept,
            )

    def _measures(self, model: ir.Model) -> Measures:
        """Return the limits of a candidate, some of whose outputs are inner values."""
        ends = {value.name for value in self.model.graph.outputs}
        names = (str(v.name) for v in model.graph.outputs if v.name not in ends)
        return replace(self.measures, inner=tuple(names))

    def _feeder(self, model: ir.Model, place: int) -> Feeder:
        names = tuple(str(value.name) for value in model.graph.inputs)
        inner = [name for name in names if name not in self._inputs]
        return Feeder(place if inner else None, self.right, (), names)

    @cached_property
    def _values(self) -> set[str]:
        made = {str(value.name) for node in self.model.graph for value in node.outputs}
        return made | self._inputs

    @cached_property
    def _inputs(self) -> set[str]:
        return {str(value.name) for value in self.model.graph.inputs}

    def _ahead(self, feeder: Feeder) -> ir.Model:
        """Return the nodes ahead of a part, which compute what it reads."""
        inner = [name for name in feeder.gives if name not in self._inputs]
        return extract(self.model, outputs=[Cut(name) for name in inner])

    def _use(self, row: int) -> None:
        feeds = DataSet(self.plan).feeds(row)
        self.boundary.use({n: v for n, v in feeds.items() if isinstance(v, np.ndarray)})


def find_failing(plan: ShardPlan, engine: Engine, model: ir.Model) -> tuple[str, Feeds]:
    """Return the name of the first sample that an engine does not run, or makes NaN or Inf of.

    UsageError if all run, and are finite; EngineUnavailableError if the engine is not there.
    """
    data = DataSet(plan)
    first = int(data.rows(0, 1)[0])
    with ExitStack() as stack:
        try:
            session = stack.enter_context(engine.prepare(model))
        except EngineUnavailableError:
            raise
        except EngineError:
            return data.name(first), data.feeds(first)
        for number in range(plan.shards):
            shard = data.shard(number)
            for batch in shard.batches():
                (feeds,) = batch.feeds
                try:
                    fails = not all(map(is_finite, session.run(feeds).values()))
                except EngineError:
                    fails = True
                if fails and all(map(is_finite, feeds.values())):
                    return data.name(int(shard.rows[batch.start])), feeds
    raise UsageError(
        f"{engine.name} runs all {plan.used:,} samples and makes no NaN or Inf: there is "
        "nothing to reduce",
        help="--against ENGINE compares it with another one",
    )


@dataclass
class _OverData:
    """A check whose questions hold no values at cuts: these are computed from the data."""

    data: DataCandidates = field(kw_only=True)

    def __post_init__(self) -> None:
        self.reads_values = False

    @property
    def text(self) -> str:
        """The check on one sample, the data and its limits."""
        return f"{super().text} over {self.data.text}"  # type: ignore[misc]


@dataclass
class EngineDataCheck(_OverData, RunCheck):
    """An engine against another over a data set: the right one, then the one in doubt."""

    choices: tuple[EngineChoice, EngineChoice] = field(kw_only=True)

    def judge(self, candidate: SmallerModel, number: int) -> CheckOutcome:
        """Run the candidate on both engines over the data."""
        del number
        assert not isinstance(self.against, Boundary | None), "there are two engines"
        if (why := _why_refused(self.against, candidate.model)) is not None:
            return CheckOutcome(Status.UNJUDGED, f"the other engine: {_line(why.message)}")
        if (why := _why_refused(self.engine, candidate.model)) is not None:
            return self.bad(why.code, _line(why.message))
        right, doubted = self.choices
        return self.data.compare((candidate, right), (candidate, doubted), self.bad)


@dataclass
class PassDataCheck(_OverData, PassCheck):
    """Passes that change what a model computes on some sample of a data set."""

    choice: EngineChoice = field(kw_only=True)

    def judge(self, candidate: SmallerModel, number: int) -> CheckOutcome:
        """Apply the passes to a copy, and compare over the data."""
        outcome = super().judge(SmallerModel(candidate.model, lambda: None), number)
        if outcome != UNKNOWN:  # they raise, or break it, whatever the data
            return outcome
        after = copy_model(candidate.model)
        for each in self.make():
            after = each(after).model
        return self.data.compare((candidate, self.choice), (after, self.choice), self.bad)


def _model(model: ir.Model | SmallerModel) -> ir.Model:
    return model.model if isinstance(model, SmallerModel) else model


def _size(model: ir.Model) -> int:
    return sum(not is_constant_node(node) for node in model.graph)


def _why_refused(engine: Engine, model: ir.Model) -> OnnxPassesError | None:
    """Return why an engine does not take a model; None if it does."""
    try:
        with engine.prepare(model):
            return None
    except EngineUnavailableError:
        raise
    except EngineError as error:
        return error


def _describe(result: DataResult, found: PlainMapping) -> str:
    counts = result.data["counts"]
    bad = [(n, o) for n, o in found["outputs"].items() if o["failing_samples"]]
    if not bad:
        return next(iter(found["missing"]), "outputs differ")
    name, output = bad[0]
    worst = result.data["samples"].get(str(result.worst_rows()[0]), "")
    return (
        f"{name}: {output['failing_samples']:,} of the first {counts['evaluated']:,} samples "
        f"differ, by up to {float(output['max_abs']):.3g}; the worst is {worst}"
    )


def _line(text: str) -> str:
    return text.strip().partition("\n")[0][:200]
