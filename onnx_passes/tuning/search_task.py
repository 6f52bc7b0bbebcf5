"""The task of a search, and its result."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

import numpy as np
import onnx_ir as ir

from onnx_passes.arrays import Array
from onnx_passes.plain import PlainDict
from onnx_passes.runtime.engine_base import Engine, Feeds, Outputs
from onnx_passes.tuning.all_samples import AllSamples, SamplesInMemory, Stream, StreamedSamples
from onnx_passes.tuning.format_scores import Score
from onnx_passes.tuning.groups import FormatGroup
from onnx_passes.tuning.loss_budget import LossBudget, Spent
from onnx_passes.tuning.part_costs import Objective
from onnx_passes.tuning.part_formats import Format, Observed, by_format, convert
from onnx_passes.tuning.sketch import Sketch


@dataclass(frozen=True)
class Task:
    """A model, its groups and formats, and what may be lost.

    Attributes:
        model: As :func:`onnx_passes.tuning.groups.prepare` returns it.
        groups: Its groups.
        formats: Formats by name.
        engine: Runs models, and is what they are measured on.
        objective: What has to be small.
        budget: What may be lost.
        feeds: The samples that the budget is about; empty if they are a stream.
        sketch: The samples that groups are scored on.
        evaluations: Number of whole models that may be run on all samples.
        seconds: After which no other model is tried.
        stream: A data set that is read as a stream, in place of feeds.
        known: What was recorded of the original; filled by the search.
        judges: Engines that have to build what is chosen; they measure nothing.
        gap: The search ends once no choice is expected to cost less by more than this share.
        drawn: The samples of the scores as the search has drawn them; None before.
        score_all: Whether groups are scored though the cheapest choice keeps the budget.
    """

    model: ir.Model
    groups: Sequence[FormatGroup]
    formats: Mapping[str, Format]
    engine: Engine
    objective: Objective
    budget: LossBudget
    feeds: Sequence[Feeds]
    sketch: Sequence[Feeds]
    evaluations: int = 8
    seconds: float = math.inf
    stream: Stream | None = None
    known: Observed = field(default_factory=Observed)
    judges: Sequence[Engine] = ()
    gap: float = 0.01
    drawn: Sketch | None = None
    score_all: bool = False

    def build(self, names: Mapping[str, str]) -> ir.Model:
        """Return the model in which groups have certain formats.

        Args:
            names: Format by group.

        Raises:
            PassError: A pass refuses it.
        """
        nodes = {group.name: group.nodes for group in self.groups}
        return convert(self.model, by_format(nodes, names), self.formats, self.known)

    @property
    def ranges(self) -> dict[str, tuple[float, float]]:
        """Recorded ranges of values."""
        return self.known.ranges

    def whole(self) -> AllSamples:
        """Return all samples, to measure models on."""
        if self.stream is not None:
            return StreamedSamples(self.model, self.stream, self.budget)
        return SamplesInMemory(self.model, self.engine, self.feeds, self.budget)

    def spread(self, outputs: Sequence[Outputs]) -> Sequence[Outputs]:
        """Return outputs of all samples, made of those of the samples of the scores.

        Args:
            outputs: Arrays by name, of any type, with the axis of samples first.
        """
        return outputs if self.drawn is None else self.drawn.spread(outputs)

    def join(self, outputs: list[Outputs]) -> list[Outputs]:
        """Join outputs of the samples of the scores, where those of all samples are joined."""
        size = self._batch
        return outputs if size is None else join_outputs(outputs, size)

    def join_effects(self, score: Score, outputs: list[Outputs]) -> Score:
        """Join what a group moves, as its outputs are joined.

        Args:
            score: What a group moves.
            outputs: The outputs of the samples, arrays by name with the axis of samples first.
        """
        size = self._batch
        return score if size is None else join_effects(score, outputs, size)

    @property
    def _batch(self) -> int | None:
        return None if self.stream is None else self.stream.plan.binding.batch

    @property
    def share(self) -> float:
        """How large the samples of the scores are, as a share of all."""
        if self.stream is not None:
            plan = self.stream.plan
            return min(1.0, len(self.sketch) * plan.binding.batch / plan.used)
        return _bytes(self.sketch) / max(1, _bytes(self.feeds))

    @property
    def key(self) -> str:
        """What identifies the task: a hash of model, data and settings."""
        settings = {
            "groups": [[g.name, g.nodes, g.formats] for g in self.groups],
            "formats": sorted(repr(item) for item in self.formats.values()),
            "engine": self.engine.name,
            "judges": [judge.name for judge in self.judges],
            "objective": self.objective,
            "budget": [dict(self.budget.limits), repr(self.budget.flips)],
        }
        digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode())
        if self.stream is not None:
            digest.update(self.stream.plan.digest.encode())
        digest.update(ir.to_proto(self.model).SerializeToString(deterministic=True))
        for sample in (*self.feeds, *self.sketch):
            for name, value in sorted(sample.items()):
                digest.update(name.encode())
                digest.update(np.ascontiguousarray(value).tobytes())
        return digest.hexdigest()


@dataclass(frozen=True)
class TriedModel:
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


Ended: TypeAlias = Literal[
    "optimal", "within the gap", "evaluations", "time", "interrupted", "not recorded"
]


@dataclass
class SearchResult:
    """How a search ended.

    Attributes:
        task: The task.
        model: The best model that keeps the budget; never missing.
        best: What is known of it.
        bound: No choice that may be expected to keep the budget costs less, unless it was run
            and rejected.
        start: Cost of the original.
        tried: All models that were run, in order.
        scores: All scores.
        front: Expected loss and cost of choices that no other beats in both.
        ended: Why the search ended.
        work: Runs of whole models and of parts, in passes over all samples.
        seconds: What it took.
        judges: By engine that has to build what is chosen, why it does not build the original;
            empty if it does.
    """

    task: Task
    model: ir.Model
    best: TriedModel
    bound: float
    start: float
    tried: list[TriedModel] = field(default_factory=list)
    scores: list[Score] = field(default_factory=list)
    front: list[PlainDict] = field(default_factory=list)
    ended: Ended = "optimal"
    work: dict[str, float] = field(default_factory=dict)
    seconds: float = 0.0
    judges: dict[str, str] = field(default_factory=dict)

    @property
    def gap(self) -> float:
        """How far the cost is above the bound, as a share of it."""
        cost = self.best.cost
        return max(0.0, (cost - self.bound) / cost) if cost else 0.0

    def fitted(self) -> list[str]:
        """Return the formats that took integers from most of the samples that judged them."""
        task = self.task
        if task.stream is not None or 2 * _rows(task.sketch) <= _rows(task.feeds):
            return []
        return sorted(n for n in set(self.best.names.values()) if task.formats[n].learns)


def _rows(samples: Sequence[Feeds]) -> int:
    """Return the number of rows of samples, by the first axis of their first input."""
    firsts = [value for sample in samples for value in [*sample.values()][:1]]
    return sum((*np.asarray(first).shape, 1)[0] for first in firsts)


def _bytes(feeds: Sequence[Feeds]) -> int:
    return sum(v.nbytes for f in feeds for v in f.values() if isinstance(v, np.ndarray))


def join_outputs(batches: Sequence[Outputs], size: int) -> list[Outputs]:
    """Join the outputs of batches along the axis of samples.

    Args:
        batches: Outputs of each batch.
        size: Samples in a batch.

    Returns:
        One entry for all; the batches as they are where an output does not join.
    """
    joined: Outputs = {}
    for name in batches[0]:
        whole = _join([batch.get(name) for batch in batches], size)
        if whole is None:
            return list(batches)
        joined[name] = whole
    return [joined]


def join_effects(score: Score, batches: Sequence[Outputs], size: int) -> Score:
    """Join what a group in a format moves, as its outputs are joined.

    Args:
        score: The score.
        batches: Outputs of the original by batch.
        size: Samples in a batch.
    """
    if len(join_outputs(batches, size)) == len(batches):
        return score
    moved = dict.fromkeys(name for effect in score.effect for name in effect)
    joined: dict[str, Array] = {}
    for name in moved:
        parts = [_effect_on(e, name, b) for e, b in zip(score.effect, batches, strict=True)]
        whole = _join(parts, size)
        assert whole is not None, "effects have the shapes of outputs"
        joined[name] = whole
    return replace(score, effect=[joined] if score.effect else ())


def _effect_on(effect: Mapping[str, Array], name: str, like: Outputs) -> Array:
    value = like[name]
    assert isinstance(value, np.ndarray), "only tensors move"
    return effect[name] if name in effect else np.zeros_like(value)


def _join(values: Sequence[object], size: int) -> Array | None:
    arrays = [value for value in values if isinstance(value, np.ndarray)]
    if len(arrays) < len(values) or len({a.dtype for a in arrays}) > 1:
        return None
    first = arrays[0].shape
    # The last batch may be smaller.
    batched = bool(first) and first[0] == size and all(a.ndim for a in arrays)
    if batched and len({a.shape[1:] for a in arrays}) == 1:
        return np.concatenate(arrays)
    if size == 1 and len({a.shape for a in arrays}) == 1:
        return np.stack(arrays)
    return None
