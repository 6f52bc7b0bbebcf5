"""A second opinion on the result: ONNX Runtime as it is deployed, on one sample."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import replace

import onnx_ir as ir

from onnx_passes.errors import EngineError
from onnx_passes.pipeline.arbitration import Arbiter
from onnx_passes.pipeline.both_ends import run_end
from onnx_passes.pipeline.engine_side import Bench
from onnx_passes.pipeline.state import Known, State
from onnx_passes.pipeline.step import does_not_run
from onnx_passes.runtime.inputs import name_of
from onnx_passes.runtime.inputs.seeded_feeds import elements_of
from onnx_passes.runtime.ort import OnnxRuntimeEngine
from onnx_passes.verify.result import ENGINE, Check, Verdict


def check_deployed(
    state: State, model: ir.Model, found: Sequence[Check]
) -> tuple[State, list[Check]]:
    """Run the original and the result on ONNX Runtime as it is deployed, and compare them.

    All optimizations, copies of weights and the threads of the machine are on. The smallest
    sample is run. Where the two are farther apart than the limits, and than this form of ONNX
    Runtime is from the other on the original, it joins the engines of the pipeline.

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
        (i for i, feeds in enumerate(baseline.samples) if name_of(feeds) is None),
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
    origin = state.original if state.origin is None else state.origin
    try:
        old = bench.run_anew(origin.model, sample)
    except EngineError as error:
        baseline.notes.append(f"the original does not run as deployed: {error.message}")
        return state, []
    try:
        new = bench.run_anew(model, sample)
    except EngineError as error:
        return state, [does_not_run(ENGINE, bench, error)]
    limits = comparing.thresholds.drift()
    check = comparing.compare(ENGINE, bench, old, new, *limits)
    if check.verdict is Verdict.FAILED and state.origin is None:
        mine = comparing.compare(ENGINE, bench, [plain.original[place]], old, *limits)
        check = _within(check, mine)
    if check.verdict is not Verdict.FAILED:
        return state, [replace(check, seconds=time.perf_counter() - start)]
    baseline.benches.append(bench)
    state = replace(state, known=(*state.known, Known()))
    baseline.ready("end")
    checks = [*found, *run_end(bench, state, model)]
    arbiter = Arbiter(state, state.original.model, model, [plain, bench])
    return state, arbiter.at_end(checks)[len(found) :]


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
