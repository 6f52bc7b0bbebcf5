"""What a model may lose, and the samples on which the loss is measured.

All samples are in memory or a stream. A sketch is the few samples that predict the loss of
all.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol, Self, TypeAlias

import numpy as np
import onnx_ir as ir

from onnx_passes.arrays import Array
from onnx_passes.contracts import metrics
from onnx_passes.contracts.scores import kind_of, widen
from onnx_passes.data.confidence import Interval, clopper_pearson
from onnx_passes.data.demand import Demand
from onnx_passes.data.evaluation_job import DataJob, EngineChoice, ModelFile, RunSpec
from onnx_passes.data.job_evaluation import Journal, Progress, evaluate
from onnx_passes.data.measures import Measures
from onnx_passes.data.plan import IncompleteDataError, ShardPlan
from onnx_passes.data.shard_evaluation import WorkerProcessors
from onnx_passes.data.workers import Executor, KeptExecutor, WorkersGoneError
from onnx_passes.errors import ConfigError, EngineError
from onnx_passes.model.save import save_model
from onnx_passes.plain import PlainMapping
from onnx_passes.runtime.engine_base import Data, Engine, Feeds, Outputs
from onnx_passes.runtime.ort import rounding_engine


@dataclass(frozen=True)
class FlipLimit:
    """How often the largest score may be another one.

    `most` is a share of the samples. The share of all data is below it with `confidence`. If
    `looks` models are judged on the same samples, each bound needs more confidence, so that
    all hold together. Scores are along the last axis of `output`, by default the first output.
    """

    most: float
    confidence: float = 0.95
    output: str | None = None
    looks: int = 1

    def count(
        self, produced: Sequence[Outputs], expected: Sequence[Outputs]
    ) -> tuple[int, int]:
        """Return the number of decisions that differ, and of all, in arrays [..., classes]."""
        flipped = total = 0
        for new, old in zip(produced, expected, strict=True):
            name = self.output or next(iter(old))
            ours, theirs = (np.asarray(side[name]) for side in (new, old))
            differ = ours.argmax(-1) != theirs.argmax(-1)
            flipped, total = flipped + int(differ.sum()), total + int(differ.size)
        return flipped, total

    def bound(self, flipped: int, total: int) -> Interval:
        """Return the share with its exact bounds."""
        return clopper_pearson(flipped, total, 1 - (1 - self.confidence) / self.looks)


@dataclass(frozen=True)
class BudgetUse:
    """What a model uses of the budget.

    `shares` are by metric and "flips": 0 for the original, 1 for the limit. `broken` names an
    output with NaN or infinities that the original does not have. `deployed` is what the
    engine gives where another one showed what values below float32 are rounded to.
    """

    shares: Mapping[str, float]
    values: Mapping[str, float]
    flips: Interval | None = None
    broken: str = ""
    deployed: BudgetUse | None = None

    @property
    def total(self) -> float:
        """The largest share; infinite where a metric or an element is not a number."""
        return math.inf if self.broken else max(self.shares.values(), default=0.0)

    @property
    def holds(self) -> bool:
        """Whether the budget is kept, on the engine that is deployed as well."""
        return self.total <= 1.0 and (self.deployed is None or self.deployed.holds)

    @property
    def problem(self) -> str:
        """Why the budget is not kept, in one clause; empty if it is."""
        if self.holds:
            return ""
        if self.broken:
            return f"{self.broken} has NaN or infinity where the original has not"
        if self.total <= 1.0 and self.deployed is not None:
            return f"{self.deployed.problem} on the engine as it is deployed"
        worst = max(self.shares, key=self.shares.__getitem__)
        said = f"{worst} {self.values[worst]:.6g}" if worst in self.values else worst
        return f"uses {self.total:.3g} of the budget ({said})"


@dataclass
class LossBudget:
    """What a model may lose against the original on samples; no `flips` allows any number."""

    limits: Mapping[str, tuple[float, float]]
    flips: FlipLimit | None = None
    labels: Sequence[Sequence[Array]] = ()
    _start: dict[str, float] = field(default_factory=dict)

    def begin(self, original: Sequence[Outputs]) -> None:
        """Measure the original; ConfigError if it does not keep the budget."""
        values = self._measure(original, original, sure=True)
        flips = self.flips
        self.begin_with(values, flips.count(original, original)[1] if flips else 0)

    def begin_with(self, values: Mapping[str, float], decisions: int) -> None:
        """Take what was measured of the original; ConfigError if it breaks the budget."""
        self._start = dict(values)
        for name, value in self._start.items():
            low, high = self.limits[name]
            if not low <= value <= high:
                raise ConfigError(
                    f"the original itself has {name} {value:.6g}, not in [{low:g}, {high:g}]",
                    help=f"equal outputs have {name} inf: allow .inf"
                    if value == math.inf
                    else "correct the budget, or the data",
                )
        flips = self.flips
        if flips and decisions and flips.bound(0, decisions).high > flips.most:
            needed = math.log((1 - flips.confidence) / flips.looks) / math.log(1 - flips.most)
            raise ConfigError(
                f"{decisions} decisions cannot show that at most {flips.most:.2%} flip, "
                f"with a confidence of {flips.confidence:.0%}",
                help=f"give data with {math.ceil(needed)} decisions, or allow more flips",
            )

    def measure(
        self, produced: Sequence[Outputs], expected: Sequence[Outputs], *, sure: bool = True
    ) -> BudgetUse:
        """Return what outputs use of the budget; if `sure`, flips by their upper bound."""
        values = self._measure(produced, expected, sure)
        counted = self.flips.count(produced, expected) if self.flips else (0, 0)
        return self.spend(values, counted, find_broken(produced, expected), sure=sure)

    def spend(
        self,
        values: Mapping[str, float],
        counted: tuple[int, int],
        broken: str = "",
        *,
        sure: bool = True,
    ) -> BudgetUse:
        """Return what metrics and flips use of the budget.

        `counted` has the decisions that differ, and all. If `sure`, flips count with their
        upper bound. For `broken`, see :class:`BudgetUse`.
        """
        shares = {n: self.share(n, value) for n, value in values.items()}
        found = None
        if self.flips is not None:
            flipped, total = counted
            if total:
                found = self.flips.bound(flipped, total)
                spent = found.high if sure else found.value
                shares["flips"] = spent / self.flips.most if self.flips.most else math.inf
                if not self.flips.most:
                    shares["flips"] = math.inf if spent else 0.0
        return BudgetUse(shares, values, found, broken)

    def _measure(
        self, produced: Sequence[Outputs], expected: Sequence[Outputs], sure: bool
    ) -> dict[str, float]:
        ours, theirs = (
            [[np.asarray(v) for v in sample.values()] for sample in side]
            for side in (produced, expected)
        )
        found = {}
        for name in self.limits:
            metric = metrics.lookup(name)
            # On other samples than the user's there are no labels.
            given = self.labels if sure else ()
            against = metric.choose_expected(theirs, given)
            if against:
                found[name] = metric.measure(ours, against)
        return found

    def share(self, name: str, value: float) -> float:
        """Return what the value of a metric uses of the budget."""
        low, high = self.limits[name]
        start = self._start.get(name, value)
        if math.isnan(value):
            return math.inf
        if math.isinf(start):  # decibels: noise adds up, its logarithm does not
            limit = low if start > 0 else high
            sign = 1 if start > 0 else -1
            if math.isinf(limit):
                return 0.0
            return 0.0 if value == start else 10.0 ** (sign * (limit - value) / 10)
        up = (value - start) / (high - start) if high > start else math.inf
        down = (start - value) / (start - low) if start > low else math.inf
        if value > start:
            return 0.0 if math.isinf(high) else up
        return 0.0 if value == start or math.isinf(low) else down


def find_broken(produced: Sequence[Outputs], expected: Sequence[Outputs]) -> str:
    """Return the first output with NaN or infinities that are not those of the original."""
    for ours, theirs in zip(produced, expected, strict=True):
        for name, value in theirs.items():
            new, old = np.asarray(ours[name]), np.asarray(value)
            if kind_of(old.dtype) != "float" or new.shape != old.shape:
                continue
            new, old = widen(new), widen(old)
            odd = ~(np.isfinite(new) & np.isfinite(old))
            if odd.any() and not np.array_equal(new[odd], old[odd], equal_nan=True):
                return name
    return ""


Watch: TypeAlias = Callable[[ExitStack], Callable[[Progress], None] | None]


class RejectedError(Exception):
    """A model did not run on all samples. The text says why, in one clause."""


class AllSamples(Protocol):
    """All samples of a task."""

    def begin(self) -> BudgetUse:
        """Measure the original.

        ConfigError if it does not keep the budget, EngineError if the engine does not run it,
        IncompleteDataError if a part of the data could not be evaluated.
        """
        ...

    def measure(self, model: ir.Model) -> BudgetUse:
        """Measure a model against the original.

        RejectedError if it did not run on all samples. Any other OnnxPassesError ends all
        measuring.
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
    """Samples that are held in memory, as are the outputs of the original."""

    def __init__(
        self, model: ir.Model, engine: Engine, feeds: Sequence[Feeds], budget: LossBudget
    ) -> None:
        self._model, self._engine, self._feeds = model, engine, feeds
        self._budget = budget
        self.original, self.last = list[Outputs](), list[Outputs]()

    def begin(self) -> BudgetUse:
        """Measure the original; see ``AllSamples.begin``."""
        self.original = self._run(self._model, self._engine)
        self._budget.begin(self.original)
        return self._budget.measure(self.original, self.original)

    def measure(self, model: ir.Model) -> BudgetUse:
        """Measure a model; see ``AllSamples.measure``."""
        judge = rounding_engine(self._engine, model)
        try:
            self.last = self._run(model, judge)
            spent = self._budget.measure(self.last, self.original)
            if judge is self._engine or not spent.holds:
                return spent
            deployed = self._run(model, self._engine)
        except EngineError as error:
            raise RejectedError(error.message) from error
        return replace(spent, deployed=self._budget.measure(deployed, self.original))

    def close(self) -> None:
        """Do nothing: nothing was written."""

    def _run(self, model: ir.Model, engine: Engine) -> list[Outputs]:
        with engine.prepare(model) as session:
            return [session.run(feed) for feed in self._feeds]


