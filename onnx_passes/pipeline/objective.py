"""What rewrites cost (nodes, bytes, seconds on an engine), and undoing those that cost more.

Each rewrite that does not always pay (``onnx_passes.passes.compose``) is measured: the pass is
run again without the rewrites of its rule, and both models are compared where they differ.
What a pass that is named there changes without rules is measured and undone as a whole.
"""

from __future__ import annotations

import dataclasses
import statistics
import time
from collections.abc import Callable, Hashable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Literal

import onnx_ir as ir

from onnx_passes.configs.engine_configs import resolve_engines
from onnx_passes.configs.schema import PipelineConfig
from onnx_passes.errors import ConfigError, EngineError
from onnx_passes.model.walk import (
    all_tensors,
    attribute_tensors,
    constant_bytes,
    file_bytes,
    node_bytes,
    node_count,
    subgraphs_of,
)
from onnx_passes.passes.base import Pass
from onnx_passes.passes.compose import may_not_pay
from onnx_passes.passes.context import Application
from onnx_passes.pipeline.change_parts import AlignedModels
from onnx_passes.pipeline.pass_execution import Attempt, Attempts
from onnx_passes.pipeline.samples import make_baseline
from onnx_passes.report.run_report import PaysReport
from onnx_passes.runtime.engine_base import Engine, Feeds, time_runs
from onnx_passes.runtime.ort import OnnxRuntimeEngine
from onnx_passes.verify.node_equality import constant_tensor
from onnx_passes.verify.obligations import ObligationPart
from onnx_passes.verify.recording import inlined

if TYPE_CHECKING:
    from onnx_passes.pipeline.baseline import Baseline
    from onnx_passes.verify.reference_data import ReferenceData


Objective = Literal["nodes", "time", "size"]
UNITS: dict[Objective, str] = {"nodes": "nodes", "time": "s", "size": "bytes"}

_WARM_UP, _RUNS, _MOST_RUNS = 2, 7, 301
"""Runs that do not count, and the fewest and most that do."""
_FEW = 16
"""Elements of a constant up to which its values may decide what an operator does."""
_SPENT = 0.1
"""Seconds of runs of a model, from which on no more than the fewest are made."""


@dataclasses.dataclass(frozen=True)
class RewriteCost:
    """The cost of a model without and with rewrites, in the unit of the objective.

    ``noise`` is how far two measurements of the same are apart; None for an exact cost. With
    ``whole`` the whole model was measured, and not only what the rewrites change.
    """

    without: float
    with_them: float
    noise: float | None = None
    whole: bool = False

    @property
    def pays(self) -> bool:
        """Whether the model costs less with the rewrites, by more than the noise.

        If there is no noise, it may cost as much: a later pass may gain from the rewrites.
        """
        if self.noise is None:
            return self.with_them <= self.without
        return self.with_them < self.without - self.noise


@dataclasses.dataclass
class Meter:
    """Measures what rewrites cost.

    Models are timed on ``engine``; ``plain`` records the values at boundaries of regions.
    ``samples`` is called only if times are measured.
    """

    objective: Objective
    engine: Engine
    plain: Engine
    samples: Callable[[], Sequence[Feeds]]
    _times: dict[Hashable, RewriteCost] = dataclasses.field(default_factory=dict)

    def measure(
        self, without: ir.Model, with_them: ir.Model, applied: Sequence[Application]
    ) -> list[tuple[list[Application], RewriteCost]] | None:
        """Measure rewrites, those of one connected part of the model together.

        Where the parts cannot be separated, or not be run, the whole models are measured.
        ``applied`` is empty for a pass that records none. None if the models are called in
        different ways.
        """
        if _interface(without) != _interface(with_them):
            return None
        beside = AlignedModels(inlined(without), inlined(with_them))
        parts = beside.parts(applied)
        costs = None if parts is None else self._costs(beside, parts)
        if parts is None or costs is None:
            return [(list(applied), self._whole(without, with_them))]
        numbers = {application.number: application for application in applied}
        pairs = zip(parts, costs, strict=True)
        return [([numbers[n] for n in part.numbers], cost) for part, cost in pairs]

    def _costs(
        self, beside: AlignedModels, parts: Sequence[ObligationPart]
    ) -> list[RewriteCost] | None:
        if self.objective == "nodes":
            return [RewriteCost(_count(part.old), _count(part.new)) for part in parts]
        if self.objective == "size":
            kept = _tensors(beside.before) & _tensors(beside.after)
            return [RewriteCost(_bytes(p.old, kept), _bytes(p.new, kept)) for p in parts]
        models = beside.models(parts, self.samples()[:1], self.plain)
        if models is None:
            return None
        try:
            return [self._timed(*sides) for sides in models]
        except EngineError:
            return None

    def _timed(self, old: ir.Model, new: ir.Model | None, feeds: Feeds) -> RewriteCost:
        key = (_kind(old, feeds), None if new is None else _kind(new, feeds))
        if key not in self._times:
            self._times[key] = time_sides(self.engine, old, new, feeds)
        return self._times[key]

    def _whole(self, without: ir.Model, with_them: ir.Model) -> RewriteCost:
        if self.objective == "nodes":
            return RewriteCost(node_count(without), node_count(with_them), whole=True)
        if self.objective == "size":
            return RewriteCost(file_bytes(without), file_bytes(with_them), whole=True)
        found = time_sides(self.engine, without, with_them, self.samples()[0])
        return dataclasses.replace(found, whole=True)


