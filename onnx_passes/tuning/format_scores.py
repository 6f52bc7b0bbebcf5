"""Scores of each group in each format: runs of its region on the values of the original.

An engine that only builds models judges formats and measures nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Self

import numpy as np
import onnx_ir as ir

from onnx_passes.arrays import Array
from onnx_passes.contracts.scores import snr
from onnx_passes.errors import EngineError, OnnxPassesError
from onnx_passes.model.copy import copy_model
from onnx_passes.model.save import written_bytes
from onnx_passes.ops.elementwise import Neg
from onnx_passes.passes.precision._recording import inner_values, watch
from onnx_passes.passes.replace import Namer
from onnx_passes.runtime.engine_base import Data, Engine, Feeds, Outputs, Session
from onnx_passes.runtime.ort import rounding_engine
from onnx_passes.tuning.groups import (
    FLOAT32,
    AuditFinding,
    Format,
    FormatGroup,
    ModelRegions,
    Objective,
    Observed,
    audit,
    bit_operations,
    convert,
    list_needed_values,
    operations,
    read_by_layers,
    shared_bytes,
    time_runs,
)
from onnx_passes.verify.recording import Recording, expose_values
from onnx_passes.verify.region import Region
from onnx_passes.verify.snapshot import Change, Snapshot


def describe_failure(error: Exception) -> str:
    """Return why a model could not be built or run, in one clause.

    A fault in a pass is reported as well: a search ends with a valid model whatever happens.
    """
    if isinstance(error, OnnxPassesError):
        return error.message
    return f"it fails: {type(error).__name__}: {' '.join(str(error).split())[:200]}"


def changes_nothing(item: Format, notes: Sequence[str]) -> str:
    """Return why a format changed nothing, as its passes noted it."""
    return ": ".join([f"{item.pass_name} changes nothing in it", *dict.fromkeys(notes)])


class BuildChecker:
    """Asks engines whether they build models, for inputs of the sizes of `feeds`."""

    def __init__(self, engines: Sequence[Engine], feeds: Feeds) -> None:
        self._engines = list(engines)
        self.values: Mapping[str, object] = dict(feeds)
        """Values by name, whose sizes parts are built for."""

    def refusals(self, model: ir.Model) -> dict[str, str]:
        """Return why engines do not build a model, by name of the engine."""
        found: dict[str, str] = {}
        fixed = _fix_sizes(model, self.values) if self._engines else model
        for engine in self._engines:
            try:
                with engine.prepare(fixed):
                    pass
            except EngineError as error:
                found[engine.name] = error.message
        return found

    def refuses(self, before: Mapping[str, str], model: ir.Model) -> str | None:
        """Return why an engine refuses a model and not the same in float32 (`before`)."""
        for name, why in self.refusals(model).items():
            if name not in before:
                return f"{name} refuses it: {why}"[:300]
        return None

    def leave_out(
        self, before: ir.Model, models: dict[str, ir.Model], refused: dict[str, str]
    ) -> None:
        """Remove what an engine refuses that builds the same in float32; add to `refused`."""
        known = self.refusals(before)
        for name, model in list(models.items()):
            why = self.refuses(known, model)
            if why is not None:
                refused[name] = why
                del models[name]


def _fix_sizes(model: ir.Model, values: Mapping[str, object]) -> ir.Model:
    """Return a model whose inputs have sizes: compilers ask for them."""
    copy = copy_model(model)
    for value in copy.graph.inputs:
        known = values.get(str(value.name))
        if known is not None:
            value.shape = ir.Shape(np.asarray(known).shape)
    return copy


MEMORY = 1 << 30
"""Bytes of recorded values that are kept in memory; the rest goes to disk."""


@dataclass
class RecordedRun:
    """A run of the original on a few samples.

    `rows` are values that regions read. `ranges` are the least and greatest finite element of
    float values over the samples, in bodies over all iterations.
    """

    feeds: Sequence[Feeds]
    rows: list[Recording] = field(default_factory=list)
    outputs: list[Outputs] = field(default_factory=list)
    ranges: dict[str, tuple[float, float]] = field(default_factory=dict)


def record(
    model: ir.Model, engine: Engine, feeds: Sequence[Feeds], names: set[str]
) -> RecordedRun:
    """Run the original on each sample, keep values of `names`; EngineError if it fails."""
    found = RecordedRun(feeds)
    ends = [str(value.name) for value in model.graph.outputs]
    defaults: dict[str, Array] = {
        str(v.name): v.const_value.numpy() for v in model.graph.inputs if v.const_value
    }
    every = expose_values(model)
    inner = watch(every, {str(value.name) for value in inner_values(every)})
    with rounding_engine(engine, every).prepare(every) as session:
        for feed in feeds:
            values = {**defaults, **feed, **session.run(feed)}
            for end, name in inner.items():
                _widen(found.ranges, name, np.asarray(values.pop(end)))
            row = Recording(MEMORY // max(1, len(feeds)))
            row.update({name: data for name, data in values.items() if name in names})
            found.rows.append(row)
            found.outputs.append({name: values[name] for name in ends})
            for name, data in values.items():
                if isinstance(data, np.ndarray) and data.dtype == np.float32:
                    _widen(found.ranges, name, data)
    return found


def _widen(ranges: dict[str, tuple[float, float]], name: str, array: Array) -> None:
    finite = array[np.isfinite(array)]
    low, high = ranges.get(name, (0.0, 0.0))
    if finite.size:
        low, high = min(low, float(finite.min())), max(high, float(finite.max()))
    ranges[name] = low, high


class OutputEffects:
    """The nodes that follow a part, in one session for all formats of the part."""

    def __init__(
        self,
        engine: Engine,
        regions: ModelRegions,
        region: Region | None,
        recorded: RecordedRun,
    ) -> None:
        self._engine, self._regions, self._region = engine, regions, region
        self._recorded, self._stack = recorded, ExitStack()
        self._session: Session | None = None
        self._names: list[str] = []
        self._ends = {str(value.name) for value in regions.model.graph.outputs}

    def __enter__(self) -> Self:
        """Return itself; the session starts with the first run."""
        return self

    def __exit__(self, *error: object) -> None:
        """End the session."""
        self._stack.close()

    def move(self, base: Sequence[Outputs], new: Sequence[Outputs]) -> list[dict[str, Array]]:
        """Return how far the outputs move, by sample and name; EngineError if it fails."""
        recorded = self._recorded
        moved = [
            _move(old, after, row, self._ends)
            for old, after, row in zip(base, new, recorded.outputs, strict=True)
        ]
        if self._region is None:
            return moved
        session = self._session or self._start(self._region)
        for place, (old, after) in enumerate(zip(base, new, strict=True)):
            known, ends = recorded.rows[place], recorded.outputs[place]
            feeds = {n: _shift(known[n], old.get(n), after.get(n)) for n in self._names}
            moved[place] |= _move(ends, session.run(feeds), ends, self._ends)
        return moved

    def _start(self, region: Region) -> Session:
        model = self._regions.build(region, self._recorded.rows)
        self._names = [str(value.name) for value in model.graph.inputs]
        engine = rounding_engine(self._engine, model)
        self._session = self._stack.enter_context(engine.prepare(model))
        return self._session


def _move(old: Outputs, new: Outputs, like: Outputs, ends: set[str]) -> dict[str, Array]:
    found = {}
    for name in ends & new.keys() & old.keys() & like.keys():
        ours, theirs = new[name], old[name]
        if not isinstance(ours, np.ndarray) or not isinstance(theirs, np.ndarray):
            continue
        if theirs.dtype.kind == "f" and ours.shape == theirs.shape:
            with np.errstate(invalid="ignore"):
                found[name] = ours.astype(theirs.dtype) - theirs
    return found


def _shift(value: Data, old: object, new: object) -> Array:
    """Return a recorded value, moved as far as a region moves it."""
    assert isinstance(value, np.ndarray), "only tensors are recorded"
    if not isinstance(old, np.ndarray) or not isinstance(new, np.ndarray):
        return value
    if value.dtype.kind != "f" or new.shape != value.shape:
        return new
    with np.errstate(invalid="ignore"):
        moved: Array = np.asarray(value + (new.astype(value.dtype) - old), value.dtype)
    return moved


@dataclass(frozen=True)
class Score:
    """A group in a format.

    `refused` says why it cannot have it. `snr` is of what the group computes, in dB; NaN if it
    was not run. `effect` is by sample how far the outputs of the model move if this group
    alone has the format. `shared` is the part of a cost in bytes that neighbours may share.
    """

    group: str
    format: str
    refused: str = ""
    snr: float = np.inf
    cost: float = 0.0
    effect: Sequence[Mapping[str, Array]] = ()
    shared: float = 0.0


class Scorer:
    """Scores groups of one model.

    `known` is filled with what was recorded. Engines in `judges` must build a group in a
    format if they build it in float32.
    """

    def __init__(
        self,
        model: ir.Model,
        groups: Sequence[FormatGroup],
        formats: Mapping[str, Format],
        engine: Engine,
        objective: Objective,
        feeds: Sequence[Feeds],
        known: Observed | None = None,
        judges: BuildChecker | None = None,
    ) -> None:
        self.model, self.groups, self.formats = model, groups, formats
        self.engine, self.objective = engine, objective
        self._judges = judges or BuildChecker((), feeds[0])
        self._regions = ModelRegions(model)
        self._ends = {str(value.name) for value in model.graph.outputs}
        self._own = {group.name: self._regions.of(group) for group in groups}
        self._behind = {group.name: self._regions.behind(group) for group in groups}
        wanted = list_needed_values((*self._own.values(), *self._behind.values()))
        if any(item.needs_values for item in formats.values()):
            wanted |= read_by_layers(model)
        self.recorded = record(model, engine, feeds, wanted)
        self.known = known or Observed()
        self.known.ranges.update(self.recorded.ranges)
        self.known.values = self.recorded.rows
        self._judges.values = self.recorded.rows[0]
        self._times: dict[str, float] = {}
        self._prepared: dict[str, GroupModel | None] = {}

    @cached_property
    def _operations(self) -> dict[str, float]:
        feeds = self.recorded.feeds[0]
        rows = {n: v for n, v in feeds.items() if isinstance(v, np.ndarray)}
        return operations(self.model, rows)

    def score(self, group: FormatGroup) -> list[Score]:
        """Score a group in each of its formats."""
        return self._score(group, [FLOAT32, *(n for n in group.formats if n != FLOAT32)])

    def costs(self) -> list[Score]:
        """Return the scores of all groups without runs: the cost alone, or why it is refused.

        What was converted is kept for :meth:`score`.
        """
        found = []
        for group in self.groups:
            part = self._prepared[group.name] = self._prepare(group)
            if part is None:
                found.append(Score(group.name, FLOAT32))
                continue
            models = {FLOAT32: part.before, **part.models}
            found += [
                self._cost(Score(group.name, n, snr=np.nan), group, part.before, model)
                for n, model in models.items()
            ]
            found += [Score(group.name, n, why) for n, why in part.refused.items()]
        return found

    def _prepare(self, group: FormatGroup) -> GroupModel | None:
        """Convert a group to each of its formats; None if nobody reads what it computes."""
        region, names = self._own[group.name], [n for n in group.formats if n != FLOAT32]
        if not region.frontier:
            return None
        before = self._regions.build(region, self.recorded.rows)
        if self._regions.is_unseen(group, self.recorded.ranges):
            why = "its body does not run on the data"
            return GroupModel(before, {}, dict.fromkeys(names, why))
        snapshot = Snapshot(before)
        models: dict[str, ir.Model] = {}
        refused: dict[str, str] = {}
        for name in names:
            notes: list[str] = []
            try:
                after = convert(before, {name: group.nodes}, self.formats, self.known, notes)
                if snapshot.change(after) is Change.NONE:
                    refused[name] = changes_nothing(self.formats[name], notes)
                elif faults := self._audit(after, before, group, name):
                    refused[name] = f"not all of it can have the format: {faults[0].problem}"
                else:
                    models[name] = after
            except Exception as error:
                refused[name] = describe_failure(error)
        self._judges.leave_out(before, models, refused)
        return GroupModel(before, models, refused)

    def _score(self, group: FormatGroup, names: Sequence[str]) -> list[Score]:
        if group.name in self._prepared:
            part = self._prepared.pop(group.name)
        else:
            part = self._prepare(group)
        if part is None:
            return [Score(group.name, FLOAT32)]
        before, models, refused = part.before, part.models, part.refused
        try:
            base = self._run(before)
        except EngineError as error:
            why = f"the engine does not run it by itself: {error.message}"[:300]
            return [
                Score(group.name, FLOAT32),
                *(Score(group.name, name, refused.get(name, why)) for name in names[1:]),
            ]
        found = [self._cost(Score(group.name, FLOAT32), group, before, before)]
        behind = self._behind[group.name]
        with OutputEffects(self.engine, self._regions, behind, self.recorded) as rest:
            for name in names[1:]:
                score = Score(group.name, name, refused.get(name, ""))
                try:
                    if name in models:
                        score = self._judge(group, name, before, models[name], base, rest)
                except EngineError as error:  # what an engine cannot build is not for it
                    why = f"the engine refuses it: {error.message}"[:300]
                    score = Score(group.name, name, why)
                except Exception as error:
                    score = Score(group.name, name, describe_failure(error))
                found.append(score)
        return found

    def _audit(
        self, after: ir.Model, before: ir.Model, group: FormatGroup, name: str
    ) -> list[AuditFinding]:
        return audit(after, before, [group], {group.name: name}, self.formats)

    def _judge(
        self,
        group: FormatGroup,
        name: str,
        before: ir.Model,
        after: ir.Model,
        base: list[Outputs],
        rest: OutputEffects,
    ) -> Score:
        new = self._run(after)
        if rounding_engine(self.engine, after) is not self.engine:
            with self.engine.prepare(after):
                pass  # what is deployed has to build it as well
        noise = min(snr(_floats(n), _floats(o)) for n, o in zip(new, base, strict=True))
        score = self._cost(Score(group.name, name, snr=noise), group, before, after)
        return replace(score, effect=rest.move(base, new))

    def _run(self, model: ir.Model) -> list[Outputs]:
        return run_part(self.engine, model, self._ends, self.recorded.rows)

    def _cost(
        self, score: Score, group: FormatGroup, before: ir.Model, after: ir.Model
    ) -> Score:
        """Return a score with what a group costs in the format of the score."""
        if self.objective == "size":  # what is not converted counts where costs are added
            cost = float(written_bytes(after) - written_bytes(before))
            shared = shared_bytes(before, after) if after is not before else 0.0
            return replace(score, cost=cost, shared=shared)
        if self.objective == "bops":
            item = self.formats[score.format]
            cost = bit_operations(self.model, group, item, self._operations)
            return replace(score, cost=cost)
        names = [str(value.name) for value in before.graph.inputs]
        feeds = {n: self.recorded.rows[0][n] for n in names}
        models = [negate_outputs(model, self._ends)[0] for model in (before, after)]
        old, new = time_runs(self.engine, models, feeds)
        # The machine is never quite the same: the ratio is, more or less.
        known = self._times.setdefault(group.name, old)
        others = self._regions.others(group)
        share = self._regions.own_share(group, self._operations) if others else 1.0
        share += new / old - 1.0 if after is not before else 0.0
        return replace(score, cost=known * share)


def _floats(outputs: Outputs) -> list[Array]:
    return [
        value.astype(np.float32) if value.dtype.kind == "f" else value
        for value in outputs.values()
        if isinstance(value, np.ndarray)
    ]


_NEGATED = (ir.DataType.FLOAT, ir.DataType.DOUBLE, ir.DataType.INT32, ir.DataType.INT64)
"""Types of values that engines negate."""


@dataclass(frozen=True)
class GroupModel:
    """A group by itself: in float32, in other formats, and why it cannot have the rest."""

    before: ir.Model
    models: dict[str, ir.Model]
    refused: dict[str, str]


def negate_outputs(model: ir.Model, ends: Collection[str]) -> tuple[ir.Model, dict[str, str]]:
    """Return a part of a model with a reader behind each of its results.

    An engine fuses nodes in another way if their result is an output of the model. It may
    leave an activation alone, and compute the product before it in integers. A Neg is not
    optimised away, and rounds nothing.

    `ends` are outputs of the whole model as well, which nobody reads. Return the part, and by
    name of an output that is negated the name of the result.
    """
    copy = copy_model(model)
    namer, negated = Namer(copy), dict[str, str]()
    for place, value in enumerate(copy.graph.outputs):
        if value.name in ends or value.dtype not in _NEGATED or value.is_graph_input():
            continue
        node = ir.node(Neg.op_type, [value], name=namer.node(Neg.op_type))
        (made,) = node.outputs
        name = namer.value(value.name)
        made.name, made.type, made.shape = name, value.type, value.shape
        copy.graph.append(node)
        copy.graph.outputs[place] = made
        negated[name] = str(value.name)
    return copy, negated


def run_part(
    engine: Engine, model: ir.Model, ends: Collection[str], rows: Sequence[Mapping[str, Data]]
) -> list[Outputs]:
    """Run a part of a model.

    `ends` are outputs of the whole model as well. `rows` are by sample, and hold the inputs.
    EngineError if the engine does not run it.
    """
    names = [str(value.name) for value in model.graph.inputs]
    read, negated = negate_outputs(model, ends)
    with rounding_engine(engine, read).prepare(read) as session:
        found = [session.run({name: row[name] for name in names}) for row in rows]
    return [
        {
            negated.get(name, name): -np.asarray(value) if name in negated else value
            for name, value in outputs.items()
        }
        for outputs in found
    ]
