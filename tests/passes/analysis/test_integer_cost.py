from onnx_passes.passes.analysis.integer_cost import IntegerCost, bits_of
from onnx_passes.testing import parse
from tests.tables import each_row

MODEL = """<ir_version: 10, opset_import: ["" : 20, "onnx_passes.ops" : 1]> main
(float[N,1,4,4] x) => (float[N,8] y) <float[3] t = {0, 1, 2}, float w = {1},
float[2,1,3,3] k = {1, -1, 1, 1, 1, -1, 1, 1, 1, 1, 1, 1, -1, 1, 1, 1, -1, 1},
float[1,8] m = {0.5, 1, 2, 3, 4, 5, 6, 7}>
{ a = onnx_passes.ops.MultiThreshold(x, t, w) c = Conv(a, k) r = Reshape(c, s)
  p = MatMul(r, m) y = Relu(p) }"""


def model():
    text = MODEL.replace("float w =", "int64[2] s = {-1, 1}, float w =")
    return parse(text.replace("float[N,8] y", "float[M,8] y"))


def test_products_are_counted_by_datatypes():
    found = IntegerCost(dims={"N": 2}).analyse(model())
    # A Conv of 2 * 2 * 2 * 2 results and 9 products each; a MatMul of 16 rows and depth 1.
    assert found.macs == {("UINT2", "BIPOLAR"): 144, ("INT6", "FLOAT32"): 128}
    assert found.bops == 144 * 2 * 1 + 128 * 6 * 32
    assert found.weight_bits == 18 * 1 + 8 * 32
    assert found.activations["UINT2"] == 32
    assert not found.unknown


def test_products_without_sizes_are_named():
    found = IntegerCost().analyse(model())
    assert len(found.unknown) == 2
    assert not found.macs


@each_row("""name | bits
- INT7 | =7
- UINT3 | =3
- BIPOLAR | =1
- TERNARY | =2
- SCALEDINT<9> | =9
- FLOAT32 | =32
- FLOAT16 | =16
- FIXED<8,4> | =8
- FLOAT<4,3> | =8
- FLOAT<5,2,15> | =8
""")
def test_widths(name, bits):
    assert bits_of(name) == bits


QUANTISED = """<ir_version: 10, opset_import: ["" : 20, "qonnx.custom_op.general" : 1]> main
(float[2,1,4] x) => (float[2,1,3] y) <float s = {0.5}, float one = {1}, float z = {0},
float four = {4}, float two = {2}, float t = {0.25}, int8 zero = {0}, int8 low = {-3},
int8 high = {3}, float[3,4] w = {1,2,3,4,5,6,7,8,9,10,11,12}>
{ FACTORS r = Relu(q) v = Transpose<perm = [1, 0]>(u) y = MatMul(r, v) }"""
DATA = "q = qonnx.custom_op.general.Quant<signed = 0, narrow = 0>(x, s, z, four)"


@each_row("""weights | found | bits
- u = qonnx.custom_op.general.Quant(w, s, z, two) | SCALEDINT<2> | =24
- u = qonnx.custom_op.general.Quant(w, one, z, four) | INT4 | =48
- u = qonnx.custom_op.general.BipolarQuant(w, one) | BIPOLAR | =12
- u = qonnx.custom_op.general.BipolarQuant(w, s) | SCALEDINT<1> | =12
- a = QuantizeLinear(w, t, zero) b = Clip(a, low, high) u = DequantizeLinear(b, t, zero) |
  SCALEDINT<3> | =36
""")
def test_quantisers_tell_datatypes_of_what_is_not_streamlined(weights, found, bits):
    cost = IntegerCost().analyse(parse(QUANTISED.replace("FACTORS", f"{DATA} {weights}")))
    assert cost.macs == {("SCALEDINT<4>", found): 24}
    assert cost.weight_bits == bits
    assert cost.activations == {"SCALEDINT<4>": 8, "FLOAT32": 6}
