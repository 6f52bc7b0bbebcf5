import numpy as np

from tests.tables import cases_in, each_row, kinds

HEAD = "(float[2,N] x) => (float[?,?] y)"
NUMBERS = """<float three = {3}, float zero = {0}, float six = {6}, float sixth = {0.16666667},
  float[1] half = {0.5}, float one = {1}, float slope = {0.2}>"""
SPECIAL = np.float32([[np.nan, np.inf, -np.inf, -0.0, 0, -3, 3, 2.9, 1e30], [0.1] * 9])


@each_row("""body
- a = Add(x, three) c = Clip(a, zero, six) y = Div(c, six)
- a = Add(three, x) c = Clip(a, zero, six) y = Mul(c, sixth)
- a = Add(three, x) c = Clip(a, zero, six) y = Mul(sixth, c)
- m = Mul(x, slope) a = Add(m, half) y = Clip(a, zero, one)
""")
def test_fires(body, rewrites):
    after = rewrites(graph(body), feeds=[{"x": SPECIAL}, {"x": 3 * SPECIAL}])
    assert kinds(after) == ["HardSigmoid"]


def graph(body):
    return f"{HEAD} {NUMBERS} {{ {body} }}"


OLD = '<ir_version: 7, opset_import: ["" : 9]> g '


test_cases = cases_in(graph)("""
scale: a = Add(x, three) c = Clip(a, zero, six) y = Div(c, three)
low: a = Add(x, three) c = Clip(a, one, six) y = Div(c, six)
no-low: a = Add(x, three) c = Clip(a, , six) y = Div(c, six)
no-high: a = Add(x, three) c = Clip(a, zero) y = Div(c, six)
read: a = Add(x, three) c = Clip(a, zero, six) d = Div(c, six) y = Add(c, d)
high: m = Mul(x, slope) a = Add(m, half) y = Clip(a, zero, six)
bounds-as-attributes: =OLD + graph('a = Add(x, three) c = Clip<min = 0.0, max = 6.0>(a) y =
  Div(c, six)')
type-without-a-kernel: =graph('a = Add(x, three) c = Clip(a, zero, six) y = Div(c,
  six)').replace('float', 'double')
""")
