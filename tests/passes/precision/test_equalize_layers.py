import numpy as np
import pytest

from onnx_passes.passes.annotation.shape_inference import ShapeInference
from onnx_passes.passes.fusion.fuse_batch_normalization import FuseBatchNormalization
from onnx_passes.passes.precision.equalize_layers import EqualizeLayers
from onnx_passes.passes.precision.quantize_static import QuantizeStatic

TENSOR = (QuantizeStatic, {"per_channel": False})


def test_less_is_lost_with_a_scale_for_each_tensor(deep, chain, images, run, kept):
    original = deep(11)
    old, plain, equal = (
        run(m, {"image": images[100:]})[0]
        for m in (
            original,
            chain(original, TENSOR),
            chain(original, (EqualizeLayers, {"powers": False}), TENSOR),
        )
    )
    assert kept(old, equal) > kept(old, plain) + 1


@pytest.mark.parametrize("powers", [True, False])
def test_channels_out_of_balance_are_balanced(typed, run, powers):
    rng = np.random.default_rng(0)
    w, v = (rng.standard_normal(shape).astype(np.float32) for shape in ((5, 4), (4, 3)))
    w *= np.array([1, 1e-3, 30, 1], np.float32)
    texts = [", ".join(map(repr, map(float, a.reshape(-1)))) for a in (w, v)]
    model = typed(
        f"(float[N,5] x) => (float[N,3] y) <float[5,4] w = {{{texts[0]}}}, "
        f"float[4] c = {{1, 2, 3, -1}}, float[4,3] v = {{{texts[1]}}}> "
        "{ a = MatMul(x, w) b = Add(a, c) h = Relu(b) y = MatMul(h, v) }"
    )
    x = rng.standard_normal((50, 5)).astype(np.float32)
    (old,) = run(model, {"x": x})
    assert EqualizeLayers(powers=powers).call(model).modified
    (new,) = run(model, {"x": x})
    if powers:
        assert np.array_equal(old, new), "powers of two change no rounding"
    np.testing.assert_allclose(new, old, rtol=1e-4, atol=1e-4)
    found = [value.const_value.numpy() for value in model.graph.initializers.values()]
    first = next(a for a in found if a.shape == (5, 4))
    second = next(a for a in found if a.shape == (4, 3))
    ratio = np.abs(first).max(0) / np.abs(second).max(1)
    assert ((ratio > 0.45) & (ratio < 2.2)).all() if powers else np.allclose(ratio, 1, 0.05)
    assert not EqualizeLayers(powers=powers).call(model).modified


def test_a_trained_network_computes_what_it_did(digits, images, run):
    model = digits(13)
    FuseBatchNormalization().call(model)
    ShapeInference().call(model)
    (old,) = run(model, {"image": images})
    assert EqualizeLayers().call(model).modified
    (new,) = run(model, {"image": images})
    np.testing.assert_allclose(new, old, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    "body",
    [
        "h = Sigmoid(a) y = MatMul(h, v)",
        "h = Clip(a, low, high) y = MatMul(h, v)",
        "h = Relu(a) y = MatMul(h, v) z = Identity(h)",
    ],
)
def test_what_is_not_homogeneous_or_read_by_others_stays(typed, body):
    more = ", float[N,2] z" if " z = " in body else ""
    model = typed(
        f"(float[N,2] x) => (float[N,2] y{more}) <float[2,2] w = {{100, 1, 100, 1}}, "
        "float low = {0}, float high = {6}, float[2,2] v = {1, 100, 1, 1}> "
        f"{{ a = MatMul(x, w) {body} }}"
    )
    assert not EqualizeLayers().call(model).modified


def test_a_channel_of_zeros_stays(typed, run):
    model = typed("""(float[N,2] x) => (float[N,1] y) <float[2,2] w = {0, 8, 0, 8},
        float[2,1] v = {1, 0.5}> { h = MatMul(x, w) y = MatMul(h, v) }""")
    x = np.ones((1, 2), np.float32)
    (old,) = run(model, {"x": x})
    EqualizeLayers().call(model)
    assert np.array_equal(run(model, {"x": x})[0], old)


def test_a_flatten_between_layers(typed, run):
    model = typed("""(float[N,1,2,2] x) => (float[N,1] y) <float[2,1,1,1] w = {64, 1},
        float[8,1] v = {1, 1, 1, 1, 64, 64, 64, 64}>
        { c = Conv(x, w) r = Relu(c) f = Flatten(r) y = MatMul(f, v) }""")
    x = np.random.default_rng(0).standard_normal((3, 1, 2, 2)).astype(np.float32)
    (old,) = run(model, {"x": x})
    assert EqualizeLayers().call(model).modified
    assert np.array_equal(run(model, {"x": x})[0], old)
