import numpy as np

from tests.tables import cases_in, each_of, inferred


def model(body, *, opset=18, x="float[N,3,4,5] x", y="float[N,3,4,5] y", more=""):
    return inferred(f"""<ir_version: 8, opset_import: ["" : {opset}]> g ({x}) => ({y})
      <int64[3] t = {{0, 0, 20}}, int64[4] u = {{0, 0, 4, 5}}{more}>
      {{ {body} }}""")


KNOWN = "a = Reshape(x, t) b = Softmax<axis = 1>(a) y = Reshape(b, u)"
UNKNOWN = """f = Shape<start = 0, end = 2>(x) d = Shape<start = 2>(x)
    p = ReduceProd<keepdims = 1>(d) c = Concat<axis = 0>(f, p) a = Reshape<allowzero = 1>(x, c)
    b = Softmax<axis = 1>(a) s = Shape(x) y = Reshape<allowzero = 1>(b, s)"""


@each_of(
    "axis, after, dims",
    (1, KNOWN, "[N,3,4,5]"),
    (-3, KNOWN, "[N,3,4,5]"),
    (1, UNKNOWN, "[N,3,H,W]"),
)
def test_an_inner_axis(axis, after, dims, rewrites):
    values = {"x": f"float{dims} x", "y": f"float{dims} y"}
    rewrites(model(f"y = Softmax<axis = {axis}>(x)", **values), model(after, **values))


@each_of("after, dims", (KNOWN, "[N,3,4,5]"), (UNKNOWN, "[N,3,H,W]"))
def test_what_turns_out_to_be_empty(after, dims, rewrites):
    values = {"x": f"float{dims} x", "y": f"float{dims} y"}
    sizes = [(0, 3, 4, 5)] + [(2, 3, 4, 0), (2, 3, 0, 5), (0, 3, 0, 5)] * (after is UNKNOWN)
    feeds = [{"x": np.zeros(each, np.float32)} for each in sizes]
    before, after = (model(body, **values) for body in ("y = Softmax<axis = 1>(x)", after))
    rewrites(before, after, feeds=feeds)


QUANTISED = {
    "x": "uint8[N,6] q",
    "y": "uint8[N,6] y",
    "more": ", float f = {0.1}, uint8 z = {128}, float g = {0.004}, uint8 o = {0}",
}


BETWEEN = "x = DequantizeLinear(q, f, z) {} y = QuantizeLinear(b, g, o)"


test_cases = cases_in(model)("""
last: y = Softmax<axis = -1>(x)
last-but-one: y = Softmax<axis = 2>(x)
several-axes: =model('y = Softmax<axis = 1>(x)', opset=12)
sizes-that-no-shape-says: =model('y = Softmax<axis = 1>(x)', opset=14, x='float[N,3,H,5] x',
  y='float[N,3,H,5] y')
empty: =model('y = Softmax<axis = 1>(x)', x='float[N,3,0,5] x', y='float[N,3,0,5] y')
between-quantisers: =model(BETWEEN.format('b = Softmax(x)'), **QUANTISED)
  | =model(BETWEEN.format('a = Sum(x) b = Softmax(a)'), **QUANTISED)
not-quantised: =model('x = DequantizeLinear(q, f, z) y = Softmax(x)', **{**QUANTISED, 'y':
  'float[N,6] y'})
""")
