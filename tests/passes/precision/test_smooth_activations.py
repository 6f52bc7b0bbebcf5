import numpy as np

from onnx_passes.passes.precision.quantize_static import QuantizeStatic
from onnx_passes.passes.precision.smooth_activations import SmoothActivations
from tests.passes.precision.samples import sampled
from tests.tables import each_of


def outliers(typed, body, more=""):
    """Return a network whose values have outliers in one channel, and samples."""
    rng = np.random.default_rng(0)
    w = ", ".join(map(repr, map(float, rng.standard_normal(48))))
    gain = "1, 1, 60, 1, 1, 1, 1, 1"
    model = typed(f"""(float[N,8] x) => (float[N,6] y{more}) <float[8] g = {{{gain}}},
        float[8] b = {{0, 1, 2, 0, 1, 0, 0, 0}}, float[8,6] w = {{{w}}}> {{ {body} }}""")
    return model, rng.standard_normal((200, 8)).astype(np.float32)


NORMAL = "h = LayerNormalization(x, g, b) y = MatMul(h, w)"
BODIES = {
    "LayerNormalization": (NORMAL, "", []),
    "Mul and Add": ("m = Mul(x, g) h = Add(m, b) y = MatMul(h, w)", "", []),
    "read by others": (f"{NORMAL} z = Relu(h)", ", float[N,8] z", ["Mul"]),
    "no constant": ("h = Softmax(x) y = MatMul(h, w)", "", ["Mul"]),
}


@each_of("name", *BODIES)
def test_values_change_by_powers_of_two_only(typed, run, name):
    body, more, inserted = BODIES[name]
    model, x = outliers(typed, body, more)
    before = [node.op_type for node in model.graph]
    old = run(model, {"x": x})
    assert sampled(SmoothActivations(), {"x": x}).call(model).modified
    assert all(np.array_equal(o, n) for o, n in zip(old, run(model, {"x": x}), strict=True))
    assert sorted([node.op_type for node in model.graph]) == sorted(before + inserted)


def test_less_is_lost_beside_outliers(typed, run, kept):
    found = []
    for smooth in (False, True):
        model, x = outliers(typed, NORMAL)
        (old,) = run(model, {"x": x[100:]})
        for cls in [SmoothActivations] * smooth + [QuantizeStatic]:
            sampled(cls(), {"x": x[:100]}).call(model)
        found.append(kept(old[:, 1:], run(model, {"x": x[100:]})[0][:, 1:]))
    assert found[1] > found[0] + 1


def test_a_trained_network_loses_less(deep, chain, images, run, kept):
    original = deep(7)
    steps = [(QuantizeStatic, {})]
    old, plain, smooth = (
        run(m, {"image": images[100:]})[0]
        for m in (
            original,
            chain(original, *steps),
            chain(original, (SmoothActivations, {}), *steps),
        )
    )
    assert kept(old, smooth) > kept(old, plain)


def test_nothing_is_inserted_against_the_wish(typed):
    model, x = outliers(typed, BODIES["no constant"][0])
    assert not sampled(SmoothActivations(insert=False), {"x": x}).call(model).modified