def fast_form(engine: Engine) -> Engine:
    """Return the engine as users run it: ONNX Runtime with its optimisations."""
    if isinstance(engine, OnnxRuntimeEngine) and engine.optimization == "none":
        return dataclasses.replace(engine, optimization="all", prepacking=True)
    return engine


def time_sides(
    engine: Engine, without: ir.Model, with_them: ir.Model | None, feeds: Feeds
) -> RewriteCost:
    """Time two models of the same inputs, runs of both taking turns, the first one twice.

    Costs are medians in seconds; the noise is the difference of both medians of ``without``.
    Without ``with_them``, that model computes nothing.
    """
    models = [without, without, *([] if with_them is None else [with_them])]
    with ExitStack() as stack:
        sessions = [stack.enter_context(engine.prepare(model)) for model in models]
        for session in sessions:
            time_runs(session, feeds, _WARM_UP, 1)
        seconds: list[list[float]] = [[] for _ in sessions]
        start, count = time.perf_counter(), 0
        while count < _RUNS or (
            count < _MOST_RUNS and time.perf_counter() - start < _SPENT * len(sessions)
        ):
            turn = list(enumerate(sessions))
            # Who runs behind whom differs from turn to turn.
            for place, session in turn if count % 2 else reversed(turn):
                seconds[place] += time_runs(session, feeds, 0, 1)
            count += 1
    one, other, *rest = map(statistics.median, seconds)
    return RewriteCost(min(one, other), rest[0] if rest else 0.0, abs(one - other))


def _interface(model: ir.Model) -> Hashable:
    ports = (model.graph.inputs, model.graph.outputs)
    return tuple(tuple(value.name for value in values) for values in ports)


def _count(nodes: Iterable[ir.Node]) -> int:
    return sum(1 + sum(len(g) for g in _within(node)) for node in nodes)


def _within(node: ir.Node) -> Iterable[ir.Graph]:
    for graph in subgraphs_of(node):
        yield graph
        for inner in graph:
            yield from _within(inner)


def _tensors(model: ir.Model) -> set[int]:
    return {id(tensor) for tensor in all_tensors(model)}


def _bytes(nodes: Sequence[ir.Node], kept: set[int]) -> int:
    """Estimate the bytes of nodes and of the constants that only one of the models has."""
    constants = {
        str(value.name): tensor
        for node in nodes
        for value in node.inputs
        if value is not None and (tensor := constant_tensor(value)) is not None
    }
    own = {name: t for name, t in constants.items() if id(t) not in kept}
    held = {id(t): t.nbytes for t in own.values()}
    held |= {id(t): t.nbytes for node in nodes for t in attribute_tensors(node.attributes)}
    return sum(map(node_bytes, nodes)) + sum(map(constant_bytes, own)) + sum(held.values())


def _kind(model: ir.Model, feeds: Feeds) -> Hashable:
    """Return what two parts share that take the same time: operators, wiring and shapes."""
    places: dict[ir.Value | None, int] = {None: -1}
    shapes: list[Hashable] = []
    for value in model.graph.inputs:
        places[value] = len(places)
        data = feeds[str(value.name)]
        shapes.append((getattr(data, "shape", None), str(getattr(data, "dtype", None))))
    for value in model.graph.initializers.values():
        places[value] = len(places)
        tensor = value.const_value
        assert tensor is not None, "an initializer of a region has its tensor"
        small = tensor.numpy().tobytes() if tensor.size <= _FEW else b""
        shapes.append((tuple(tensor.shape.numpy()), str(tensor.dtype), small))
    nodes = []
    for node in model.graph:
        wiring = tuple(places.setdefault(value, len(places)) for value in node.inputs)
        for value in node.outputs:
            places.setdefault(value, len(places))
        nodes.append((node.op_identifier(), wiring, repr(sorted(node.attributes.items()))))
    ends = tuple(places[value] for value in model.graph.outputs)
    return tuple(shapes), tuple(nodes), ends


_MOST_ROUNDS = 4
"""Undone rewrites give way to others, which are measured in turn, so many times at most."""


@dataclass
class Chosen:
    """What is left of a pass, and why; no ``rest`` if nothing is left."""

    rest: Attempt | None
    skip: frozenset[str] = frozenset()
    reports: list[PaysReport] = field(default_factory=list)

    @property
    def undone(self) -> bool:
        return any(not report.kept for report in self.reports)

    @property
    def notes(self) -> list[str]:
        """Say what was undone, a sentence each."""
        return [
            f"undone, since it does not pay: {_told(r)}" for r in self.reports if not r.kept
        ]


