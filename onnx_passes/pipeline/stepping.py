"""Models with states: reference inputs of each step, and how a result drifts along steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import onnx_ir as ir

from onnx_passes.configs.engine_configs import EngineStep
from onnx_passes.configs.sections import Reference as Settings
from onnx_passes.errors import EngineError, ReferenceDataError
from onnx_passes.pipeline.gate import Gate
from onnx_passes.report.text import bound
from onnx_passes.runtime.engine_base import Engine, Feeds, Outputs, only_compiles
from onnx_passes.runtime.inputs.seeded_feeds import (
    Feed,
    check_feed,
    generated_steps,
    given_steps,
    run_steps,
)
from onnx_passes.runtime.ort import OnnxRuntimeEngine
from onnx_passes.verify.interface_check import interface_of
from onnx_passes.verify.reference_data import ReferenceData
from onnx_passes.verify.result import Check, Verdict

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

    The states are those that the original makes on the first engine that executes.

    Args:
        model: The original.
        settings: Its section ``reference``.
        reference: The inputs of the first step; given ones take turns at the later steps.
        engines: The engines of the pipeline.
        given: Whether the inputs are from the user.

    Raises:
        ReferenceDataError: What is fed does not fit the model.
        EngineError: The original does not run on a step.
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
    is made. What errors add up to where they are fed back only a run of its own shows.

    Args:
        gate: The gate of the run.
        model: The result.
        settings: The section ``reference``.

    Returns:
        A check for each engine that executed the original; none without steps.
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
