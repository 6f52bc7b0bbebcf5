import numpy as np
import onnx_ir as ir

from onnx_passes.passes.precision.place_qdq import PlaceQdq
from onnx_passes.passes.precision.quantize_static import QuantizeStatic
from tests.passes.precision.samples import sampled
from tests.tables import each_of, each_row


def kinds(model, op_type, index):
    return {n.inputs[index].dtype for n in model.graph if n.op_type == op_type}


@each_of("weights", "int8", "uint8")
def test_grids_are_symmetric_and_biases_float(digits, images, run, weights):
    original, model = digits(13), digits(13)
    pass_ = sampled(
        QuantizeStatic(weights=weights, weight_symmetric=weights == "int8"),
        {"image": images[:100]},
    )
    pass_.call(model)
    pairs = sum(n.op_type == "QuantizeLinear" for n in model.graph)
    assert PlaceQdq().call(model).modified
    for node in model.graph:
        if node.op_type in ("QuantizeLinear", "DequantizeLinear"):
            zero = node.inputs[2].const_value
            assert zero.dtype is ir.DataType.INT8
            assert not zero.numpy().any()
    assert kinds(model, "DequantizeLinear", 0) == {ir.DataType.INT8}
    left = [n for n in model.graph if n.op_type == "QuantizeLinear"]
    assert 0 < len(left) < pairs, "nothing reads integers behind the last layer"
    assert model.graph.outputs[0].name == original.graph.outputs[0].name
    (old,), (new,) = (run(m, {"image": images[100:]}) for m in (original, model))
    assert (old.argmax(1) == new.argmax(1)).mean() >= 0.98
    assert not PlaceQdq().call(model).modified


def test_a_wider_grid_covers_what_the_old_one_did(typed, run):
    model = typed("""(float[4] x) => (float[4] y)
        <float s = {0.1}, uint8 z = {200}, float[4] one = {1, 1, 1, 1}>
        { q = QuantizeLinear(x, s, z) d = DequantizeLinear(q, s, z) y = Add(d, one) }""")
    x = np.array([-20, -1, 0, 5.5], np.float32)
    PlaceQdq().call(model)
    scale = next(n.inputs[1] for n in model.graph if n.op_type == "QuantizeLinear")
    assert abs(float(scale.const_value.numpy()) - 20 / 127) < 1e-6
    np.testing.assert_allclose(run(model, {"x": x})[0], x + 1, atol=0.08)


def test_pairs_before_a_residual_sum_stay(typed):
    model = typed("""(float[2] x) => (float[2] y, float[2] u)
        <float s = {0.1}, int8 z = {0}, float t = {0.2}>
        { q = QuantizeLinear(x, s, z) d = DequantizeLinear(q, s, z) y = Add(d, x)
          p = QuantizeLinear(x, t, z) e = DequantizeLinear(p, t, z) u = Sigmoid(e) }""")
    assert PlaceQdq().call(model).modified
    assert [n.op_type for n in model.graph if "Linear" in n.op_type] == [
        "QuantizeLinear",
        "DequantizeLinear",
    ]


def test_integers_that_others_read_stay(typed):
    model = typed("""(float[2] x) => (float[2] y, uint8[2] q) <float s = {0.1}, uint8 z =
        {100}> { q = QuantizeLinear(x, s, z) d = DequantizeLinear(q, s, z) y = Add(d, x) }""")
    assert not PlaceQdq().call(model).modified


@each_row("""constant
- uint8[4] k = {7, 90, 130, 255}, float t = {0.01}, uint8 u = {100}
- uint8[4] k = {7, 90, 130, 255}, float[4] t = {1, 2, 3, 4}, uint8[4] u = {9, 8, 7, 6}
- int8[1,4] k = {-7, 90, 127, -128}, float t = {0.01}, int8 u = {50}
- int32[4] k = {-700, 90, 1270, -1280}, float t = {0.01}, int32 u = {0}
""")
@each_of("operator", "Add", "Mul", "Where")
def test_constants_outside_products_are_symmetric_or_floats(typed, run, operator, constant):
    axis = "<axis = 0>" if "float[4]" in constant else ""
    given = "c, a, b" if operator == "Where" else "a, b"
    model = typed(f"""(float[2,4] x, bool[4] c) => (float[2,4] y) <float s = {{0.05}}, int8 z =
        {{0}}, {constant}> {{ q = QuantizeLinear(x, s, z) a = DequantizeLinear(q, s, z)
        b = DequantizeLinear {axis} (k, t, u) y = {operator}({given}) }}""")
    feed = {
        "x": np.linspace(0, 6, 8, dtype=np.float32).reshape(2, 4),
        "c": np.array([True, False] * 2),
    }
    (old,) = run(model, feed)
    assert PlaceQdq().call(model).modified
    assert kinds(model, "DequantizeLinear", 0) <= {ir.DataType.INT8}
    np.testing.assert_allclose(run(model, feed)[0], old, rtol=0.05, atol=0.1)
    assert not PlaceQdq().call(model).modified
