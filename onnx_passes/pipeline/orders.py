"""Search for the order of passes whose result costs least under the objective of a run.

Where rewrites compete, the first one wins. Which one should is not known in general, so other
orders are tried on copies of the model, and nothing is checked there. What is found is a
pipeline like any other: it runs on the model itself, and is checked as ever.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import onnx_ir as ir

from onnx_passes.configs.engine_configs import resolve_engines
from onnx_passes.configs.resolved import (
    GroupStep,
    PassStep,
    ResolvedPipeline,
    ResolvedStep,
    format_pipeline,
)
from onnx_passes.configs.schema import PipelineConfig
from onnx_passes.errors import ConfigError, OnnxPassesError
from onnx_passes.model.copy import copy_model
from onnx_passes.passes.base import Pass
from onnx_passes.pipeline.checking import make_baseline
from onnx_passes.pipeline.manager import PassManager
from onnx_passes.pipeline.objective import UNITS, Meter, fast_form
from onnx_passes.pipeline.run_state import Stopped
from onnx_passes.pipeline.unpaid import Paying
from onnx_passes.report.run_report import RunReport
from onnx_passes.verify.snapshot import Snapshot

if TYPE_CHECKING:
    from onnx_passes.runtime.engine_base import Feeds
    from onnx_passes.verify.reference_data import ReferenceData

Steps = tuple[ResolvedStep, ...]


@runtime_checkable
class Composite(Protocol):
    """A pass that applies others, in an order that its options set.

    Attributes:
        first: Names of the passes that it applies before the others.
        exclude: Names of those that it leaves out.
    """

    first: tuple[str, ...]
    exclude: tuple[str, ...]

    def members(self) -> list[type[Pass]]:
        """Return the passes that it applies, in order."""


def follow_objective(
    manager: PassManager, pipeline: ResolvedPipeline, reference: ReferenceData | None
) -> ResolvedPipeline:
    """Set up what undoes rewrites that do not pay, and search for the best order if asked.

    Args:
        manager: Runs the passes.
        pipeline: The passes.
        reference: Reference data, in place of what the pipeline names or generates.

    Returns:
        The passes in the order to run.

    Raises:
        ConfigError: There is no objective, or no engine to measure on.
    """
    config, gate, original = manager.config, manager.gate, manager.snapshot
    if config.objective is None:
        raise ConfigError(
            "a search needs to know what has to be small",
            where=config.where("search"),
            help="add the objective: nodes, time or size",
        )
    engines = resolve_engines(config)
    if not engines:
        raise ConfigError(
            "an objective needs an engine, and the pipeline has none",
            where=config.where("objective"),
            help="name one under 'engines'",
        )
    unchecked = cache(lambda: make_baseline(original.model, config, reference))

    def samples() -> Sequence[Feeds]:
        """Return inputs that the original runs on, as it is called now."""
        baseline = unchecked() if gate is None else gate.state.baseline
        baseline.ready("each")
        return baseline.samples

    fast = fast_form(engines[-1].engine)
    meter = Meter(config.objective, fast, engines[0].engine, samples)
    manager.paying = Paying(meter)
    if not config.search:
        return pipeline
    plan, note = search_orders(manager.model, config, pipeline, meter)
    manager.paying = manager.paying if plan.measured else None
    report = manager.report
    report.pipeline = format_pipeline(plan.pipeline)
    report.planned = len(plan.pipeline.passes)
    report.notes.append(note)
    return plan.pipeline


@dataclass(frozen=True)
class OrderPlan:
    """How a model may be optimised.

    Attributes:
        pipeline: The passes, in order.
        measured: Whether rewrites that do not pay by themselves are undone.
    """

    pipeline: ResolvedPipeline
    measured: bool = True

    @property
    def text(self) -> str:
        """The plan as text, by which plans are compared."""
        return f"{format_pipeline(self.pipeline)} {self.measured}"


def search_orders(
    model: ir.Model, config: PipelineConfig, pipeline: ResolvedPipeline, meter: Meter
) -> tuple[OrderPlan, str]:
    """Find the order of passes whose result costs least.

    A change that gains is kept, and the next one starts from it. Passes change places inside
    of groups that repeat, and so do those that one pass applies. Passes that may not pay are
    left out, and rewrites that cost more by themselves are kept for what others gain.

    Args:
        model: The model; it is copied.
        config: The pipeline file: how many plans are tried.
        pipeline: What it names.
        meter: Measures results.

    Returns:
        The best plan, at worst the pipeline as it is, and what was found, as a sentence.
    """
    best, rng = OrderPlan(pipeline), random.Random(0)
    result = _result(model, config, best, meter)
    seen, tried, gained = {best.text}, 0, 0
    while result is not None and tried < config.search:  # None: the run itself says why
        first = [replace(best, measured=False)] if not tried else []
        new = [plan for plan in first or _changed(best, rng) if plan.text not in seen]
        if not new:
            break
        candidate = rng.choice(new)
        seen.add(candidate.text)
        tried += 1
        other = _result(model, config, candidate, meter)
        if other is not None and meter.gains(result, other):
            best, result, gained = candidate, other, gained + 1
    unit = UNITS[meter.objective]
    costs = "takes less time" if meter.objective == "time" else f"has fewer {unit}"
    kept = "" if best.measured else "; no rewrite is undone"
    return best, (
        f"search: of {tried} other orders of passes, tried unchecked, {gained} gave a model "
        f"that {costs} than the best before{kept}"
    )


def _result(
    model: ir.Model, config: PipelineConfig, plan: OrderPlan, meter: Meter
) -> ir.Model | None:
    """Return what a plan makes of a copy of a model, unchecked; None if it fails."""
    copy = copy_model(model)
    report = RunReport("search", None, plan.text, verify=False)
    paying = Paying(meter) if plan.measured else None
    manager = PassManager(copy, Snapshot(copy), config, report, paying=paying)
    try:
        manager.run(plan.pipeline.steps)
    except (Stopped, OnnxPassesError):
        return None
    return manager.model


def _changed(plan: OrderPlan, rng: random.Random) -> Iterator[OrderPlan]:
    yield replace(plan, measured=not plan.measured)
    for steps in _changes(plan.pipeline.steps, rng):
        yield replace(plan, pipeline=ResolvedPipeline(steps))


def _changes(steps: Steps, rng: random.Random) -> Iterator[Steps]:
    """Yield variants of steps, one of each kind at each place."""
    for place, step in enumerate(steps):
        ahead, behind = steps[:place], steps[place + 1 :]
        match step:
            case GroupStep():
                if step.repeat == "fixpoint" and len(step.steps) > 1:
                    yield (*ahead, replace(step, steps=_moved(step.steps, rng)), *behind)
                for inner in _changes(step.steps, rng):
                    yield (*ahead, replace(step, steps=inner), *behind)
            case PassStep() if not step.cls.always_pays:
                yield (*ahead, *behind)
            case PassStep():
                for options in _orders_within(step, rng):
                    yield (*ahead, replace(step, options=options), *behind)


def _moved(steps: Steps, rng: random.Random) -> Steps:
    rest = list(steps)
    step = rest.pop(rng.randrange(len(rest)))
    rest.insert(rng.randrange(len(rest) + 1), step)
    return tuple(rest)


def _orders_within(step: PassStep, rng: random.Random) -> Iterator[dict[str, object]]:
    """Yield options under which a pass applies others in another order, or fewer."""
    pass_ = step.make({}, {})
    if not isinstance(pass_, Composite):
        return
    members = pass_.members()
    ahead = rng.choice(members).name
    first = (ahead, *(name for name in pass_.first if name != ahead))
    yield {**step.options, "first": first}
    doubtful = [cls.name for cls in members if not cls.always_pays]
    if doubtful:
        yield {**step.options, "exclude": (*pass_.exclude, rng.choice(doubtful))}
