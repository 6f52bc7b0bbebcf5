from onnx_passes import testing
from onnx_passes.passes.constants import constant_of

FALLING = """(float[N,2] x) => (float[N,3] y) <float s = {0.3}, float z = {0}, float k = {2},
float[2,3] w = {1, 2, 3, -1, 2, 1}, float[3] f = {0.5, -2, 1}>
{ m = MatMul(x, w) a = Mul(m, f) y = q.Quant<signed = 0, narrow = 0>(a, s, z, k) }"""


def test_thresholds_behind_negative_factors_rise(text, applied):
    model = testing.parse(text(FALLING))
    assert applied(model)
    assert [node.op_type for node in model.graph] == ["MatMul", "MultiThreshold", "Mul"]
    (thresholds,) = (node for node in model.graph if node.op_type == "MultiThreshold")
    assert (constant_of(thresholds.inputs[2]).numpy() == 1).all()
