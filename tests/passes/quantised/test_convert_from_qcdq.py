"""Pairs of the standard as quantisers of QONNX; the values are tested beside the way there."""

from tests.tables import cases_in, each_row, qonnx

HEAD = """(float[N,4] x) => (float[N,4] y) <float s = {0.5}, float r = {0.25}, int8 z = {0},
int8 o = {1}, int8 e = {-4}, uint8 u = {128}, int8 a = {-7}, int8 b = {7}, int8 c = {5},
float[4] t = {1, 2, 3, 4}, int8[4] v = {0, 0, 0, 0}> """


@each_row("""body | bits | signed | narrow
- q = QuantizeLinear(x, s, z) y = DequantizeLinear(q, s, z) | =8 | =1 | =0
- q = QuantizeLinear(x, s, e) y = DequantizeLinear(q, s, e) | =8 | =1 | =0
- q = QuantizeLinear(x, s, u) y = DequantizeLinear(q, s, u) | =8 | =0 | =0
- q = QuantizeLinear(x, t, v) y = DequantizeLinear(q, t, v) | =8 | =1 | =0
- q = QuantizeLinear(x, s, z) k = Clip(q, a, b) y = DequantizeLinear(k, s, z) | =4 | =1 | =1
""")
def test_fires(body, bits, signed, narrow, rewrites, text):
    model = rewrites(text(HEAD + "{ " + body + " }"))
    node = next(n for n in model.graph if n.op_type == "Quant")
    assert node.attributes.get_int("signed") == signed
    assert node.attributes.get_int("narrow") == narrow
    found = node.inputs[3].producer().attributes["value"].as_tensor().numpy()
    assert float(found) == bits


test_cases = cases_in(lambda body: qonnx(f"{HEAD}{{ {body} }}"))("""
q = QuantizeLinear(x, s, o) y = DequantizeLinear(q, s, o)
q = QuantizeLinear(x, s, z) y = DequantizeLinear(q, r, z)
q = QuantizeLinear(x, s, z) k = Clip(q, a, c) y = DequantizeLinear(k, s, z)
q = QuantizeLinear(x, s, z) d = DequantizeLinear(q, s, z) k = Cast<to = 1>(q) y = Add(d, k)
""")
