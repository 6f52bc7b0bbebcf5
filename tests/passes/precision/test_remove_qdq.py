import numpy as np

from onnx_passes.passes.annotation.shape_inference import ShapeInference
from onnx_passes.passes.precision.quantize_static import QuantizeStatic
from onnx_passes.passes.precision.quantize_weights import QuantizeWeights
from onnx_passes.passes.precision.remove_qdq import RemoveQdq
from tests.tables import each_of

PAIR = """(float[4] x) => (float[4] y) <float s = {0.5}, uint8 z = {3}>
{ q = QuantizeLinear(x, s, z) y = DequantizeLinear(q, s, z) }"""


def test_a_quantised_network_computes_in_floats_again(digits, images, data, run):
    model = digits()
    QuantizeStatic(data=[data]).call(model)
    ShapeInference().call(model)
    assert RemoveQdq(weights=True).call(model).modified
    assert not any("Quantize" in n.op_type or "Dequantize" in n.op_type for n in model.graph)
    (old,), (new,) = (run(m, {"image": images}) for m in (digits(), model))
    assert 0 < np.abs(old - new).max() < 0.3, "weights stay rounded"


@each_of("options", {}, {"weights": "int4", "block": 32}, ids=str)
def test_weights_are_what_the_integers_stand_for(digits, images, run, options):
    model = digits(21)
    QuantizeWeights(**options).call(model)
    ShapeInference().call(model)
    (old,) = run(model, {"image": images})
    assert RemoveQdq(weights=True).call(model).modified
    (new,) = run(model, {"image": images})
    np.testing.assert_array_equal(old, new)


def test_an_output_keeps_its_name(typed, run):
    model = typed(PAIR)
    assert RemoveQdq().call(model).modified
    assert model.graph.outputs[0].name == "y"
    x = np.array([0.1, 1e6, -5, 0.3], np.float32)
    np.testing.assert_array_equal(run(model, {"x": x})[0], x)


def test_integers_that_others_read_stay(typed, run):
    model = typed("""(float[4] x) => (float[4] y, uint8[4] q) <float s = {0.5}, uint8 z = {3}>
        { q = QuantizeLinear(x, s, z) d = DequantizeLinear(q, s, z) y = Neg(d) }""")
    assert RemoveQdq().call(model).modified
    assert [n.op_type for n in model.graph] == ["QuantizeLinear", "Neg"]
    run(model, {"x": np.ones(4, np.float32)})


def test_a_pair_between_types_stays(typed):
    model = typed("""(float[4] x, float16 t) => (float16[4] y) <float s = {0.5}, uint8 z = {3}>
        { q = QuantizeLinear(x, s, z) y = DequantizeLinear(q, t, z) }""")
    assert not RemoveQdq().call(model).modified
