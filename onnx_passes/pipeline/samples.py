"""The samples of a run, given or generated, beside the engines that run on them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import onnx_ir as ir

from onnx_passes.configs.engine_configs import EngineStep, resolve_engines
from onnx_passes.configs.schema import PipelineConfig
from onnx_passes.configs.sections import Reference
from onnx_passes.configs.sections import Reference as Settings
from onnx_passes.errors import ReferenceDataError
from onnx_passes.pipeline.baseline import Baseline, EngineBaseline
from onnx_passes.runtime.engine_base import Feeds, only_compiles
from onnx_passes.runtime.inputs import (
    AdversarialFeeds,
    GeneratedSample,
    InputSearch,
    adversarial,
    edge_samples,
    make_samples,
    without_crashes,
)
from onnx_passes.runtime.inputs.seeded_feeds import (
    check_feed,
    generated_steps,
    given_steps,
    run_steps,
)
from onnx_passes.runtime.ort import OnnxRuntimeEngine
from onnx_passes.verify.reference_data import ReferenceData, load_reference


def prepare_baseline(
    model: ir.Model,
    samples: Sequence[Feeds],
    engines: Sequence[EngineStep],
    *,
    given: bool,
    special: Sequence[Feeds] = (),
    substitutes: InputSearch | None = None,
) -> Baseline:
    """Put the engines beside the original; ask what shows without running it.

    If the user ``given`` the samples, one that does not run is an error; ``special`` ones may
    fail. ``substitutes`` are used if no generated sample runs. Raises EngineUnavailableError
    if an engine is not on this machine.
    """
    engines = [step for step in engines if not only_compiles(step.engine)]
    for step in engines:
        step.engine.describe()
    benches = [EngineBaseline(step.engine, step.when) for step in engines]
    baseline = Baseline(model, benches, [*samples, *special], given)
    baseline.substitutes = None if given else substitutes
    return baseline


def roll_out(
    model: ir.Model,
    settings: Settings,
    reference: ReferenceData,
    engines: Sequence[EngineStep],
    *,
    given: bool,
) -> ReferenceData:
    """Return reference inputs with a sample for each step: sample 9 is step 9.

    The states are those that the original makes on the first engine that executes. Given
    inputs take turns at the later steps. Raises EngineError if the original does not run on a
    step.
    """
    steps, feed = settings.steps or 1, settings.feed
    if reference.expected is not None:
        raise ReferenceDataError(
            "reference.outputs are of one run, and reference.steps are several",
            help="leave one of the two out",
        )
    check_feed(model, feed)
    samples = reference.samples
    inputs = (
        given_steps(samples)
        if given
        else generated_steps(model, samples[0], seed=settings.seed, ranges=settings.ranges)
    )
    executing = (step.engine for step in engines if not only_compiles(step.engine))
    with next(executing, OnnxRuntimeEngine()).prepare(model) as session:
        fed, _ = run_steps(session, steps, feed, inputs)
    states = ", ".join(f"{name} from {source}" for name, source in feed.items())
    return ReferenceData(fed, None, f"{reference.source}, {steps} steps: {states}")


def make_baseline(
    model: ir.Model, config: PipelineConfig, reference: ReferenceData | None
) -> Baseline:
    """Return the samples of a run that checks nothing."""
    if reference is None:
        spec = config.reference.model_dump()
        reference = load_reference(spec, model, config.folder or Path())
    given = bool(reference.samples)
    made = [] if given else without_crashes(make_generated(model, config.reference))
    return prepare_baseline(
        model,
        reference.samples or made,
        resolve_engines(config),
        given=given,
        special=[],
        substitutes=make_substitutes(model, config),
    )


def make_generated(model: ir.Model, settings: Reference) -> list[GeneratedSample]:
    """Return the usual samples that are generated."""
    return make_samples(
        model,
        seed=settings.seed,
        samples=settings.samples,
        ranges=settings.ranges,
        dims=settings.dims,
    )


def make_substitutes(model: ir.Model, config: PipelineConfig) -> InputSearch:
    """Return the search for other inputs, if no generated sample runs."""
    settings = config.reference
    return InputSearch(
        model,
        settings.seed,
        settings.samples,
        settings.ranges,
        settings.dims,
        adversarial=config.verify.inputs == "adversarial",
    )


def make_special(
    model: ir.Model,
    config: PipelineConfig,
    given: Sequence[Feeds],
    made: Sequence[GeneratedSample],
) -> list[AdversarialFeeds]:
    """Return samples of special sizes and values, as far as the pipeline asks for them."""
    settings = config.reference
    found: list[AdversarialFeeds] = []
    if config.verify.inputs == "adversarial":
        found += adversarial(
            model, given, seed=settings.seed, ranges=settings.ranges, dims=settings.dims
        )
    if not given and settings.samples is None:
        asked = {feeds.kind for feeds in found}
        found += (
            feeds
            for feeds in edge_samples(
                model,
                seed=settings.seed,
                ranges=settings.ranges,
                dims=settings.dims,
                base=made[0] if made else None,
            )
            if feeds.kind not in asked
        )
    return [feeds for feeds in found if feeds.may_run]


def name_special(special: Sequence[AdversarialFeeds]) -> str:
    """Return what a report says of special samples, behind the source of the others."""
    if any(feeds.asked for feeds in special):
        return " and adversarial"
    return (
        f" and {', '.join(dict.fromkeys(feeds.kind for feeds in special))}" if special else ""
    )
