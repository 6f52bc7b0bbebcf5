from onnx_passes import testing
from onnx_passes.passes.streamline.streamline_thresholds import StreamlineThresholds

GRAPH = """(float[2,4] x) => (float[2,4] y) <float s = {0.3}, float z = {0}, float k = {4},
float[4] b = {1, 2, 3, 4}>
{ a = Add(x, b) t = Sigmoid(a) y = q.Quant<signed = 0, narrow = 0>(t, s, z, k) }"""


def test_a_layer_tail_becomes_thresholds(text):
    model = testing.parse(text(GRAPH))
    before = testing.Snapshot(model)
    assert StreamlineThresholds()(model).modified
    testing.assert_verified(StreamlineThresholds(), before, model)
    assert [node.op_type for node in model.graph] == ["MultiThreshold", "Mul"]
