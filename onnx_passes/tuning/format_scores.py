"""Scores of each group in each format: by runs of its region on recorded values."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial

import numpy as np
import onnx_ir as ir

from onnx_passes.arrays import Array
from onnx_passes.contracts.scores import snr
from onnx_passes.errors import EngineError
from onnx_passes.model.copy import copy_model
from onnx_passes.model.save import written_bytes
from onnx_passes.ops.elementwise import Neg
from onnx_passes.passes.precision.smooth_activations import REACH
from onnx_passes.passes.replace import Namer
from onnx_passes.runtime.engine_base import Data, Engine, Feeds, Outputs
from onnx_passes.tuning.audit import AuditFinding, audit
from onnx_passes.tuning.building_engines import Judges
from onnx_passes.tuning.failures import why_of
from onnx_passes.tuning.groups import FormatGroup, read_by_layers
from onnx_passes.tuning.original_run import record
from onnx_passes.tuning.output_effects import OutputEffects
from onnx_passes.tuning.part_costs import (
    Objective,
    bit_operations,
    operations,
    shared_bytes,
    time_runs,
)
from onnx_passes.tuning.part_formats import FLOAT32, Format, Observed, convert
from onnx_passes.tuning.product_bounds import product_bound
from onnx_passes.tuning.regions import ModelRegions, list_needed_values, nodes_within
from onnx_passes.verify.snapshot import Change, Snapshot


@dataclass(frozen=True)
class Score:
    """A group in a format.

    Attributes:
        group: Name of the group.
        format: Name of the format.
        refused: Why the group cannot have it; empty if it can.
        snr: Signal-to-noise ratio of what the group computes, in dB; NaN if it was not run.
        cost: In the unit of the objective.
        effect: By sample, how far each output of the model moves if this group alone has the
            format; outputs that do not move are left out.
        bounds: By node, the largest error that an element of its product can have, for any
            input within the recorded ranges; only for products in integers.
        shared: Of a cost in bytes, the most that neighbours of the format may share.
    """

    group: str
    format: str
    refused: str = ""
    snr: float = np.inf
    cost: float = 0.0
    effect: Sequence[Mapping[str, Array]] = ()
    bounds: Mapping[str, float] = field(default_factory=dict)
    shared: float = 0.0


@dataclass
class Work:
    """What was run.

    Attributes:
        whole: Runs of the whole model over the samples of the scores.
        partial: Such runs of parts, each times its share of the operations.
        regions: Number of regions that were run.
    """

    whole: float = 0.0
    partial: float = 0.0
    regions: int = 0


class Scorer:
    """Scores groups of one model.

    Args:
        model: As :func:`onnx_passes.tuning.groups.prepare` returns it.
        groups: Its groups.
        formats: Formats by name.
        engine: Runs the model and its parts.
        objective: What counts.
        feeds: The samples of the recorded run.
        known: Filled with what was recorded, for passes.
        judges: Engines that have to build a group in a format, if they build it in float32.
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
        judges: Judges | None = None,
    ) -> None:
        self.model, self.groups, self.formats = model, groups, formats
        self.engine, self.objective, self.work = engine, objective, Work()
        self._judges = judges or Judges((), feeds[0])
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
        self.recorded.measured = self.known.state.setdefault(REACH, {})
        self._judges.values = self.recorded.rows[0]
        self.work.whole += 1
        self._times: dict[str, float] = {}
        self._prepared: dict[str, GroupModel | None] = {}

    @cached_property
    def _operations(self) -> dict[str, float]:
        feeds = self.recorded.feeds[0]
        rows = {n: v for n, v in feeds.items() if isinstance(v, np.ndarray)}
        return operations(self.model, rows)

    def score(self, known: Callable[[str, str], Score | None]) -> list[Score]:
        """Score each group in each of its formats.

        Args:
            known: Returns a score that an earlier run has found, or None.
        """
        found = []
        for group in self.groups:
            names = [FLOAT32, *(n for n in group.formats if n != FLOAT32)]
            older = {name: known(group.name, name) for name in names}
            if all(score is not None for score in older.values()):
                found += [score for score in older.values() if score is not None]
            else:
                found += self._score(group, names)
        return found

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
            try:
                after = convert(before, {name: group.nodes}, self.formats, self.known)
                if snapshot.change(after) is Change.NONE:
                    refused[name] = f"{self.formats[name].pass_name} changes nothing in it"
                elif faults := self._audit(after, before, group, name):
                    refused[name] = f"not all of it can have the format: {faults[0].problem}"
                else:
                    models[name] = after
            except Exception as error:
                refused[name] = why_of(error)
        self._judges.leave_out(before, models, refused)
        return GroupModel(before, models, refused)

    def _score(self, group: FormatGroup, names: Sequence[str]) -> list[Score]:
        region = self._own[group.name]
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
        self.work.partial += self._regions.share(region, self._operations)
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
                    score = Score(group.name, name, why_of(error))
                found.append(score)
        share = self._regions.share(behind, self._operations)
        self.work.partial += rest.runs * share
        # Behind the session, whose copy of the weights takes memory.
        return [
            self._bound(group, score, models[score.format])
            if score.format in models and not score.refused
            else score
            for score in found
        ]

    def _audit(
        self, after: ir.Model, before: ir.Model, group: FormatGroup, name: str
    ) -> list[AuditFinding]:
        chosen, ranges = {group.name: name}, self.recorded.ranges
        return audit(after, before, [group], chosen, self.formats, ranges)

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
        share = self._regions.share(self._own[group.name], self._operations)
        self.work.partial += share
        noise = min(snr(_floats(n), _floats(o)) for n, o in zip(new, base, strict=True))
        score = self._cost(Score(group.name, name, snr=noise), group, before, after)
        return replace(score, effect=rest.move(base, new))

    def _bound(self, group: FormatGroup, score: Score, after: ir.Model) -> Score:
        """Return a score with sound bounds."""
        try:
            return replace(score, bounds=self._bounds(group, after))
        except Exception as error:
            return Score(group.name, score.format, why_of(error))

    def _bounds(self, group: FormatGroup, after: ir.Model) -> dict[str, float]:
        nodes = [n for one in self._own[group.name].nodes for n in (one, *nodes_within(one))]
        found = {
            str(node.name): product_bound(
                after, node, self.recorded.ranges, partial(self.recorded.channels, node)
            )
            for node in nodes
            if node.name in group.nodes
        }
        return {name: bound for name, bound in found.items() if bound is not None}

    def _run(self, model: ir.Model) -> list[Outputs]:
        self.work.regions += 1
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
        models = [negate_ends(model, self._ends)[0] for model in (before, after)]
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
    """A group by itself.

    Attributes:
        before: In float32.
        models: In other formats, by name.
        refused: Why it cannot have the others.
    """

    before: ir.Model
    models: dict[str, ir.Model]
    refused: dict[str, str]


