"""All samples of a task, in memory or as a stream, and what models use of a budget on them."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeAlias

import onnx_ir as ir

from onnx_passes.data.demand import Demand
from onnx_passes.data.evaluation_job import DataJob, EngineChoice, ModelFile, RunSpec
from onnx_passes.data.job_evaluation import Journal, Progress, evaluate
from onnx_passes.data.measures import Measures
from onnx_passes.data.plan import IncompleteDataError, ShardPlan
from onnx_passes.data.shard_evaluation import Fleet
from onnx_passes.data.workers import Executor, KeptExecutor, WorkersGoneError
from onnx_passes.errors import ConfigError, EngineError
from onnx_passes.model.save import save_model
from onnx_passes.plain import PlainMapping
from onnx_passes.runtime.engine_base import Engine, Feeds, Outputs
from onnx_passes.tuning.loss_budget import LossBudget, Spent

Watch: TypeAlias = Callable[[ExitStack], Callable[[Progress], None] | None]


class RejectedError(Exception):
    """A model did not run on all samples. The text says why, in one clause."""


class AllSamples(Protocol):
    """All samples of a task."""

    def begin(self) -> Spent:
        """Measure the original.

        Raises:
            ConfigError: It does not keep the budget.
            EngineError: The engine does not run it.
            IncompleteDataError: A part of the data could not be evaluated.
        """
        ...

    def measure(self, model: ir.Model) -> Spent:
        """Measure a model against the original.

        Raises:
            RejectedError: It did not run on all samples.
            OnnxPassesError: Nothing can be measured any more.
        """
        ...

    @property
    def original(self) -> list[Outputs] | None:
        """The outputs of the original by sample; None if they are not held."""
        ...

    @property
    def last(self) -> list[Outputs] | None:
        """The outputs of the last model by sample; None if they are not held."""
        ...

    def close(self) -> None:
        """Remove what was written, and end the workers."""
        ...


class SamplesInMemory:
    """Samples that are held in memory, as are the outputs of the original.

    Args:
        model: The original.
        engine: Runs models.
        feeds: The samples.
        budget: What may be lost.
    """

    def __init__(
        self, model: ir.Model, engine: Engine, feeds: Sequence[Feeds], budget: LossBudget
    ) -> None:
        self._model, self._engine, self._feeds = model, engine, feeds
        self._budget, self._original = budget, list[Outputs]()
        self._last: list[Outputs] = []

    def begin(self) -> Spent:
        """Measure the original; see ``AllSamples.begin``."""
        self._original = self._run(self._model)
        self._budget.begin(self._original)
        return self._budget.measure(self._original, self._original)

    def measure(self, model: ir.Model) -> Spent:
        """Measure a model; see ``AllSamples.measure``."""
        try:
            self._last = self._run(model)
        except EngineError as error:
            raise RejectedError(error.message) from error
        return self._budget.measure(self._last, self._original)

    @property
    def original(self) -> list[Outputs]:
        """The outputs of the original; see ``AllSamples.original``."""
        return self._original

    @property
    def last(self) -> list[Outputs]:
        """The outputs of the last model; see ``AllSamples.last``."""
        return self._last

    def close(self) -> None:
        """Do nothing: nothing was written."""

    def _run(self, model: ir.Model) -> list[Outputs]:
        with self._engine.prepare(model) as session:
            return [session.run(feed) for feed in self._feeds]


@dataclass(frozen=True)
class Stream:
    """A data set that is read as a stream.

    Attributes:
        plan: The data set.
        engine: Runs models in each worker.
        executor: Makes what runs the shards.
        allow_mixed: Whether workers with different processors may run models in 8 bits.
        imports: Modules that workers import first.
        journals: Folder of finished shards, from which a killed run continues; None for none.
        watch: Given what ends the watching, returns what is called after each shard; None for
            nothing.
    """

    plan: ShardPlan
    engine: EngineChoice
    executor: Callable[[], Executor]
    allow_mixed: bool = False
    imports: tuple[str, ...] = ()
    journals: Path | None = None
    watch: Watch | None = None


class StreamedSamples:
    """Samples of a data set, with no more than a shard in memory.

    Args:
        model: The original.
        stream: The data set.
        budget: What may be lost.
    """

    def __init__(self, model: ir.Model, stream: Stream, budget: LossBudget) -> None:
        self._model, self._stream, self._budget = model, stream, budget
        flips = budget.flips
        first = str(model.graph.outputs[0].name)
        scores = "" if flips is None else flips.output or first
        self._measures = Measures(scores=scores, metrics=tuple(budget.limits))
        self._stack = ExitStack()
        self._workers = KeptExecutor(stream.executor())
        self._stack.callback(self._workers.end)
        self._folder: Path | None = None

    def begin(self) -> Spent:
        """Measure the original; see ``AllSamples.begin``."""
        folder = self._stack.enter_context(tempfile.TemporaryDirectory(prefix="onnx-passes-"))
        self._folder = Path(folder)
        save_model(self._model, self._folder / "original.onnx")
        values, counted = self._evaluate("original.onnx")
        self._budget.begin_with(values, counted[1])
        return self._budget.spend(values, counted)

    def measure(self, model: ir.Model) -> Spent:
        """Measure a model; see ``AllSamples.measure``."""
        assert self._folder is not None, "the original comes first"
        save_model(model, self._folder / "candidate.onnx")
        try:
            found = self._evaluate("original.onnx", "candidate.onnx")
        except WorkersGoneError:
            raise
        except (EngineError, IncompleteDataError) as error:
            raise RejectedError(error.message) from error
        return self._budget.spend(*found)

    @property
    def original(self) -> None:
        """None: outputs of a stream are not held."""
        return None

    @property
    def last(self) -> None:
        """None: outputs of a stream are not held."""
        return None

    def close(self) -> None:
        """Remove the models that were written, and end the workers."""
        self._stack.close()

    def _evaluate(self, *names: str) -> tuple[dict[str, float], tuple[int, int]]:
        """Evaluate models; return metrics, and the number of flips and of decisions."""
        assert self._folder is not None, "models are written first"
        stream = self._stream
        models = tuple(ModelFile.of(self._folder / name) for name in names)
        runs = tuple(
            RunSpec(place, stream.engine, Path(name).stem) for place, name in enumerate(names)
        )
        job = DataJob(stream.plan, models, runs, self._measures, stream.imports)
        with ExitStack() as stack:
            journal = None
            if stream.journals is not None:
                stream.journals.mkdir(parents=True, exist_ok=True)
                path = stream.journals / f"{job.digest}.journal"
                journal = stack.enter_context(Journal(path, job))
            result = evaluate(
                job,
                Demand(),
                self._workers,
                journal=journal,
                on_progress=None if stream.watch is None else stream.watch(stack),
                accept=Fleet(job, allow_mixed=stream.allow_mixed).accept,
            )
        _check_complete(result.data["counts"])
        (pair,) = result.data["pairs"]
        return self._read(pair["found"])

    def _read(self, found: PlainMapping) -> tuple[dict[str, float], tuple[int, int]]:
        values = {name: float(value) for name, value in found["metrics"].items()}
        if self._budget.flips is None:
            return values, (0, 0)
        classes = found["classes"]
        if classes is None:
            raise ConfigError(
                f"the output {self._measures.scores!r} holds no scores, so that nothing flips",
                help="name the output that does: tune.flips.output",
            )
        return values, (classes["flips"], classes["rows"])


def _check_complete(counts: PlainMapping) -> None:
    """Check that all samples were evaluated.

    Raises:
        IncompleteDataError: Some were not.
    """
    left_out = counts["left_out"]
    why = [f"samples {e['first']:,} to {e['stop'] - 1:,}: {e['reason']}" for e in left_out]
    why += [f"{part['name']}: {part['reason']}" for part in counts["broken"]]
    if why:
        more = f" and {len(why) - 3} more" if len(why) > 3 else ""
        raise IncompleteDataError(
            f"a part of the data set could not be evaluated: {'; '.join(why[:3])}{more}",
            help="mend that part, or leave it out of the data",
        )