@dataclass
class ProfitabilityFilter:
    """Decides which rewrites of passes stay."""

    meter: Meter
    _kept: set[str] = field(default_factory=set)

    @classmethod
    def of(
        cls,
        objective: Objective,
        config: PipelineConfig,
        original: ir.Model,
        reference: ReferenceData | None,
        checked: Callable[[], Baseline] | None,
    ) -> ProfitabilityFilter:
        """Measure on the last engine; ``checked`` returns what passes are held against."""
        engines = resolve_engines(config)
        if not engines:
            raise ConfigError(
                "an objective needs an engine, and the pipeline has none",
                where=config.where("objective"),
                help="name one under 'engines'",
            )
        unchecked = cache(lambda: make_baseline(original, config, reference))

        def samples() -> Sequence[Feeds]:
            """Return inputs that the original runs on, as it is called now."""
            baseline = unchecked() if checked is None else checked()
            baseline.ready("each")
            return baseline.samples

        fast = fast_form(engines[-1].engine)
        return cls(Meter(objective, fast, engines[0].engine, samples))

    def choose(self, pass_: Pass, attempts: Attempts, made: Attempt) -> Chosen:
        if not made.applied:
            return self._choose_whole(pass_, attempts, made)
        chosen = Chosen(made)
        for _ in range(_MOST_ROUNDS):
            rules = [a.rule for a in self._open(pass_, chosen)]
            if not rules:
                break
            # What builds on the rewrites of an earlier rule is measured before them.
            for rule in dict.fromkeys(reversed(rules)):
                self._choose_of(rule, pass_, attempts, chosen)
        return chosen

    def _open(self, pass_: Pass, chosen: Chosen) -> list[Application]:
        """Return the rewrites that are still to be measured."""
        assert chosen.rest is not None
        return [
            a
            for a in chosen.rest.applied
            if a.key not in self._kept and may_not_pay(pass_, a.rule)
        ]

    def _choose_of(self, rule: str, pass_: Pass, attempts: Attempts, chosen: Chosen) -> None:
        """Measure the rewrites of one rule, and undo those that do not pay."""
        rest = chosen.rest
        assert rest is not None
        mine = [a for a in self._open(pass_, chosen) if a.rule == rule]
        if not mine:
            return
        keys = frozenset(a.key for a in mine)
        without = attempts.apply(skip=chosen.skip | keys)
        costs = self.meter.measure(without.model, rest.model, mine)
        if costs is None:  # they change how the model is called, which is asked for
            self._kept |= keys
            return
        lost: set[str] = set()
        for applied, cost in costs:
            part = {a.key for a in applied}
            chosen.reports.append(self._report(rule, sorted(part), cost))
            if cost.pays:
                self._kept |= part
            else:
                lost |= part
        if lost:
            chosen.skip |= lost
            all_lost = lost == keys
            chosen.rest = without if all_lost else attempts.apply(skip=chosen.skip)

    def _choose_whole(self, pass_: Pass, attempts: Attempts, made: Attempt) -> Chosen:
        """Measure a pass that records no rewrites, and undo all of it if that does not pay."""
        if not may_not_pay(pass_, pass_.name):
            return Chosen(made)
        costs = self.meter.measure(attempts.before.model, made.model, ())
        if costs is None:
            return Chosen(made)
        total = _sum([cost for _, cost in costs])
        report = self._report(pass_.name, [], total)
        return Chosen(made if total.pays else None, reports=[report])

    def _report(self, rules: str, keys: Sequence[str], cost: RewriteCost) -> PaysReport:
        meter = self.meter
        return PaysReport(
            rules,
            list(keys),
            meter.objective,
            UNITS[meter.objective],
            cost.without,
            cost.with_them,
            "model" if cost.whole else "region",
            cost.pays,
            meter.engine.name if meter.objective == "time" else None,
            cost.noise,
        )


def _sum(costs: Sequence[RewriteCost]) -> RewriteCost:
    noises = [cost.noise for cost in costs if cost.noise is not None]
    return RewriteCost(
        sum(cost.without for cost in costs),
        sum(cost.with_them for cost in costs),
        sum(noises) if noises else None,
        any(cost.whole for cost in costs),
    )


def _told(report: PaysReport) -> str:
    """Return a measurement as text: rewrites, and their cost before and after."""
    what = ", ".join(report.keys) or report.rules
    if report.unit == "s":
        numbers = f"{report.without * 1e6:.1f} -> {report.with_it * 1e6:.1f} us"
        noise = f", noise {(report.noise or 0.0) * 1e6:.1f} us"
        return f"{what} ({numbers}{noise}, {report.scope}, on {report.engine})"
    return f"{what} ({report.without:g} -> {report.with_it:g} {report.unit}, {report.scope})"
