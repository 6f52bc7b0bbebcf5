"""Weights by reference change no bit of any backend test model of onnx."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import onnxruntime
import pytest

from onnx_passes.runtime import engine_models, ort_session
from onnx_passes.runtime.engine_models import split_weights
from onnx_passes.runtime.ort import OnnxRuntimeEngine
from tests.corpus import backend_models as corpus
from tests.tables import each_of, outputs_of

KNOWN_IR_VERSION = 13
RANDOM = {"Bernoulli", "Dropout", "RandomNormal", "RandomUniform"}


def same_bits(one, other) -> bool:
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same_bits, one, other))
    if one is None or one.dtype == object:
        return np.array_equal(one, other)
    return one.dtype == other.dtype and one.tobytes() == other.tobytes()


@pytest.mark.slow
@each_of("optimization", "none", "basic", "extended", "all")
def test_results_are_those_of_a_session_from_bytes(monkeypatch, optimization):
    monkeypatch.setattr(engine_models, "INLINE_BYTES", -1)  # the weights here are small
    engine = OnnxRuntimeEngine(optimization=optimization)
    compared, different = 0, []
    for entry in corpus.load_all():
        entry.model.ir_version = min(entry.model.ir_version, KNOWN_IR_VERSION)
        model = ir.from_proto(entry.model)
        operators = {node.op_type for node in model.graph.all_nodes()}
        if operators & RANDOM or not split_weights(model).weights:
            continue
        feeds = entry.samples[0][0]
        try:
            plain = onnxruntime.InferenceSession(
                entry.model.SerializeToString(),
                engine._options(onnxruntime, arena=True),
                providers=["CPUExecutionProvider"],
            )
            expected = [ort_session.to_data(value) for value in plain.run(None, feeds)]
        except Exception:
            continue  # ONNX Runtime lacks something, or has no numpy type to return
        found = list(outputs_of(engine, model, feeds).values())
        compared += 1
        if not same_bits(found, expected):
            different.append(entry.id)
    assert not different
    assert compared > 200