@dataclass(frozen=True)
class Stream:
    """A data set that is read as a stream.

    `executor` makes what runs the shards. `allow_mixed` lets workers with different processors
    run models in 8 bits. Workers import `imports` first. A killed run continues from
    `journals`; None for none. `watch` gets what ends the watching, and returns what is called
    after each shard.
    """

    plan: ShardPlan
    engine: EngineChoice
    executor: Callable[[], Executor]
    allow_mixed: bool = False
    imports: tuple[str, ...] = ()
    journals: Path | None = None
    watch: Watch | None = None


_OF_DEPLOYED = ("optimization", "provider", "provider_options", "isolate")
"""Options of ONNX Runtime that an engine which rounds as a model says does not have."""
Measured: TypeAlias = tuple[dict[str, float], tuple[int, int], str]
"""Metrics, the number of flips and of decisions, and an output that is not finite."""


class StreamedSamples:
    """Samples of a data set, with no more than a shard in memory."""

    original = last = None
    """Outputs of a stream are not held."""

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

    def begin(self) -> BudgetUse:
        """Measure the original; see ``AllSamples.begin``."""
        folder = self._stack.enter_context(tempfile.TemporaryDirectory(prefix="onnx-passes-"))
        self._folder = Path(folder)
        save_model(self._model, self._folder / "original.onnx")
        (found,) = self._evaluate()
        self._budget.begin_with(found[0], found[1][1])
        return self._budget.spend(*found)

    def measure(self, model: ir.Model) -> BudgetUse:
        """Measure a model; see ``AllSamples.measure``."""
        assert self._folder is not None, "the original comes first"
        save_model(model, self._folder / "candidate.onnx")
        own = self._stream.engine
        engines, engine = [own], own.make()
        if rounding_engine(engine, model) is not engine:
            kept = own.options if own.name == "onnxruntime" else {}
            options = {n: v for n, v in kept.items() if n not in _OF_DEPLOYED}
            engines.insert(0, EngineChoice("onnxruntime", options))
        try:
            found = self._evaluate(*(("candidate.onnx", each) for each in engines))
        except WorkersGoneError:
            raise
        except (EngineError, IncompleteDataError) as error:
            raise RejectedError(error.message) from error
        spent, *deployed = [self._budget.spend(*each) for each in found]
        return replace(spent, deployed=deployed[0]) if deployed else spent

    def close(self) -> None:
        """Remove the models that were written, and end the workers."""
        self._stack.close()

    def _evaluate(self, *candidates: tuple[str, EngineChoice]) -> list[Measured]:
        """Evaluate the original, and models on engines against it."""
        assert self._folder is not None, "models are written first"
        stream = self._stream
        each = [("original.onnx", stream.engine), *candidates]
        files = list(dict.fromkeys(name for name, _ in each))
        models = tuple(ModelFile.of(self._folder / name) for name in files)
        runs = tuple(
            RunSpec(files.index(name), engine, f"{Path(name).stem} {place}")
            for place, (name, engine) in enumerate(each)
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
                accept=WorkerProcessors(job, allow_mixed=stream.allow_mixed).accept,
            )
        _check_complete(result.data["counts"])
        return [self._read(pair["found"]) for pair in result.data["pairs"]]

    def _read(self, found: PlainMapping) -> Measured:
        values = {name: float(value) for name, value in found["metrics"].items()}
        ends = found["outputs"].items()
        broken = next((n for n, own in ends if float(own["max_abs"]) == math.inf), "")
        if self._budget.flips is None:
            return values, (0, 0), broken
        classes = found["classes"]
        if classes is None:
            raise ConfigError(
                f"the output {self._measures.scores!r} holds no scores, so that nothing flips",
                help="name the output that does: tune.flips.output",
            )
        return values, (classes["flips"], classes["rows"]), broken


