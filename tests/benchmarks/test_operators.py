"""A sample of what ``benchmarks/operators.py`` holds against the engine at length."""

import numpy as np

from benchmarks.operators import held
from onnx_passes.ops import families  # noqa: F401 (makes operators known)
from onnx_passes.ops.activations import Relu
from onnx_passes.ops.operator_class import find, operators
from tests.tables import each_of

LOOKED_AT = [o.op_type for o in operators() if not o.domain and o.evaluates]
NEVER_DRAWN = {
    *("Constant", "If", "Loop", "Scan", "Affine", "Crop", "DynamicSlice", "ImageScaler"),
    *("ParametricSoftplus", "Scale", "ScaledTanh", "SimplifiedLayerNormalization"),
}
"""A Constant has no operand, bodies are not drawn, and ONNX has no schema of the others.

``tests/ops`` holds them against the engine.
"""
RARE = {"Attention"}
"""What most draws do not fit."""


@each_of("op_type", *sorted(set(LOOKED_AT) - NEVER_DRAWN))
def test_the_engine_computes_what_is_told(op_type):
    found = held(find("", op_type), np.random.default_rng(2), 4)
    assert not found.faults, found.faults[0]
    assert found.calls or op_type in RARE


def test_a_false_description_is_found(monkeypatch):
    monkeypatch.setattr(Relu, "primitive", "abs")
    assert "engine" in held(find("", "Relu"), np.random.default_rng(0), 10).faults[0]
