"""What -c streamline leaves between thresholds is what hardware computes."""

import numpy as np

import onnx_passes
from onnx_passes.testing import parse
from tests.tables import each_of, each_row

HEADER = """<ir_version: 10, opset_import: ["" : 18, "onnx_passes.ops" : 1,
"qonnx.custom_op.general" : 1]> main """
QUANT = "qonnx.custom_op.general.Quant <signed = {0}, narrow = {1}> "
TO = ["decompose-thresholds", "export-qonnx"]


def numbers(*shape, seed=0):
    rng = np.random.default_rng(seed)
    return ", ".join(map(str, rng.standard_normal(shape).reshape(-1) * 0.4))


def streamlined(text, *steps, inputs=None):
    """Return the nodes that are left, but for constants, and the model."""
    pipeline = {"extends": "streamline", "passes": list(steps)}
    result = onnx_passes.run(parse(HEADER + text), pipeline, inputs=inputs)
    assert result.raise_for_verdict(strict=True)
    nodes = [node for node in result.model.graph if node.op_type != "Constant"]
    return nodes, result


def kinds(nodes):
    return [node.op_type for node in nodes]


SIGNED, WEIGHT, UNSIGNED = (QUANT.format(*n) for n in ((1, 0), (1, 1), (0, 0)))


@each_of("scales, join", ((0.25, 0.125), "Add"), ((0.125, 0.5), "Sub"), ((0.3, 0.6), "Add"))
def test_a_join_of_grids_that_differ_by_a_power_of_two_is_of_integers(scales, join):
    text = f"""(float[1,4,6,6] x) => (float[1,4,6,6] y)
    <float[4,4,1,1] w = {{{numbers(4, 4)}}}, float z = {{0}}, float k = {{4}},
     float f = {{0.25}}, float g = {{0.0625}}, float d = {{{scales[0]}}},
     float e = {{{scales[1]}}}, float o = {{0.5}}> {{
    q = {SIGNED} (x, f, z, k) v = {WEIGHT} (w, g, z, k) c = Conv(q, v)
    a = {SIGNED} (c, d, z, k) b = {SIGNED} (q, e, z, k) s = {join}(a, b)
    r = Relu(s) y = {UNSIGNED} (r, o, z, k) }}"""
    check = {"assert": {"integers_between_thresholds": True}}
    nodes, _ = streamlined(text, check)
    (factor,) = (node for node in nodes[:-1] if node.op_type == "Mul")
    number = float(factor.inputs[1].const_value.numpy())
    assert number == int(number)


@each_of("perm", "0, 2, 3, 1", "0, 3, 1, 2", "0, 3, 2, 1")
def test_transposes_around_thresholds_go(perm):
    there = [int(n) for n in perm.split(",")]
    back = ", ".join(str(there.index(axis)) for axis in range(4))
    text = f"""(float[1,4,4,4] x) => (float[1,2,4,4] y)
    <float[2,4,1,1] w = {{1, -2, 0, 3, 1, 1, -1, 2}}, float f = {{0.3}}, float z = {{0}},
     float k = {{3}}> {{ t = Transpose <perm = [{perm}]> (x) q = {SIGNED} (t, f, z, k)
    u = Transpose <perm = [{back}]> (q) y = Conv(u, w) }}"""
    nodes, _ = streamlined(text, *TO)
    assert "Transpose" not in kinds(nodes)


@each_row("""activation
- r = Softsign(c)
- p = Abs(c) o = Add(one, p) r = Div(c, o)
- r = Abs(c)
- h = Mul(c, d) p = Abs(h) o = Add(p, one) r = Div(h, o)
""")
def test_softsign_and_abs_are_thresholds(activation):
    text = f"""(float[1,4,6,6] x) => (float[1,4,6,6] y)
    <float[4,4,1,1] w = {{{numbers(4, 4)}}}, float z = {{0}}, float k = {{4}},
     float one = {{1}}, float f = {{0.25}}, float g = {{0.07}}, float d = {{0.11}}> {{
    q = {SIGNED} (x, f, z, k) v = {WEIGHT} (w, g, z, k) c = Conv(q, v) {activation}
    y = {SIGNED} (r, d, z, k) }}"""
    nodes, _ = streamlined(text)
    assert kinds(nodes) == ["MultiThreshold", "Conv", "MultiThreshold", "Mul", "Add"]