def _check_complete(counts: PlainMapping) -> None:
    """Check that all samples were evaluated; IncompleteDataError if not."""
    left_out = counts["left_out"]
    why = [f"samples {e['first']:,} to {e['stop'] - 1:,}: {e['reason']}" for e in left_out]
    why += [f"{part['name']}: {part['reason']}" for part in counts["broken"]]
    if why:
        more = f" and {len(why) - 3} more" if len(why) > 3 else ""
        raise IncompleteDataError(
            f"a part of the data set could not be evaluated: {'; '.join(why[:3])}{more}",
            help="mend that part, or leave it out of the data",
        )


_NOISE, _PROBES = 0.05, 2
"""Root mean square of noise, as a share of that of an output, and how often it is drawn."""


def sensitivity(samples: Sequence[Outputs], budget: LossBudget) -> Array | None:
    """Return what samples lose by noise, floats by sample; None if nothing is lost."""
    rng = np.random.default_rng(0)
    total = np.zeros(len(samples))
    for _ in range(_PROBES):
        for shares in _one_by_one(samples, budget, rng).values():
            mean = shares.mean()
            if np.isfinite(mean) and mean > 0:
                total += shares / mean
    return total if total.any() else None


def _add_noise(value: Data, rng: np.random.Generator) -> Data:
    """Return values with white noise; data other than floats stay as they are."""
    if not isinstance(value, np.ndarray) or value.dtype.kind != "f" or not value.size:
        return value
    size = np.sqrt(np.mean(np.square(value, dtype=np.float64)))
    noise = rng.normal(size=value.shape) * _NOISE * size
    return np.asarray(value + noise, value.dtype)


