"""QuantizeLinear and DequantizeLinear are quantisers like those of QONNX."""

import numpy as np

from onnx_passes import testing
from onnx_passes.passes.quantised.extract_weight_scales import ExtractWeightScales
from onnx_passes.passes.quantised.infer_thresholds import InferThresholds
from onnx_passes.runtime.ort import OnnxRuntimeEngine
from tests.tables import each_of, each_row, inferred, outputs_of

HEAD = """<ir_version: 10, opset_import: ["" : 21, "onnx_passes.ops" : 1]> main
(float[N,3] x) => (float[N,3] y) <float s = {0.3}, float[3] r = {0.3, 0.01, 2}, int8 z = {-5},
uint8 u = {117}, int8[3] v = {0, 3, -7}, int8 a = {-7}, int8 b = {6}, int4 n = {1},
float g = {0.7}, float[3] f = {1, -2, 0.1}, float t = {0.4}> """

PAIRS = {
    "an odd zero point": "q = QuantizeLinear(w, s, z) y = DequantizeLinear(q, s, z)",
    "unsigned": "q = QuantizeLinear(w, s, u) y = DequantizeLinear(q, s, u)",
    "no zero point": "q = QuantizeLinear(w, s) y = DequantizeLinear(q, s)",
    "four bits": "q = QuantizeLinear(w, s, n) y = DequantizeLinear(q, s, n)",
    "clipped": "q = QuantizeLinear(w, s, z) c = Clip(q, a, b) y = DequantizeLinear(c, s, z)",
    "by channel": """q = QuantizeLinear<axis = -1>(w, r, v)
    y = DequantizeLinear<axis = 1>(q, r, v)""",
    "twice": """q = QuantizeLinear(w, s, z) d = DequantizeLinear(q, s, z) e = Relu(d)
    p = QuantizeLinear(e, g, u) y = DequantizeLinear(p, g, u)""",
}


def parsed(body):
    return inferred(HEAD + "{ " + body + " }")


def results(model, values):
    return outputs_of(OnnxRuntimeEngine(prepacking=False), model, {"x": values})["y"]


@each_of("pair", *PAIRS.values(), ids=PAIRS)
def test_thresholds(pair):
    model = parsed("w = Mul(x, f) " + pair)
    before = model.clone()
    assert InferThresholds()(model).modified
    kinds = {node.op_type for node in model.graph}
    assert kinds <= {"MultiThreshold", "Add", "Mul", "Constant"}, "no quantiser is left"
    ties = (np.arange(-300, 300) * np.float32(0.15)).astype(np.float32)
    drawn = np.random.default_rng(0).normal(0, 20, 3000).astype(np.float32)
    values = np.concatenate([ties, drawn]).reshape(-1, 3)
    assert np.array_equal(results(before, values), results(model, values))


@each_row("""pair
- q = QuantizeLinear(x, s, z) y = DequantizeLinear(q, t, z)
- q = QuantizeLinear(x, s, z) y = DequantizeLinear(q, s)
- q = QuantizeLinear(x, r, v) m = Abs(q) y = DequantizeLinear(m, r, v)
""")
def test_leaves_alone(pair):
    testing.assert_leaves_alone(InferThresholds(), parsed(pair))


WEIGHTS = """<ir_version: 10, opset_import: ["" : 21]> main (float[N,2] x) => (float[N,3] y)
<int8[2,3] k = {1, -7, 3, 100, 0, 6}, float[3] r = {0.3, 0.01, 2}, int8[3] v = {0, 3, -7},
float s = {0.3}, int8 z = {-5}, int32[3] b = {5, -70000, 6}, float t = {0.003}> """


@each_of("call", "(k, s, z)", "<axis = 1>(k, r, v)", "(k, s)")
def test_weights_are_integers_and_a_scale(call, rewrites):
    body = f"{{ w = DequantizeLinear{call} y = MatMul(x, w) }}"
    model = rewrites(ExtractWeightScales(), WEIGHTS + body)
    product = next(node for node in model.graph if node.op_type == "Mul")
    levels = product.inputs[0].producer().attributes["value"].as_tensor().numpy()
    assert levels.dtype == np.float32
    assert np.array_equal(levels, np.rint(levels))


def test_a_bias_is_a_constant(rewrites):
    body = "{ w = DequantizeLinear(k, s, z) m = MatMul(x, w) d = DequantizeLinear(b, t) "
    model = rewrites(ExtractWeightScales(), WEIGHTS + body + "y = Add(m, d) }")
    sum_ = next(node for node in model.graph if node.op_type == "Add")
    assert sum_.inputs[1].producer().op_type == "Constant"
