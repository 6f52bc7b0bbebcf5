"""Held-back images throughout: moments are recorded on the first 100, judged on the rest."""

import numpy as np
import pytest

from onnx_passes.passes.precision.quantize_static import QuantizeStatic
from onnx_passes.passes.precision.quantize_weights import QuantizeWeights
from onnx_passes.passes.precision.quantize_weights_adaround import QuantizeWeightsAdaround
from tests.passes.precision.samples import sampled

OPTIONS = [
    {"weights": "int8"},
    {"weights": "int4", "calibration": "mse"},
    {"weights": "uint4", "block": 16, "symmetric": False},
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_less_is_lost_than_by_the_nearest_integers(deep, chain, images, run, kept, options):
    original, found = deep(), []
    for cls in (QuantizeWeights, QuantizeWeightsAdaround):
        model = chain(original, (cls, options | {"least": 1}))
        old, new = (run(m, {"image": images[100:]})[0] for m in (original, model))
        found.append(kept(old, new))
    assert found[1] > found[0] + 2


def test_no_weight_is_off_by_more_than_a_step(typed, run):
    rng = np.random.default_rng(1)
    w = rng.standard_normal((8, 6)).astype(np.float32)
    x = (rng.standard_normal((50, 8)) @ rng.standard_normal((8, 8))).astype(np.float32)
    text = ", ".join(map(repr, map(float, w.reshape(-1))))
    model = typed(
        f"(float[N,8] x) => (float[N,6] y) <float[8,6] w = {{{text}}}> {{ y = MatMul(x, w) }}"
    )
    sampled(QuantizeWeightsAdaround(weights="int4", least=1), {"x": x}).call(model)
    (near,) = run(model, {"x": np.eye(8, dtype=np.float32)})
    step = np.abs(w).max(0) / 7
    assert (np.abs(near - w) <= step * 1.001).all()
    assert (np.abs(near - w) > step * 0.501).any(), "some are not rounded to the nearest"


def test_static_quantisers_keep_the_integers(digits, chain, images, run, kept):
    original = digits(21)
    rounded = (QuantizeWeightsAdaround, {"least": 1, "steps": 20})
    model = chain(original, rounded, (QuantizeStatic, {}))
    before, after = (
        {
            name: value.const_value.numpy()
            for name, value in m.graph.initializers.items()
            if name.endswith("weight_int8")
        }
        for m in (chain(original, rounded), model)
    )
    assert before
    assert before.keys() == after.keys()
    assert all(np.array_equal(before[name], after[name]) for name in before)
    operators = [node.op_type for node in model.graph]
    assert operators.count("QuantizeLinear") >= 4
    old, new = (run(m, {"image": images[100:]})[0] for m in (original, model))
    assert kept(old, new) > 30
