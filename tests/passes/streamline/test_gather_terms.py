from onnx_passes import testing
from tests.tables import cases_in, qonnx

HEAD = """(float[2,N] x) => (float[2,N] y)
<float a = {3}, float b = {0.5}, float[2,1] c = {2, -1},
float[2,2] m = {1, 2, 3, 4}, float none = {0}, float g = {12582912}, float h = {-12582912},
float half = {65504}, float back = {-65504},
float[1] k = {0.5}, float w = {255}, float o = {-128}, float n = {128}, float few = {-8},
int64[4] p = {0, 0, 0, 0}> """


BITS = "q = o.MultiThreshold(x, k, w)"


def _framed(body):
    graph = HEAD + "{ " + body.replace("BITS", BITS) + " }"
    return testing.parse(qonnx(graph)) if "BITS" in body else graph


test_cases = cases_in(_framed)("""
t = Add(x, a) y = Mul(t, c) | >~ Mul Add
t = Add(x, a) y = Add(t, c) | >~ Add
t = Mul(x, a) y = Mul(t, c) | >~ Mul
t = Div(x, a) y = Mul(t, c) | >~ Mul
t = Add(x, c) y = Div(t, a) | >~ Mul Add
y = Sub(x, c) | >~ Add
y = Div(x, b) | >~ Mul
t = Div(x, a) u = Identity(t) y = MatMul(m, u) | >~ Mul Identity MatMul
y = Mul(c, x) | >~ Mul
t = Add(x, none) y = Exp(t) | >~ Exp
y = Neg(x) | >~ Mul
t = Exp(x) u = Sub(x, t) y = Neg(u) | >~ Exp Sub
t = Mul(x, a) u = Mul(x, b) y = Add(t, u) | >~ Mul
t = Mul(x, a) y = Add(t, x) | >~ Mul
t = Sub(x, a) u = Div(t, a) v = Mul(u, c) y = Add(v, b) | >~ Mul Add
y = Div(x, a)
the factor passes zeros: t = Add(x, a) u = Mul(t, c) y = Pad(u, p)
t = Div(x, a) u = MatMul(m, t) y = Add(u, t)
t = Mul(x, a) y = Add(t, b)
one factor would be 0: t = Mul(x, c) y = Add(x, t)
t = Div(x, a) z = Round(t) y = Mul(z, b)
t = Add(x, a) u = Mul(t, b) e = Equal(u, c) y = Where(e, x, a)
t = Add(x, a) u = Mul(t, b) v = Add(u, a) e = Equal(c, v) y = Where(e, x, a)
t = Add(x, b) u = Div(t, a) z = Round(u) y = Mul(z, b)
t = Add(x, b) u = Div(t, a) v = Add(u, b) z = Round(v) y = Mul(z, b)
the second term shows what the first has rounded: t = Add(x, g) y = Add(t, h)
terms of the largest float16 too: t = Add(x, half) y = Add(t, back)
a difference shows what a term has rounded: t = Add(x, g) y = Sub(t, g) | >~ Add Add
8 signed bits: BITS t = Add(q, o) y = Mul(t, b)
8 signed bits of a sum: BITS r = MatMul(m, q) t = Add(r, o) y = Mul(t, a)
8 signed bits beside a fraction: BITS t = Add(q, o) y = Add(t, b)
4 signed bits: BITS t = Add(q, few) y = Mul(t, a) | >~ MultiThreshold Mul Add
integers that cancel: BITS t = Add(q, o) u = Add(t, n) y = Exp(u) | >~ MultiThreshold Exp
""")