def negate_ends(model: ir.Model, ends: Collection[str]) -> tuple[ir.Model, dict[str, str]]:
    """Return a part of a model with a reader behind each of its results.

    An engine fuses nodes in another way if their result is an output of the model. It may
    leave an activation alone, and compute the product before it in integers. A Neg is not
    optimised away, and rounds nothing.

    Args:
        model: The part, in any format; not changed.
        ends: Outputs that are outputs of the whole model as well; nobody reads these.

    Returns:
        The part, and by name of an output that is negated, the name of the result.
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
    engine: Engine,
    model: ir.Model,
    ends: Collection[str],
    rows: Sequence[Mapping[str, Data]],
) -> list[Outputs]:
    """Run a part of a model.

    Args:
        engine: Runs it.
        model: The part, in any format.
        ends: Outputs that are outputs of the whole model as well.
        rows: By sample, values by name, of any shapes and types; its inputs are among them.

    Raises:
        EngineError: The engine does not run it.
    """
    names = [str(value.name) for value in model.graph.inputs]
    read, negated = negate_ends(model, ends)
    with engine.prepare(read) as session:
        found = [session.run({name: row[name] for name in names}) for row in rows]
    return [
        {
            negated.get(name, name): -np.asarray(value) if name in negated else value
            for name, value in outputs.items()
        }
        for outputs in found
    ]
