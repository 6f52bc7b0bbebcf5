import numpy as np
import onnx_ir as ir

from onnx_passes import testing
from onnx_passes.passes.annotation.shape_inference import infer_shapes
from onnx_passes.passes.quantised.convert_from_quant_avg_pool import ConvertFromQuantAvgPool
from onnx_passes.passes.quantised.convert_to_quant_avg_pool import ConvertToQuantAvgPool
from tests.tables import each_of, inferred

HEAD = """<ir_version: 10, opset_import: ["" : 20, "qonnx.custom_op.general" : VERSION]> main
(float[2,3,6,6] x) => (float[A,B,C,D] y)
<float s = {0.1}, float z = {0}, float one = {1}, float b = {4}, float i = {8}, float o = {4},
float n = {9}, float m = {4}, float p = {0.025}, float t = {0.4}, float j = {7},
float c = {36}, float l = {10}, float h = {3.5}, float[1,1,1,1,1] wide = {0}> """
LARGE = "a = AveragePool<kernel_shape = [3, 3], strides = [3, 3]>(q)"
OTHER = LARGE.replace("(q)", "(x)")
SMALL = "a = AveragePool<kernel_shape = [2, 2], strides = [2, 2]>(q)"
WHOLE = "a = GlobalAveragePool(q)"
UNSIGNED = "q = Q.Quant<signed = 0, narrow = 0>(x, s, z, b)"
SIGNED = "q = Q.Quant(x, s, z, b)"


def converted(body, version=1, pass_=None):
    text = (HEAD + "{ " + body + " y = Relu(r) }").replace("VERSION", str(version))
    model = inferred(text.replace("Q.", "qonnx.custom_op.general."))
    pass_, before = pass_ or ConvertToQuantAvgPool(), testing.Snapshot(model)
    if not pass_(model).modified:
        return None
    testing.assert_verified(pass_, before, model)
    return model


def pool(model):
    (node,) = (n for n in model.graph if n.op_type == "QuantAvgPool2d")
    return {a.name: a.value for a in node.attributes.values()}


@each_of(
    "body, version, kernel, ibits, signed",
    (f"{UNSIGNED} {LARGE} v = Mul(a, n) r = Q.Trunc(v, s, z, i, o)", 1, 3, 4, 0),
    (f"{SIGNED} {SMALL} v = Mul(a, m) r = Q.Trunc(v, s, z, i, o)", 1, 2, 6, 1),
    (f"{UNSIGNED} {SMALL} r = Q.Trunc<signed = 0>(a, p, z, i, t, o)", 2, 2, 6, 0),
    (f"{SIGNED} {WHOLE} v = Mul(a, c) r = Q.Trunc(v, s, z, l, o)", 1, 6, 4, 1),
)
def test_fires(body, version, kernel, ibits, signed):
    found = pool(converted(body, version))
    assert (found["kernel"], found["ibits"], found["signed"]) == (kernel, ibits, signed)
    assert found["obits"] == 4


@each_of(
    "body",
    # Sums of 3 by 3 have 6 bits (7 * 9) or 8 (15 * 9), never 7.
    f"{UNSIGNED} {LARGE} v = Mul(a, n) r = Q.Trunc(v, s, z, j, o)",
    f"{UNSIGNED} {LARGE} v = Mul(a, m) r = Q.Trunc(v, s, z, i, o)",
    # A zero point with more axes widens the result.
    f"{UNSIGNED} {LARGE} v = Mul(a, n) r = Q.Trunc(v, s, wide, i, o)",
    f"{UNSIGNED} {LARGE} v = Mul(a, n) r = Q.Trunc(v, t, z, i, o)",
    f"{UNSIGNED} {LARGE} v = Mul(a, n) r = Q.Trunc(v, s, z, i, h)",  # no whole bits
    f"{UNSIGNED} {LARGE} v = Mul(a, n) r = Q.Trunc(v, s, one, i, o)",
    f'{UNSIGNED} {LARGE} v = Mul(a, n)r = Q.Trunc<rounding_mode = "CEIL">(v, s, z, i, o)',
    f"{LARGE.replace('q', 'x')} v = Mul(a, n) r = Q.Trunc(v, s, z, i, o)",
)
def test_leaves_alone(body):
    assert converted(body) is None


def test_and_back():
    model = converted(f"{UNSIGNED} {LARGE} v = Mul(a, n) r = Q.Trunc(v, s, z, i, o)")
    infer_shapes(model)
    before = testing.Snapshot(model)
    assert ConvertFromQuantAvgPool()(model).modified
    testing.assert_verified(ConvertFromQuantAvgPool(), before, model)
    kinds = [node.op_type for node in model.graph if node.op_type != "Constant"]
    assert kinds == ["Quant", "Div", "AveragePool", "Mul", "Trunc", "Mul", "Relu"]
    (trunc,) = (node for node in model.graph if node.op_type == "Trunc")
    bits = [ir.convenience.get_const_tensor(v).numpy() for v in trunc.inputs[3:]]
    assert np.array_equal(bits, [8, 4])
