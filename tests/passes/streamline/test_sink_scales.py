from onnx_passes import testing
from onnx_passes.passes.annotation.shape_inference import infer_shapes
from onnx_passes.passes.streamline.sink_scales import SinkScales
from tests.tables import cases_in, each_of, each_row, inferred, qonnx

CONSTANTS = """float s = {0.5}, float t = {0.5}, float z = {0}, float[3] r = {1, 2, 3},
float f = {0.3}, float g = {1.2},
float[4,3] w = {1,2,3,4,5,6,7,8,9,10,11,12}, float[4] a = {1, -1, 2, 0.5}"""
DENSE = "(float[N,4] x, float[N,4] u) => (float[A,B] y) <" + CONSTANTS + "> "
IMAGE = """(float[2,2,5,5] x, float[2,2,5,5] u) => (float[A,B,C,D] y) <float s = {0.5},
float[3,2,1,1] w = {1,2,3,4,5,6}, float[3,1,1,1] c = {1, 2, -1}, float[3] b = {1, 2, 3}> """


def dense(body):
    return inferred(DENSE + "{ " + body + " }")


@each_row("""body
- m = Mul(x, d) y = MatMul(m, w)
- m = Mul(x, d) n = Mul(u, d) y = Add(m, n)
- m = Mul(x, s) n = Mul(u, f) y = Add(m, n)
""")
def test_a_factor_of_more_axes_stays(body):
    constants = CONSTANTS + ", float[1,1,1] d = {2}"
    text = "(float[N,4] x, float[N,4] u) => (float[A,B,C] y) <" + constants + "> { " + body
    assert not SinkScales()(inferred(text + " }")).modified


SPREAD = """(float[2,4,5,5] x) => (float[A,B,C,D] y) <float s = {0.5}, float t = {-2},
float[4,1,2,2] w = {1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16}, float[1,2,1,1] c = {1, 2},
float[4,2,3,3] v, float[2] b = {1, 2}, float[4,1,1] a = {1, -1, 2, 0}, int64[2] r = {2, 3},
float[2,2,1,1] k = {1, 2, 3, 4}, float[1,1,1,1] e = {3}> """

TAPS = ", ".join(str(number % 7 - 3) for number in range(72))


@each_of("body", "y = MatMul(m, w)", "y = ReduceSum<keepdims = 0>(m)")
def test_a_rank_that_is_not_known_is_left_alone(body):
    model = testing.parse(DENSE + f"{{ e = Exp(x) m = Mul(e, s) {body} }}")
    assert not SinkScales()(model).modified
    infer_shapes(model)
    assert SinkScales()(model).modified


def spread(body, a="1, -1, 2, 0"):
    graph = SPREAD.replace("v,", f"v = {{{TAPS}}},").replace("1, -1, 2, 0", a)
    return inferred(graph + "{ " + body + " }")


