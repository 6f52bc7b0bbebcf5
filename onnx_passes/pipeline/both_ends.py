"""Checks of the original before the first pass, and of the result against it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

import onnx_ir as ir

from onnx_passes.configs.sections import OutputTolerance, Verify
from onnx_passes.errors import EngineError, ReferenceDataError
from onnx_passes.pipeline.arbitration import Arbiter
from onnx_passes.pipeline.engine_check import is_in_doubt
from onnx_passes.pipeline.engine_side import Bench
from onnx_passes.pipeline.state import State
from onnx_passes.pipeline.step import does_not_run
from onnx_passes.verify.result import Check, Verdict


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
