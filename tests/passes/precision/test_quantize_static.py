import numpy as np
import onnx_ir as ir
import pytest

from onnx_passes.errors import PassError
from onnx_passes.passes.precision.quantize_static import QuantizeStatic
from tests.tables import each_of

LAYER = """(float[2,4] x) => (float[2,3] y) <float[4,3] w =
{0.5, -1, 2, 0.25, 1, -2, 0.125, -0.5, 1, 1, 1, 1}> { m = MatMul(x, w) y = Relu(m) }"""


def operators(model):
    return [node.op_type for node in model.graph]


def saved(tmp_path, **arrays):
    np.savez(tmp_path / "data.npz", **arrays)
    return [str(tmp_path / "data.npz")]


@each_of("optimization", "none", "all")
@each_of(
    "options",
    {},
    {"calibration": "percentile"},
    {"calibration": "entropy"},
    {"calibration": "mse"},
    {"symmetric": True, "activations": "int8"},
    {"per_channel": False},
    {"weight_symmetric": False, "weights": "uint8"},
    {"outputs": False},
    ids=str,
)
def test_digits_are_read_as_before(digits, images, data, run, options, optimization):
    model = digits()
    assert QuantizeStatic(data=[data], **options).call(model).modified
    (old,), (new,) = (run(m, {"image": images}, optimization) for m in (digits(), model))
    assert (old.argmax(1) == new.argmax(1)).mean() >= 0.98
    assert not np.array_equal(old, new)


@each_of("kind", "int4", "int16", "uint16")
def test_other_widths_need_opset_21(digits, images, data, run, kind):
    with pytest.raises(PassError, match="needs opset 21"):
        QuantizeStatic(data=[data], weights=kind).call(digits())
    model = digits(21)
    QuantizeStatic(data=[data], weights=kind).call(model)
    (old,), (new,) = (run(m, {"image": images}) for m in (digits(), model))
    assert (old.argmax(1) == new.argmax(1)).mean() >= 0.97


def test_results_are_rounded_behind_the_activation(typed, tmp_path, run):
    model = typed(LAYER)
    x = np.array([[1, 2, 3, 4], [-1, -2, -3, -4]], np.float32)
    QuantizeStatic(data=saved(tmp_path, x=x)).call(model)
    assert operators(model) == [
        *("QuantizeLinear", "DequantizeLinear", "DequantizeLinear", "MatMul", "Relu"),
        *("QuantizeLinear", "DequantizeLinear"),
    ]
    assert model.graph.outputs[0].name == "y"
    (y,) = run(model, {"x": x})
    step = model.graph.initializers["y_scale"].const_value.numpy()
    np.testing.assert_allclose(y / step, np.rint(y / step), atol=1e-3)


def test_the_grid_is_that_of_the_data(typed, tmp_path):
    model = typed(LAYER)
    QuantizeStatic(
        data=saved(tmp_path, x=np.linspace(-1, 3, 8, dtype=np.float32).reshape(2, 4))
    ).call(model)
    constants = {n: v.const_value.numpy() for n, v in model.graph.initializers.items()}
    np.testing.assert_allclose(constants["x_scale"], 4 / 255, rtol=1e-6)
    assert constants["x_zero_point"] == 64
    np.testing.assert_allclose(constants["w_scale"], np.array([1, 1, 2]) / 127, rtol=1e-6)


def test_outliers_do_not_widen_a_percentile(typed, tmp_path):
    x = np.concatenate([np.linspace(-1, 1, 9999), [1000]]).astype(np.float32).reshape(-1, 4)
    wide = {}
    for method in ("minmax", "percentile", "mse"):
        model = typed(LAYER.replace("[2,", "[N,"))
        QuantizeStatic(
            data=saved(tmp_path, x=x), calibration=method, percentile=99.9, outputs=False
        ).call(model)
        wide[method] = float(model.graph.initializers["x_scale"].const_value.numpy())
    assert wide["percentile"] < 0.01 * wide["minmax"]
    assert wide["mse"] <= wide["minmax"]


def test_readers_share_one_pair(typed, tmp_path):
    model = typed("""(float[2,2] x) => (float[2,2] y, float[2,2] z) <float[2,2] w = {1, 2, 3,
        4}> { y = MatMul(x, w) z = MatMul(w, x) a = MatMul(x, w) b = Add(a, x) }""")
    QuantizeStatic(data=saved(tmp_path, x=np.ones((2, 2), np.float32)), outputs=False).call(
        model
    )
    assert operators(model).count("QuantizeLinear") == 1
    add = next(n for n in model.graph if n.op_type == "Add")
    assert add.inputs[1].name == "x", "who is not a layer reads what it did"


def test_two_computed_operands_are_rounded_both(typed, tmp_path, run):
    model = typed("(float[2,3] x, float[3,2] z) => (float[2,2] y) { y = MatMul(x, z) }")
    feeds = {"x": np.eye(2, 3, dtype=np.float32), "z": np.ones((3, 2), np.float32)}
    QuantizeStatic(data=saved(tmp_path, **feeds)).call(model)
    assert operators(model).count("QuantizeLinear") == 3
    np.testing.assert_allclose(run(model, feeds)[0], np.ones((2, 2)), atol=0.02)


def test_a_bias_has_the_grid_of_the_sums(typed, tmp_path, run):
    model = typed("""(float[1,2] x) => (float[1,2] y)
        <float[2,2] w = {1, 2, 3, 4}, float[2] c = {0.1, 1}>
        { y = Gemm <transB = 1> (x, w, c) }""")
    x = np.array([[1, -1]], np.float32)
    QuantizeStatic(data=saved(tmp_path, x=x), outputs=False).call(model)
    bias = next(v for v in model.graph.initializers.values() if v.dtype is ir.DataType.INT32)
    scale = model.graph.initializers["c_scale"].const_value.numpy()
    np.testing.assert_allclose(bias.const_value.numpy() * scale, [0.1, 1], atol=scale.max())
    np.testing.assert_allclose(run(model, {"x": x})[0], [[-0.9, 0]], atol=0.05)


def test_a_gemm_with_alpha_stays(typed, tmp_path):
    model = typed("""(float[1,2] x) => (float[1,2] y) <float[2,2] w = {1, 2, 3, 4}>
        { y = Gemm <alpha = 2.0> (x, w) }""")
    pass_ = QuantizeStatic(data=saved(tmp_path, x=np.ones((1, 2), np.float32)))
    assert not pass_.call(model).modified
    assert any("no layers" in note for note in pass_.context.notes)
