"""Held-back images throughout: moments are recorded on the first 100, judged on the rest."""

import numpy as np

from onnx_passes.passes.context import PassContext
from onnx_passes.passes.precision.quantize_weights import QuantizeWeights
from onnx_passes.passes.precision.quantize_weights_gptq import QuantizeWeightsGptq
from tests.passes.precision.samples import sampled
from tests.tables import each_of

OPTIONS = [
    {"weights": "int8"},
    {"weights": "int4"},
    {"weights": "int4", "block": 16},
    {"weights": "uint4", "block": 16, "symmetric": False},
    {"weights": "int2", "block": 16},
    {"weights": "uint4", "block": 16, "form": "matmulnbits"},
]


@each_of("options", *OPTIONS, ids=str)
def test_less_is_lost_than_by_rounding(deep, digits, chain, images, run, kept, options):
    original = digits(21) if "form" in options else deep()
    found = []
    for cls in (QuantizeWeights, QuantizeWeightsGptq):
        model = chain(original, (cls, options | {"least": 1}))
        old, new = (run(m, {"image": images[100:]})[0] for m in (original, model))
        found.append(kept(old, new))
    assert found[1] > found[0] + (0.3 if "form" in options else 3)


def test_filters_are_rounded_by_their_patches(digits, chain, images, run, kept):
    original = digits(21)
    found = []
    for cls in (QuantizeWeights, QuantizeWeightsGptq):
        model = chain(original, (cls, {"weights": "int4", "operators": ["Conv"], "least": 1}))
        assert any("Conv" in (n.op_type) for n in model.graph)
        old, new = (run(m, {"image": images[100:]})[0] for m in (original, model))
        found.append(kept(old, new))
    assert found[1] > found[0] + 1


def test_no_product_loses_more_than_by_the_nearest(typed, run):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((64, 12)).astype(np.float32) @ rng.standard_normal((12, 12))
    x = x.astype(np.float32)
    text = ", ".join(map(repr, map(float, rng.standard_normal(60))))
    error = []
    for cls in (QuantizeWeights, QuantizeWeightsGptq):
        model = typed(f"""(float[N,12] x) => (float[N,5] y) <float[12,5] w = {{{text}}}>
            {{ y = MatMul(x, w) }}""")
        (old,) = run(model, {"x": x})
        sampled(cls(weights="int4", least=1), {"x": x}).call(model)
        error.append(((run(model, {"x": x})[0] - old) ** 2).sum(0))
    assert (error[1] <= error[0] * 1.0001).all()
    assert error[1].sum() < 0.8 * error[0].sum()


def test_groups_of_a_conv_are_rounded_to_the_nearest(typed, run):
    model = typed("""(float[1,2,3,3] x) => (float[1,2,3,3] y)
        <float[2,1,1,1] w = {0.3, 0.7}> { y = Conv <group = 2> (x, w) }""")
    pass_ = QuantizeWeightsGptq(least=1)
    x = np.ones((1, 2, 3, 3), np.float32)
    pass_.context = PassContext(samples=[{"x": x}])
    assert pass_.call(model).modified
    assert any("nearest" in note for note in pass_.context.notes)
    np.testing.assert_allclose(run(model, {"x": x})[0][0, :, 0, 0], [0.3, 0.7], atol=0.01)


def test_an_input_that_is_never_seen_does_no_harm(typed, run):
    model = typed("""(float[N,3] x) => (float[N,2] y) <float[3,2] w = {1, 2, 3, 4, 5, 6}>
        { y = MatMul(x, w) }""")
    x = np.array([[1, 0, 2], [3, 0, 1]], np.float32)
    sampled(QuantizeWeightsGptq(weights="int4", least=1), {"x": x}).call(model)
    (y,) = run(model, {"x": np.eye(3, dtype=np.float32)})
    np.testing.assert_allclose(y[1], [3, 4], atol=0.5)