@each_of("flat", "h = Flatten(a)", "h = Reshape(a, shape)")
def test_convolutions_on_channels_last_data_need_no_transpose_before_a_dense_layer(flat):
    text = f"""(float[1,3,5,5] x) => (float[1,5] y)
    <float[4,3,3,3] w = {{{numbers(4, 3, 3, 3)}}}, float[36,5] u = {{{numbers(36, 5)}}},
     float z = {{0}}, float k = {{4}}, float f = {{0.21}}, float g = {{0.07}},
     float d = {{0.31}}, int64[2] shape = {{1, -1}}> {{
    q = {SIGNED} (x, f, z, k) v = {WEIGHT} (w, g, z, k) c = Conv(q, v) r = Relu(c)
    a = {UNSIGNED} (r, d, z, k) {flat}
    p = {WEIGHT} (u, g, z, k) y = MatMul(h, p) }}"""
    nodes, _ = streamlined(text, "convert-layout{inputs={x: nhwc}}", "channels-last", *TO)
    assert "Transpose" not in kinds(nodes)
    assert {node.domain for node in nodes if node.op_type == "Conv"} != {""}


BIT = "qonnx.custom_op.general.BipolarQuant"


@each_of("product", "MatMul", "Conv")
def test_activations_of_one_bit_stay_signs_in_front_of_constant_weights(product):
    shape, weights = ("1,4", "4,4") if product == "MatMul" else ("1,4,3,3", "4,4,1,1")
    text = f"""(float[{shape}] x) => (float[{shape}] y)
    <float[{weights}] w = {{{numbers(4, 4)}}}, float o = {{1}}, float g = {{0.07}},
     float[{weights}] u = {{{numbers(4, 4, seed=1)}}}> {{
    q = {BIT} (x, o) v = {BIT} (w, g) c = {product}(q, v)
    r = {BIT} (c, o) p = {BIT} (u, g) y = {product}(r, p) }}"""
    nodes, _ = streamlined(text, *TO)
    steps = [node for node in nodes if node.op_type == "MultiThreshold"]
    assert [node.attributes.get_string("out_dtype") for node in steps] == ["BIPOLAR"] * 2
    if product == "MatMul":
        nodes, _ = streamlined(text, "convert-to-xnor-popcount", *TO)
        assert kinds(nodes).count("XnorPopcountMatMul") == 2


def test_an_engine_that_rounds_weights_between_quantisers_of_16_bits_is_told_how_not_to():
    weights = ", ".join(map(str, np.random.default_rng(3).integers(-127, 127, 216)))
    text = f"""<ir_version: 10, opset_import: ["" : 21]>
    main (float[1,3,8,8] x) => (float[1,8,6,6] y)
    <float s = {{0.0001}}, uint16 z = {{32768}}, float t = {{0.0004}}, float u = {{0.003}},
     int8[8,3,3,3] w = {{{weights}}}, int8 n = {{0}}> {{
    q = QuantizeLinear(x, s, z) d = DequantizeLinear(q, s, z) f = DequantizeLinear(w, u, n)
    c = Conv(d, f) p = QuantizeLinear(c, t, z) y = DequantizeLinear(p, t, z) }}"""
    result = onnx_passes.run(parse(text), {"extends": "streamline"})
    assert "fuse_qdq: false" in str([check.reason for check in result.report.final])
    engines = ["onnxruntime", {"onnxruntime": {"optimization": "all", "fuse_qdq": False}}]
    result = onnx_passes.run(parse(text), {"extends": "streamline", "engines": engines})
    assert result.raise_for_verdict(strict=True)