test_dense = cases_in(dense)("""
m = Mul(x, s) y = MatMul(m, w) | >~ MatMul Mul
m = Mul(w, r) y = MatMul(x, m) | >~ MatMul Mul
m = Add(x, a) y = MatMul(m, w) | >~ MatMul Add
m = Mul(x, s) n = Mul(u, t) y = Add(m, n) | >~ Add Mul
m = Mul(x, s) n = Mul(u, t) y = Sub(m, n) | >~ Sub Mul
m = Mul(x, f) n = Mul(u, g) y = Add(m, n) | >~ Mul Add Mul
m = Mul(x, g) n = Mul(u, f) y = Sub(m, n) | >~ Mul Sub Mul
m = Add(x, a) y = Add(m, u) | >~ Add Add
m = Add(x, a) y = Add(u, m) | >~ Add Add
m = Mul(x, s) y = Mul(m, u) | >~ Mul Mul
m = Mul(x, s) n = Mul(u, t) y = Mul(m, n) | >~ Mul Mul Mul
m = Mul(x, z) y = MatMul(m, w)
m = Mul(x, a) y = MatMul(m, w)
m = Mul(x, s) n = Mul(u, z) y = Add(m, n)
m = Mul(x, u) y = MatMul(m, w)
a term that gives a value more columns: =inferred('(float[4,1] x) => (float[4,2] y) <float[3]
  a = {1, 2, 3}, float[3,2] w = {1, 2, 3, 4, 5, 6}> { m = Add(x, a) y = MatMul(m, w) }')
""")
test_images = cases_in(lambda body: inferred(IMAGE + "{ " + body + " }"))("""
m = Mul(x, s) y = Conv(m, w) | >~ Conv Mul
m = Mul(x, s) y = Conv(m, w, b) | >~ Conv Mul Add
m = Mul(w, c) y = Conv(x, m) | >~ Conv Mul
m = Mul(w, c) y = Conv(x, m, b) | >~ Conv Mul Add
m = Mul(x, s) y = AveragePool<kernel_shape = [2, 2]>(m) | >~ AveragePool Mul
m = Mul(x, s) y = GlobalAveragePool(m) | >~ GlobalAveragePool Mul
""")
test_spread_images_and_sums = cases_in(spread)("""
m = Mul(x, s) y = ConvTranspose<group = 2>(m, w) | >~ ConvTranspose Mul
m = Mul(v, c) y = ConvTranspose<strides = [2, 2], pads = [1, 1, 1, 1]>(x, m, b) | >~
  ConvTranspose Mul Add
m = Mul(w, e) y = ConvTranspose<group = 4>(x, m) | >~ ConvTranspose Mul
m = Add(x, a) y = Conv<group = 2>(m, k, b) | >~ Conv Add
m = Add(x, t) y = Conv<group = 2>(m, k) | >~ Conv Add
m = Mul(x, s) y = ReduceMean<keepdims = 1>(m, r) | >~ ReduceMean Mul
m = Mul(x, t) y = ReduceSum<keepdims = 1>(m, r) | >~ ReduceSum Mul
m = Add(x, t) h = ReduceMean(m, r) y = Exp(h) | >~ ReduceMean Add Exp
m = Add(x, t) h = ReduceSum(m, r) y = Exp(h) | >~ ReduceSum Add Exp
m = Mul(x, a) y = Conv<group = 2>(m, k)
m = Add(x, t) y = Conv<group = 2, pads = [1, 0, 0, 0]>(m, k)
m = Add(x, t) y = Conv<group = 2, auto_pad = "SAME_UPPER">(m, k)
m = Add(x, t) y = ConvTranspose<group = 2>(m, w)
a term that may give an image more channels: =inferred('(float[N,C,3,3] x) =>
  (float[N,4,3,3] y) <float[2,1,1] a = {1, 2}, float[4,2,1,1] w = {1, 2, 3, 4, 5, 6, 7, 8}>
  { m = Add(x, a) y = Conv(m, w) }')
factors that may give one more: =inferred('(float[N,C,3,3] x) => (float[N,2,3,3] y)
  <float[2,1,1] a = {1, 2}, float[2,1,1,1] w = {1, 2}> { m = Mul(x, a) y = Conv<group = 2>(m,
  w) }')
m = Mul(x, a) y = ReduceSum<keepdims = 1>(m, r)
a factor for each channel of a group: =inferred('(float[1,4,3,3] x) => (float[1,B,C,D] y)
  <float[1,3,1,1] c = {1, 2, -3}, float[4,3,1,1] w = {1,2,3,4,5,6,7,8,9,10,11,12}> { m = Mul(w,
  c) y = ConvTranspose<group = 2>(x, m) }') | >~ ConvTranspose Mul
a factor for each channel of a depthwise convolution: =spread('m = Mul(x, a) y = Conv<group =
  4>(m, w)', '1, -1, 2, 4') | >~ Conv Mul
=spread('m = Mul(x, a) y = ConvTranspose<group = 4>(m, w)', '1, -1, 2, 4') | >~ ConvTranspose
  Mul
""")


BITS = """(float[3,4] x, float[3,4] u) => (float[A,B] y) <float[1] k = {0.5}, float m = {255},
float o = {-128}, float e = {-8}, int64[1] axes = {1},
float[4,2] w = {0.3, 1, -0.7, 2, 0.1, -1, 0.9, -3},
float[4,2] i = {1, 2, 3, -4, 5, 6, -7, 8}> { q = o.MultiThreshold(x, k, m) BODY }"""

test_a_term_that_cancels_most_of_an_integer_stays_beside_it = cases_in(
    lambda body: inferred(qonnx(BITS.replace("BODY", body)))
)("""
floats: t = Add(q, o) y = MatMul(t, w)
a sum that engines multiply a factor into: t = Add(q, o) y = MatMul(t, i)
a mean: t = Add(q, o) r = ReduceMean(t, axes) y = Exp(r)
beside a float: t = Add(q, o) y = Add(t, u)
integers on both sides: t = Add(q, o) v = o.MultiThreshold(u, k, m) y = Add(t, v)
  | >~ MultiThreshold MultiThreshold Add Add
4 bits: t = Add(q, e) y = MatMul(t, i) | >~ MultiThreshold MatMul Add
""")


@each_of("bias", "", ", b")
def test_a_term_that_cancels_most_of_an_integer_stays_in_front_of_a_conv(bias, leaves_alone):
    graph = """(float[1,2,3,3] x) => (float[A,B,C,D] y) <float[1] k = {0.5}, float m = {255},
    float o = {-128}, float[2,2,1,1] w = {1, 2, 3, -4}, float[2] b = {1, 2}>
    { q = o.MultiThreshold(x, k, m) t = Add(q, o) y = Conv(t, w BIAS) }"""
    leaves_alone(inferred(qonnx(graph.replace("BIAS", bias))))