def _one_by_one(
    samples: Sequence[Outputs], budget: LossBudget, rng: np.random.Generator
) -> dict[str, Array]:
    """Return the shares of the budget by metric, floats by sample."""
    spent = []
    for sample in samples:
        moved = {name: _add_noise(value, rng) for name, value in sample.items()}
        spent.append(budget.measure([moved], [sample], sure=False).shares)
    return {kind: np.array([own[kind] for own in spent]) for kind in spent[0]}


_MOST = 1024
"""So many samples are represented; of more, some that are spread evenly."""
_SENSITIVE = 0.75
"""Share of the few samples that may be the most sensitive ones."""


@dataclass(frozen=True)
class Sketch:
    """Few samples.

    They are whole feeds, or rows of one feed (`by_rows`). `numbers` are those of the samples
    among all; empty for the first ones, which are measured as they are. `represented` has for
    each feed of all the places in the sketch of what represents its rows. It is one place a
    feed if whole feeds represent each other.
    """

    feeds: Sequence[Feeds]
    numbers: Sequence[int] = ()
    represented: Sequence[Sequence[int]] = ()
    by_rows: bool = False

    @classmethod
    def of(
        cls,
        feeds: Sequence[Feeds],
        numbers: Sequence[int],
        represented: Sequence[Sequence[int]],
        *,
        by_rows: bool,
    ) -> Self:
        """Return a sketch of chosen samples."""
        if not by_rows:
            return cls([feeds[number] for number in numbers], numbers, represented)
        whole = _join(feeds)
        assert whole is not None, "rows were chosen"
        return cls([_rows(whole, numbers)], numbers, represented, by_rows)

    def spread(self, outputs: Sequence[Outputs]) -> Sequence[Outputs]:
        """Return outputs of all samples, made of those that represent them."""
        if not self.represented:
            return outputs
        if not self.by_rows:
            return [outputs[place] for place in self.represented[0]]
        (own,) = outputs
        return [_rows(own, places) for places in self.represented]

    def take(self, feeds: Sequence[Feeds], outputs: Sequence[Outputs]) -> list[Outputs] | None:
        """Return the outputs of the sketch's samples; None if they cannot be distinguished."""
        if self.by_rows:
            whole = _join(outputs)
            return None if whole is None else [_rows(whole, self.numbers)]
        if self.represented:
            return [outputs[number] for number in self.numbers]
        found: list[Outputs] = []
        for feed, part, own in zip(feeds, self.feeds, outputs, strict=False):
            sizes, taken = _sizes(feed), _sizes(part)
            if sizes == taken:
                found.append(own)
                continue
            cut = min((size for size in taken if size is not None), default=None)
            if cut is None or _sizes(own) != sizes or len(sizes) != 1:
                return None
            found.append(_rows(own, range(cut)))
        return found if len(found) == len(self.feeds) else None


