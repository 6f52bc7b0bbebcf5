"""Set up what checks the passes of a run: samples, engines, baseline and gate.

Models with states get their reference inputs from a roll-out over several steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx_ir as ir

from onnx_passes.configs.engine_configs import EngineStep, resolve_engines
from onnx_passes.configs.resolve import GroupStep, PassStep, ResolvedPipeline, ResolvedStep
from onnx_passes.configs.schema import PipelineConfig
from onnx_passes.configs.sections import OutputTolerance, Reference
from onnx_passes.configs.sections import Reference as Settings
from onnx_passes.errors import EngineError, ReferenceDataError
from onnx_passes.pipeline.arbitration import check_original, check_thresholds
from onnx_passes.pipeline.baseline import Baseline, EngineBaseline
from onnx_passes.pipeline.compiling_engines import begin
from onnx_passes.pipeline.gate import Gate
from onnx_passes.report.run_report import EngineReport, ReferenceReport, RunReport
from onnx_passes.report.text import bound
from onnx_passes.runtime.engine_base import Engine, Feeds, Outputs, only_compiles
from onnx_passes.runtime.engine_models import keep_split
from onnx_passes.runtime.inputs import (
    AdversarialFeeds,
    GeneratedSample,
    InputSearch,
    adversarial,
    describe_feeds,
    edge_samples,
    make_samples,
    name_of,
    without_crashes,
)
from onnx_passes.runtime.inputs.dimensions import symbols_of
from onnx_passes.runtime.inputs.seeded_feeds import (
    Feed,
    check_feed,
    generated_steps,
    given_steps,
    run_steps,
)
from onnx_passes.runtime.ort import OnnxRuntimeEngine
from onnx_passes.verify.evidence import Check, Verdict
from onnx_passes.verify.reference_data import ReferenceData, load_reference
from onnx_passes.verify.snapshot import Snapshot, interface_of
from onnx_passes.verify.validity import Opening, check_validity, operators_without_engine
from onnx_passes.verify.well_formed import check_structure, named_sizes


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


def run_baseline(
    model: ir.Model,
    samples: Sequence[Feeds],
    engines: Sequence[EngineStep],
    *,
    given: bool,
    special: Sequence[Feeds] = (),
    substitutes: InputSearch | None = None,
) -> Baseline:
    """Put the engines beside the original, and run it once on each: :func:`prepare_baseline`.

    Raises EngineError if neither an engine nor the reference evaluator can run the original.
    """
    baseline = prepare_baseline(
        model, samples, engines, given=given, special=special, substitutes=substitutes
    )
    baseline.ready(*{step.when for step in engines})
    return baseline


STEPS = "steps"
"""Scope of a check in which each step reads what the step before it made."""


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


def drift_along_steps(gate: Gate, model: ir.Model, settings: Settings) -> list[Check]:
    """Run the original and the result each on its own states, and compare each step.

    Reference inputs hold the original's states at each step, so that a fault is seen where it
    is made. What errors add up to where they are fed back only a run of its own shows. Returns
    a check for each engine that executed the original; none without steps.
    """
    if settings.steps is None or not gate.state.moved:
        return []
    baseline, comparing = gate.baseline, gate.state.comparing
    samples = list(baseline.samples[: settings.steps])
    found: list[Check] = []
    for bench in baseline.benches:
        if not bench.ran:
            continue
        name = bench.engine.name
        if interface_of(model) != interface_of(baseline.model):
            reason = "the interface changed: states are not fed back"
            found.append(Check("drift", Verdict.NOT_VERIFIED, name, STEPS, reason))
            continue
        try:
            expected = _free(baseline.model, bench.engine, samples, settings.feed)
            actual = _free(model, bench.engine, samples, settings.feed)
        except EngineError as error:
            found.append(Check("drift", Verdict.FAILED, name, STEPS, error.message))
            continue
        limits = comparing.thresholds.drift()
        check = comparing.compare("drift", bench, expected, actual, *limits)
        if check.verdict is Verdict.PASSED:
            check = replace(check, reason=_told(expected, actual))
        found.append(replace(check, scope=STEPS))
    return found


def _free(
    model: ir.Model, engine: Engine, samples: Sequence[Feeds], feed: Feed
) -> list[Outputs]:
    """Return the outputs of each step, where a model reads the states that it made."""
    with engine.prepare(model) as session:
        return run_steps(session, len(samples), feed, given_steps(samples))[1]


def _told(expected: Sequence[Outputs], actual: Sequence[Outputs]) -> str:
    """Say how far apart the steps are: the first, the farthest and the last."""
    apart = [_apart(old, new) for old, new in zip(expected, actual, strict=True)]
    shown = sorted({0, int(np.argmax(apart)), len(apart) - 1})
    steps = ", ".join(f"{bound(apart[step])} at step {step}" for step in shown)
    return f"on its own states: apart by {steps}"


def _apart(old: Outputs, new: Outputs) -> float:
    found = 0.0
    for name, value in old.items():
        if isinstance(value, np.ndarray) and value.dtype.kind in "fV":
            one, other = (np.asarray(v).astype(np.float64) for v in (value, new[name]))
            gaps = np.abs(one - other)[np.isfinite(one) & np.isfinite(other)]
            found = max(found, float(gaps.max(initial=0.0)))
    return found


def make_gate(
    original: Snapshot,
    config: PipelineConfig,
    pipeline: ResolvedPipeline,
    report: RunReport,
    reference: ReferenceData | None,
) -> Gate:
    """Return what checks the passes of a run, with the engines and samples of the pipeline.

    ``report`` gets notes, engines, and the source of the samples.
    """
    model = whole = original.model
    keep_split(model)
    if reference is None:
        spec = config.reference.model_dump()
        reference = load_reference(spec, model, config.folder or Path())
    engines = resolve_engines(config)
    executing = [step.engine for step in engines if not only_compiles(step.engine)]
    opening = Opening.of(model, operators_without_engine(model, executing))
    if opening.operators:
        original = Snapshot(opening.open(model))
        reference = _with_results(original.model, config, reference)
        report.notes.append(
            f"no engine runs {opening.names}: all else is verified, on drawn values in place "
            "of its results; a library under onnxruntime.custom_ops, or a function of the "
            "model with its body, verifies it, too"
        )
    model = original.model
    invalid = check_validity(
        model,
        executing,
        allow_invalid=config.verify.allow_invalid,
        where=report.model,
    )
    report.notes += invalid
    given = bool(reference.samples)
    made = [] if given else _generated(model, config.reference)
    special = _special(model, config, reference.samples, made)
    if made:
        source = f"generated (seed {config.reference.seed})"
        samples = without_crashes(made)
        reference = ReferenceData(samples, reference.expected, source)
    if config.reference.steps is not None:
        reference = roll_out(model, config.reference, reference, engines, given=given)
    baseline = prepare_baseline(
        model,
        reference.samples,
        engines,
        given=given,
        special=special,
        substitutes=_substitutes(model, config),
    )
    faults = check_structure(whole) if invalid or opening.operators else []
    report.notes += [f"the original is not valid ONNX: {f}" for f in faults if not invalid]
    others = [name for name, _ in config.onnxruntime.providers[1:]]
    if others:
        first = config.onnxruntime.providers[0][0]
        report.notes.append(f"of onnxruntime.providers only {first} is used, not {others}")
    report.reference = ReferenceReport(
        source=f"{reference.source}{_named(special)}",
        samples=len(baseline.samples),
        inputs=describe_feeds(baseline.samples[0]) if baseline.samples else {},
        names=[name_of(feeds) or "" for feeds in baseline.samples] if special else [],
    )
    labels = reference.expected
    levels = begin(whole, baseline.samples, engines)
    gate = Gate.begin(config.verify, baseline, original, labels, faults, levels, opening)
    if opening.operators:
        baseline.unheard.append(f"no engine runs {opening.names}")
    check_original(gate.state, gate.settings)
    check_thresholds(gate.state, _own_tolerances(pipeline.steps))
    report_baseline(report, gate)
    return gate


def _with_results(
    model: ir.Model, config: PipelineConfig, reference: ReferenceData
) -> ReferenceData:
    """Return reference data with drawn values of the inputs that opening a model adds."""
    settings, samples = config.reference, list[Feeds]()
    named = symbols_of(model.graph.inputs, model).kinds  # formulas follow from them
    for given in reference.samples:
        sizes = named_sizes(model.graph.inputs, given).items()
        dims = {**settings.dims, **{n: size for n, size in sizes if n in named}}
        (made,) = _generated(model, settings.model_copy(update={"samples": 1, "dims": dims}))
        samples.append({**made.feeds, **given})
    return replace(reference, samples=samples, expected=None)


def make_baseline(
    model: ir.Model, config: PipelineConfig, reference: ReferenceData | None
) -> Baseline:
    """Return the samples of a run that checks nothing."""
    if reference is None:
        spec = config.reference.model_dump()
        reference = load_reference(spec, model, config.folder or Path())
    given = bool(reference.samples)
    made = [] if given else without_crashes(_generated(model, config.reference))
    return prepare_baseline(
        model,
        reference.samples or made,
        resolve_engines(config),
        given=given,
        special=[],
        substitutes=_substitutes(model, config),
    )


def _own_tolerances(
    steps: Sequence[ResolvedStep],
) -> list[tuple[str, str | None, OutputTolerance]]:
    """Return the passes with a tolerance of their own: name, place, tolerance."""
    found: list[tuple[str, str | None, OutputTolerance]] = []
    for step in steps:
        if isinstance(step, GroupStep):
            found += _own_tolerances(step.steps)
        elif isinstance(step, PassStep) and step.tolerance is not None:
            found.append((step.text, step.where, step.tolerance))
    return found


def report_baseline(report: RunReport, gate: Gate, result: ir.Model | None = None) -> None:
    """Report what is known of engines and samples, which is more once the original ran."""
    baseline = gate.baseline
    report.engines = [
        EngineReport(
            b.engine.name,
            b.when,
            b.engine.describe(),
            b.fallback_for,
            spreads=gate.noise.spreads(b),
        )
        for b in baseline.benches
        if b.when != "never"
    ]
    report.engines += gate.levels.reports(result)
    told = [*baseline.notes, *filter(None, [b.note for b in baseline.benches])]
    told += filter(None, [gate.allowance.note])
    report.notes += [note for note in told if note not in report.notes]
    if report.reference is not None:
        report.reference.samples = len(baseline.samples)
        chosen = baseline.substitutes.chosen if baseline.substitutes is not None else None
        if chosen is not None and chosen.text not in report.reference.source:
            # They stand in place of all that was generated, other sizes included.
            seed = baseline.substitutes.seed if baseline.substitutes is not None else 0
            report.reference.source = f"generated (seed {seed}), {chosen.text}"
            report.reference.inputs = describe_feeds(chosen.samples[0])
        if report.reference.names:
            report.reference.names = [name_of(feeds) or "" for feeds in baseline.samples]


def _generated(model: ir.Model, settings: Reference) -> list[GeneratedSample]:
    return make_samples(
        model,
        seed=settings.seed,
        samples=settings.samples,
        ranges=settings.ranges,
        dims=settings.dims,
    )


def _substitutes(model: ir.Model, config: PipelineConfig) -> InputSearch:
    settings = config.reference
    return InputSearch(
        model,
        settings.seed,
        settings.samples,
        settings.ranges,
        settings.dims,
        adversarial=config.verify.inputs == "adversarial",
    )


def _special(
    model: ir.Model,
    config: PipelineConfig,
    given: Sequence[Feeds],
    made: Sequence[GeneratedSample],
) -> list[AdversarialFeeds]:
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


def _named(special: Sequence[AdversarialFeeds]) -> str:
    if any(feeds.asked for feeds in special):
        return " and adversarial"
    return (
        f" and {', '.join(dict.fromkeys(feeds.kind for feeds in special))}" if special else ""
    )
