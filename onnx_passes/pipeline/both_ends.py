"""Checks of the original before the first pass, and of the result against it."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import replace

import onnx_ir as ir

from onnx_passes.configs.sections import OutputTolerance, Verify
from onnx_passes.errors import EngineError, ReferenceDataError
from onnx_passes.pipeline.arbitration import Arbiter
from onnx_passes.pipeline.engine_check import is_in_doubt
from onnx_passes.pipeline.engine_side import Bench
from onnx_passes.pipeline.state import Known, State
from onnx_passes.pipeline.step import does_not_run
from onnx_passes.runtime.engine_base import Feeds
from onnx_passes.runtime.inputs import AdversarialFeeds
from onnx_passes.runtime.inputs.seeded_feeds import elements_of
from onnx_passes.runtime.ort import OnnxRuntimeEngine
from onnx_passes.verify.result import ENGINE, Check, Verdict


def check_original(state: State, settings: Verify) -> None:
    """Ask whether the original itself keeps the metrics' ranges.

    Args:
        state: That of a model which no pass has changed.
        settings: The section ``verify`` of the pipeline.

    Raises:
        ReferenceDataError: It does not, so that no pass could.
    """
    if settings.metrics:
        state.baseline.ready("each", "checkpoint", "end")
    for bench in state.baseline.benches:
        for check in state.comparing.metrics(bench, bench.original, ()):
            if check.verdict is not Verdict.PASSED and not check.metrics:
                raise ReferenceDataError(
                    check.reason or "a metric cannot be evaluated",
                    help="give labels as reference.outputs (--labels), or another metric",
                )
            for metric in check.metrics:
                if not metric.passed:
                    raise ReferenceDataError(
                        f"the original itself has {metric.name} {metric.value:g} on "
                        f"{bench.engine.name}, not in [{metric.low:g}, {metric.high:g}]",
                        help="correct verify.metrics, or the reference data",
                    )


def check_thresholds(
    state: State, steps: Sequence[tuple[str, str | None, OutputTolerance]] = ()
) -> None:
    """Ask whether the limits that the user gave stand above the noise.

    Args:
        state: That of a model which no pass has changed.
        steps: The passes with a tolerance of their own: name, place, tolerance.

    Raises:
        ConfigError: One does not.
    """
    thresholds = state.comparing.thresholds
    if not (thresholds.given or steps) or not state.baseline.samples:
        return
    state.baseline.ready("each", "checkpoint", "end")
    for bench in list(state.baseline.benches):
        if bench.ran:
            thresholds.refuse(state.comparing.noise.of(bench), state.baseline.unstable, steps)


def check_end(state: State, model: ir.Model, moments: Sequence[str]) -> list[Check]:
    """Hold a whole model against the original, on the engines of the given moments.

    Nothing is run if no pass changed what is computed.

    Args:
        state: What is known of the model.
        model: The model.
        moments: Which engines run: those of "each", "checkpoint" or "end".
    """
    asked = [b for b in state.baseline.benches if b.when in moments]
    if not state.moved:
        reason = "not run: no pass changed what is computed"
        names = [bench.engine.name for bench in asked]
        return [Check("drift", Verdict.UNCHANGED, name, reason=reason) for name in names]
    state.baseline.ready(*moments)
    asked = [b for b in state.baseline.benches if b.when in moments]
    for bench in asked[1:] if state.baseline.ahead else ():
        bench.begin(model, state.baseline.samples, "the check of the result")
    checks: list[Check] = []
    for bench in asked:
        found = run_end(bench, state, model)
        again = is_in_doubt(state, bench, found)
        checks += run_end(bench, state, model) if again else found
    if state.at_origin or state.origin is not None:
        return checks
    return Arbiter(state, state.original.model, model, asked).at_end(checks)


def run_end(bench: Bench, state: State, model: ir.Model) -> list[Check]:
    """Hold a whole model against the original on one engine.

    Args:
        bench: The engine.
        state: What is known of the model.
        model: The model.
    """
    name, samples = bench.engine.name, state.baseline.samples
    if not samples:
        reason = "there are no reference samples"
        return [Check("equality", Verdict.NOT_VERIFIED, name, reason=reason)]
    start = time.perf_counter()
    try:
        produced = bench.run(model, samples)
        origin = None
        if state.at_origin:
            origin = produced
        elif state.origin is not None:
            origin = bench.run(state.origin.model, samples)
    except EngineError as error:
        failed = does_not_run("equality", bench, error)
        return [replace(failed, seconds=time.perf_counter() - start)]
    seconds = time.perf_counter() - start
    checks = state.comparing.end(bench, origin, produced, model, vouched=state.vouched)
    checks[0] = replace(checks[0], seconds=checks[0].seconds + seconds)
    return checks


def check_deployed(
    state: State, model: ir.Model, found: Sequence[Check]
) -> tuple[State, list[Check]]:
    """Run the result on ONNX Runtime as it is deployed, and where it differs the original.

    All optimizations, copies of weights and the threads of the machine are on. The smallest
    sample is run. Where the result is farther from the original than the limits, both are run
    so. Where they are farther apart than the limits, and than this form of ONNX Runtime is
    from the other on the original, it joins the engines of the pipeline.

    Args:
        state: What is known of the model.
        model: The result.
        found: What the engines of the pipeline found at the end.

    Returns:
        The state, and the check; none if the pipeline leaves out what ONNX Runtime rewrites,
        or if nothing is computed differently.
    """
    baseline, comparing = state.baseline, state.comparing
    ran = {b.engine: b for b in baseline.benches if b.ran}
    runtimes = [e for e in ran if isinstance(e, OnnxRuntimeEngine)]
    plain = next((ran[engine] for engine in runtimes if engine.node_by_node), None)
    whole = next((engine for engine in runtimes if engine.optimization == "all"), None)
    if plain is None or whole is None or not state.moved or state.at_origin:
        return state, []
    engine = replace(whole, threads=0, prepacking=True)
    if engine in ran:
        return state, []
    place = min(
        (i for i, feeds in enumerate(baseline.samples) if _is_usual(feeds)),
        key=lambda i: elements_of(baseline.samples[i]),
        default=None,
    )
    if place is None:
        return state, []
    bench, sample, start = Bench(engine, "end"), [baseline.samples[place]], time.perf_counter()
    if state.original.weight_bytes > comparing.settings.memory_limit:
        told = "the result was not run as deployed: copies of weights exceed"
        baseline.notes.append(f"{told} verify.memory_limit")
        return state, []
    limits, known = comparing.thresholds.drift(), [plain.original[place]]
    refused: EngineError | None = None
    try:
        new = bench.run_anew(model, sample)
    except EngineError as error:
        refused, new = error, []
    if state.origin is None and refused is None:
        check = comparing.compare(ENGINE, bench, known, new, *limits)
        if check.verdict is not Verdict.FAILED:
            return state, [replace(check, seconds=time.perf_counter() - start)]
    origin = state.original if state.origin is None else state.origin
    try:
        old = bench.run_anew(origin.model, sample)
    except EngineError as error:
        baseline.notes.append(f"the original does not run as deployed: {error.message}")
        return state, []
    if refused is not None:
        return state, [does_not_run(ENGINE, bench, refused)]
    check = comparing.compare(ENGINE, bench, old, new, *limits)
    if check.verdict is Verdict.FAILED and state.origin is None:
        check = _within(check, comparing.compare(ENGINE, bench, known, old, *limits))
    if check.verdict is not Verdict.FAILED:
        return state, [replace(check, seconds=time.perf_counter() - start)]
    baseline.benches.append(bench)
    state = replace(state, known=(*state.known, Known()))
    baseline.ready("end")
    checks = [*found, *run_end(bench, state, model)]
    arbiter = Arbiter(state, state.original.model, model, [plain, bench])
    return state, arbiter.at_end(checks)[len(found) :]


def _is_usual(feeds: Feeds) -> bool:
    """Whether a sample has no special values; a batch of one is what is deployed most."""
    return not isinstance(feeds, AdversarialFeeds) or feeds.kind == "size 1"


def _within(check: Check, own: Check) -> Check:
    """Pass a check of outputs that differ no more than those of the original itself."""
    most = {o.output: o.max_abs or 0.0 for o in own.outputs}
    for output in check.outputs:
        size, share = output.max_abs, output.share
        finite = share is not None and share < math.inf
        near = size is not None and size <= most.get(output.output, 0.0)
        if not output.passed and not (finite and near):
            return check
    outputs = tuple(replace(output, passed=True) for output in check.outputs)
    told = "no farther apart than the original is from itself without optimizations"
    return replace(check, verdict=Verdict.PASSED, reason=told, outputs=outputs, sample=None)