def draw(
    feeds: Sequence[Feeds],
    first: Sequence[Feeds],
    original: Sequence[Outputs],
    budget: LossBudget,
) -> Sketch:
    """Return a sketch of the size of another one, of samples by their sensitivity.

    `first` is a sketch of the first feeds, the last of them cut if the model allows it. It is
    returned if samples cannot be distinguished.
    """
    plain = Sketch(first)
    pairs = list(zip(feeds, first, strict=False))
    cut = any(_sizes(feed) != _sizes(part) for feed, part in pairs)
    whole = _join(original) if cut else None
    inputs = _join(feeds) if cut else None
    if cut and (whole is None or inputs is None or _sizes(whole) != _sizes(inputs)):
        return plain
    size = sum(_count(part) for part in first) if cut else len(first)
    total = _count(inputs) if inputs is not None else len(feeds)
    if size >= total:
        return plain
    every = np.linspace(0, total - 1, min(total, _MOST)).round().astype(int)
    samples = [original[i] if whole is None else _rows(whole, [i]) for i in every]
    weights = sensitivity(samples, budget)
    if weights is None:
        return plain
    chosen, represented = _choose(weights, size)
    numbers = every[chosen].tolist()
    if inputs is None:
        return Sketch.of(feeds, numbers, [represented.tolist()], by_rows=False)
    ends = np.searchsorted(every, np.cumsum([_count(feed) for feed in feeds]))
    parts = [part.tolist() for part in np.split(represented, ends[:-1])]
    return Sketch.of(feeds, numbers, [part for part in parts if part], by_rows=True)


def _choose(weights: Array, size: int) -> tuple[Array, Array]:
    """Choose samples, all of the most sensitive and some of the others.

    Return their numbers in order, and for each sample the place among these of the one that
    represents it.
    """
    order = np.argsort(-weights, kind="stable")
    count, squares = len(weights), np.cumsum((weights[order] ** 2)[::-1])[::-1]
    most = int(size * _SENSITIVE)
    # Losses scatter about what the noise shows, in proportion to it.
    spread = [(count - k) * squares[k] / (size - k) for k in range(most + 1)]
    taken = int(np.argmin(spread))
    blocks = np.array_split(order[taken:], size - taken)
    middles = [block[len(block) // 2] for block in blocks]
    chosen = np.sort(np.concatenate([order[:taken], middles]))
    represented = np.zeros(count, int)
    represented[order[:taken]] = np.searchsorted(chosen, order[:taken])
    for block, middle in zip(blocks, middles, strict=True):
        represented[block] = np.searchsorted(chosen, middle)
    return chosen, represented


def _join(samples: Sequence[Mapping[str, Data]]) -> dict[str, Data] | None:
    """Return samples as one, along the first axis; None if they have none in common."""
    found: dict[str, Data] = {}
    for sample in samples:
        sizes = _sizes(sample)
        if len(sizes) != 1 or None in sizes:
            return None
    for name in samples[0]:
        arrays = [np.asarray(sample[name]) for sample in samples]
        if len({(array.shape[1:], array.dtype) for array in arrays}) > 1:
            return None
        found[name] = arrays[0] if len(arrays) == 1 else np.concatenate(arrays)
    return found


def _rows(values: Mapping[str, Data], rows: Sequence[int]) -> dict[str, Data]:
    return {name: np.asarray(value)[list(rows)] for name, value in values.items()}


def _count(values: Mapping[str, Data]) -> int:
    return min((size for size in _sizes(values) if size is not None), default=1)


def _sizes(values: Mapping[str, Data]) -> set[int | None]:
    """Return the first dimensions of values; None for what has none."""
    return {len(v) if isinstance(v, np.ndarray) and v.ndim else None for v in values.values()}
