"""Noted types and shapes, held against the values that were seen."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace

import onnx_ir as ir

from onnx_passes.arrays import Array
from onnx_passes.pipeline.engine_check import EngineCheck
from onnx_passes.pipeline.recompute import run_nodes
from onnx_passes.pipeline.state import State
from onnx_passes.runtime.engine_base import Outputs
from onnx_passes.runtime.reference import ReferenceEngine
from onnx_passes.verify.annotations import find_wrong_annotations
from onnx_passes.verify.recording import inlined
from onnx_passes.verify.region import boundary_of
from onnx_passes.verify.result import Check, Verdict


def check_annotations(
    engines: EngineCheck, state: State, before: ir.Model, model: ir.Model
) -> tuple[Check, State]:
    """Hold the types and shapes that a pass noted against the values that were seen.

    Values that are recorded for this are those of the next passes, too.

    Args:
        engines: Records the values.
        state: What is known of the model before.
        before: The model before the pass.
        model: The model after it.
    """
    start = time.perf_counter()
    index = next((i for i, b in enumerate(state.baseline.benches) if b.when == "each"), None)
    recorded = None if index is None else state.of(index).recorded
    if index is not None and recorded is None and state.baseline.samples:
        recorder = engines.recorder(state.baseline.benches[index])
        recorded = recorder.obtain(
            None, inlined(model), state.baseline, frozenset(), untouched=not state.moved
        )
        state = state.knowing(index, replace(state.of(index), recorded=recorded))
    wrong: list[str] = []
    if recorded is not None:
        wrong = find_wrong_annotations(
            before,
            model,
            recorded.samples,
            lambda node, row: _standard_results(model, node, row),
        )
    verdict = Verdict.FAILED if wrong else Verdict.PASSED
    reason = "; ".join(wrong[:3]) or None
    if recorded is None:
        reason = "types and shapes were not held against values: none were recorded"
    check = Check("annotations", verdict, reason=reason, seconds=time.perf_counter() - start)
    return check, state


def _standard_results(
    model: ir.Model, node: ir.Node, row: Mapping[str, Array]
) -> Outputs | None:
    """Return what the standard makes of a node's operands; None if one is not known.

    Samples leave inputs to their defaults, and large values out of recordings.
    """
    defaults = {v.name: v.const_value for v in model.graph.inputs}
    known: dict[str, Array] = {}
    for name in boundary_of([node]):
        if name in row:
            known[name] = row[name]
        elif (tensor := defaults.get(name)) is not None:
            known[name] = tensor.numpy()
        else:
            return None
    return run_nodes(ReferenceEngine(), model, [node], [known])[0]
