import numpy as np

from onnx_passes.passes.precision.correct_biases import CorrectBiases
from onnx_passes.passes.precision.quantize_static import QuantizeStatic
from onnx_passes.passes.precision.quantize_weights import QuantizeWeights
from tests.passes.precision.samples import sampled
from tests.tables import each_of

HALF = {"weights": "int4", "least": 1}


@each_of(
    "step, gain",
    ((QuantizeWeights, HALF), 3),
    ((QuantizeStatic, {"per_channel": False}), 0.5),
    ids=["weights", "static"],
)
def test_less_is_lost_on_images_held_back(deep, chain, images, run, kept, step, gain):
    for layers in (7, 11):
        original = deep(layers)
        models = chain(original, step), chain(original, step, (CorrectBiases, {}))
        old = run(original, {"image": images[100:]})[0]
        plain, corrected = (kept(old, run(m, {"image": images[100:]})[0]) for m in models)
        assert corrected > plain + gain


LAYERS = {
    "Gemm with a bias": ("float[2] c = {1, 2}", "y = Gemm(x, w, c)"),
    "Gemm without": ("", "y = Gemm(x, w)"),
    "MatMul": ("", "y = MatMul(x, w)"),
    "MatMul and Add": ("float[2] c = {1, 2}", "m = MatMul(x, w) y = Add(c, m)"),
    "MatMul inside": ("", "m = MatMul(x, w) y = Relu(m)"),
}


@each_of("name", *LAYERS)
@each_of("step", (QuantizeWeights, HALF), (QuantizeStatic, {}), ids=str)
def test_means_of_a_layer_are_those_of_the_original(typed, run, name, step):
    constant, body = LAYERS[name]
    more = f", {constant}" if constant else ""
    model = typed(f"""(float[N,3] x) => (float[N,2] y) <float[3,2] w =
        {{1, 0.31, 0.17, -2, 3, 0.44}}{more}> {{ {body} }}""")
    x = np.abs(np.random.default_rng(0).standard_normal((400, 3))).astype(np.float32)
    (old,) = run(model, {"x": x})
    state: dict = {}
    found = []
    for cls, options in (step, (CorrectBiases, {})):
        assert sampled(cls(None, state, **options), {"x": x}).call(model).modified
        found.append(np.abs(run(model, {"x": x})[0].mean(0) - old.mean(0)).max())
    assert found[1] <= found[0]
    exact = step[0] is QuantizeWeights and "inside" not in name
    assert found[1] < (2e-5 if exact else 0.02)
    assert [v.name for v in model.graph.outputs] == ["y"]


def test_filters_are_corrected(digits, chain, images, run, kept):
    original = digits(21)
    step = (QuantizeWeights, HALF | {"operators": ["Conv"]})
    models = chain(original, step), chain(original, step, (CorrectBiases, {}))
    old = run(original, {"image": images[100:]})[0]
    plain, corrected = (kept(old, run(m, {"image": images[100:]})[0]) for m in models)
    assert corrected > plain + 1


def test_without_rounded_weights_it_says_so(deep, images):
    pass_ = sampled(CorrectBiases(), {"image": images[:10]})
    assert not pass_.call(deep()).modified
    assert any("no pass before it has rounded" in note for note in pass_.context.notes)
