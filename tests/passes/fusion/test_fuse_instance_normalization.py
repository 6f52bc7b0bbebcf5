from onnx_passes.passes.fusion.fuse_all import FuseAll
from tests.tables import kinds, pass_cases

HEAD = "(float[N,3,H,W] x) => (float[N,3,H,W] y)"
CONSTANTS = """float[3,1,1] w = {1, 2, 3}, float[1,3,1,1] b = {4, 5, 6}, float e = {0.001},
  float two = {2}, float one = {1}, int64[2] a = {2, 3}, int64[1] last = {3},
  float[3] row = {1, 2, 3}"""
MEAN = "m = ReduceMean(x, a) d = Sub(x, m) "
SQUARE = "q = Mul(d, d) v = ReduceMean(q, a) s = Add(v, e) r = Sqrt(s) "
AFTER = f"""{HEAD} <float[3] w = {{1, 2, 3}}, float[3] b = {{4, 5, 6}}> {{
  y = InstanceNormalization<epsilon = 0.001>(x, w, b) }}"""


def graph(body, head=HEAD):
    return f"{head} <{CONSTANTS}> {{ {body} }}"


test_cases = pass_cases("""
quotient: =graph(MEAN + SQUARE + 'n = Div(d, r) z = Mul(n, w) y = Add(z, b)') | =AFTER
product-swapped: =graph(MEAN + SQUARE + 'i = Reciprocal(r) n = Mul(d, i) z = Mul(w, n) y =
  Add(b, z)') | =AFTER
power: (float[N,3,H,W] x) => (float[N,3,H,W] y) <float[3,1,1] w = {1, 2, 3}, float[1,3,1,1] b =
  {4, 5, 6}, float e = {0.001}, float two = {2}, float one = {1}, int64[2] a = {2, 3}, int64[1]
  last = {3}, float[3] row = {1, 2, 3}> { m = ReduceMean(x, a) d = Sub(x, m) q = Pow(d, two) v
  = ReduceMean(q, a) s = Add(v, e) r = Sqrt(s) i = Div(one, r) n = Mul(i, d) z = Mul(n, w) y =
  Add(z, b) } | =AFTER
axes: =graph((MEAN + SQUARE).replace('(x, a)', '(x, last)') + 'n = Div(d, r) z = Mul(n, w) y =
  Add(z, b)')
no-bias: =graph(MEAN + SQUARE + 'n = Div(d, r) y = Mul(n, w)')
scale-by-number: =graph(MEAN + SQUARE + 'n = Div(d, r) z = Mul(n, e) y = Add(z, b)')
read: =graph(MEAN + SQUARE + 'n = Div(d, r) z = Mul(n, w) u = Add(z, b) y = Mul(u, r)')
a scale along the last axis is no channel: =graph(MEAN + SQUARE + 'n = Div(d, r) z = Mul(n,
  row) y = Add(z, b)', HEAD.replace('3,H,W', '3,H,3'))
""")


def test_comes_before_layer_normalization_which_knows_fixed_sizes_too(rewrites):
    body = MEAN + SQUARE + "n = Div(d, r) z = Mul(n, w) y = Add(z, b)"
    model = rewrites(FuseAll(), graph(body, HEAD.replace("H,W", "4,5")))
    assert kinds(model) == ["InstanceNormalization"]
