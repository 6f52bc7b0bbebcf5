import numpy as np

import onnx_passes
from onnx_passes.testing import parse
from tests.tables import each_of, pass_cases

HEADER = """<ir_version: 10, opset_import: ["" : 20, "onnx_passes.ops" : 1,
"qonnx.custom_op.general" : 1]> main """
TABLE = "float[{rows}3] t = {{{t}}}, float[{rows}1] v = {{-1, 1, -2}}"
THRESHOLDS = "-1, 0, 2, -2, 1, 3, 0, 1, 4"
CONV = (
    "(float[2,2,5] x) => (float[2,3,4] y) <float[2,3,4] p, "
    "float[3,2,2] w = {1,-2,3,1,0,1,2,3,1,1,1,-3}, "
    "float[3] b = {1, -2, 3}, " + TABLE.format(rows="3,1,", t=THRESHOLDS) + "> "
)
TRANSPOSED = CONV.replace("float[3,2,2] w", "float[2,3,2] w").replace("2,3,4", "2,3,6")
MATRIX = (
    "(float[4,2] x) => (float[4,3] y) <float[4,3] p, float[3,2] m, float[2,3] u, "
    "float[3,2] w = {1,-2,0,3,2,-1}, float s = {0.5}, "
    + TABLE.format(rows="3,", t=THRESHOLDS)
    + "> "
)
COUNT = "y = onnx_passes.ops.MultiThreshold(p, t, v) }"


@each_of(
    "text",
    CONV + "{ p = Conv(x, w) " + COUNT,
    CONV + "{ p = Conv(x, w, b) " + COUNT,
    TRANSPOSED + "{ p = ConvTranspose(x, w) " + COUNT,
    MATRIX + "{ m = Mul(w, s) u = Transpose(m) p = MatMul(x, u) " + COUNT,
    ids=["Conv", "bias", "ConvTranspose", "factor and Transpose"],
)
def test_thresholds_rise_in_all_channels(rewrites, text):
    rng, model = np.random.default_rng(0), parse(HEADER + text)
    shape = model.graph.inputs[0].shape.numpy()
    feeds = [{"x": rng.integers(-4, 5, shape).astype(np.float32)} for _ in range(8)]
    model = rewrites(HEADER + text, feeds=feeds)
    (node,) = (n for n in model.graph if n.op_type == "MultiThreshold")
    assert (node.inputs[2].const_value.numpy() > 0).all()


test_cases = pass_cases("""
rising: =HEADER + (CONV.replace('{-1, 1, -2}', '{1, 1, 2}') + '{ p = Conv(x, w) ' + COUNT)
more bits: =HEADER + (CONV.replace('{1,-2,3,1', '{1,-4,3,1') + '{ p = Conv(x, w) ' + COUNT)
read elsewhere: =HEADER + (CONV.replace('y) <float[2,3,4] p,', 'y, float[2,3,4] p) <') + '{ p =
  Conv(x, w) ' + COUNT)
both signs: =HEADER + (CONV.replace('float[3,1,1]', 'float[3]') + '{ p = Conv(x, w) ' + COUNT)
""")


QUANT = "qonnx.custom_op.general.Quant"
BODIES = {
    "Conv": ("1,3,5,5", "1,4,3,3", "4,3,3,3", "c = Conv(q, v)"),
    "depthwise": (
        "1,4,5,5",
        "1,4,5,5",
        "4,1,3,3",
        "c = Conv <group=4, pads=[1,1,1,1]> (q, v)",
    ),
    "MatMul": ("2,6", "2,4", "6,4", "c = MatMul(q, v)"),
}


@each_of("body", *BODIES)
@each_of("after", "r = Relu(n)", "r = Identity(n)")
def test_a_negative_factor_of_a_normalisation_leaves_one_node_of_thresholds(body, after):
    given, made, weights, product = BODIES[body]
    rng = np.random.default_rng(3)
    numbers = rng.standard_normal(int(np.prod([int(n) for n in weights.split(",")]))) * 0.4
    signed = 0 if "Relu" in after else 1
    model = parse(f"""{HEADER} (float[{given}] x) => (float[{made}] y)
        <float[{weights}] w = {{{", ".join(map(str, numbers))}}},
         float z = {{0}}, float k = {{4}}, float a = {{0.21}}, float b = {{0.05}},
         float d = {{0.3}}, float[4] g = {{-1, 1, -0.5, 2}},
         float[4] h = {{0.1, -0.2, 0.3, 0.4}}, float[4] m = {{0.2, 0, -0.3, 0.1}},
         float[4] e = {{1, 2, 0.5, 1}}> {{
        q = {QUANT} <signed = 1, narrow = 0> (x, a, z, k)
        v = {QUANT} <signed = 1, narrow = 1> (w, b, z, k) {product}
        n = BatchNormalization(c, g, h, m, e) {after}
        y = {QUANT} <signed = {signed}, narrow = 0> (r, d, z, k) }}""")
    steps = ["decompose-thresholds", "export-qonnx"]
    result = onnx_passes.run(model, {"extends": "streamline", "passes": steps})
    assert result.raise_for_verdict(strict=True)
    kinds = [n.op_type for n in result.model.graph if n.op_type not in ("Constant", "Mul")]
    assert kinds.count("MultiThreshold") == 2
    assert "Sub" not in kinds
