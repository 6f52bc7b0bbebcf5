import numpy as np

from onnx_passes.passes.constants import constant_of
from onnx_passes.testing import parse
from tests.tables import cases_in, each_of, each_row

FIXED = """<float[3,2] w = {1, 2, 3, 4, 5, 6}, float[2] b = {1, -1}, float s = {4},
  float[2] r = {2, 8}, float[2,1] c = {2, 8}, float[1] one = {1}, float zero = {0}>"""


def graph(body, dims="?,?,?"):
    return f"(float[5,2,3] x) => (float[{dims}] y) {FIXED} {{ {body} }}"


@each_row("""body | kinds | weights
1: t = MatMul(x, w) y = Mul(t, s) | =['MatMul'] | =[[4, 8], [12, 16], [20, 24]]
2: t = MatMul(x, w) y = Mul(s, t) | =['MatMul'] | =[[4, 8], [12, 16], [20, 24]]
3: t = MatMul(x, w) y = Div(t, r) | =['MatMul'] | =[[0.5, 0.25], [1.5, 0.5], [2.5, 0.75]]
4: t = MatMul(x, w) u = Add(b, t) y = Mul(u, s) | =['MatMul', 'Add'] | =[[4, 8], [12, 16], [20,
  24]]
5: t = MatMul(x, w) u = Add(t, b) y = Div(u, r) | =['MatMul', 'Add'] | =[[0.5, 0.25], [1.5,
  0.5], [2.5, 0.75]]
""")
def test_fires(body, kinds, weights, rewrites):
    after = rewrites(graph(body))
    nodes = [node for node in after.graph if node.op_type != "Constant"]
    assert [node.op_type for node in nodes] == kinds
    assert constant_of(nodes[0].inputs[1]).numpy().tolist() == weights


test_cases = cases_in(graph)("""
rows: t = MatMul(x, w) y = Mul(t, c)
by-zero: t = MatMul(x, w) y = Div(t, zero)
reciprocal: t = MatMul(x, w) y = Div(s, t)
read: t = MatMul(x, w) u = Mul(t, s) y = Add(t, u)
one-summand: t = MatMul(x, w) u = Add(t, one) y = Mul(u, r)
computed: v = Abs(w) t = MatMul(x, v) y = Mul(t, s)
""")


@each_of("name", "w", "s", "b")
def test_leaves_what_callers_may_override_alone(name, leaves_alone):
    made = parse(graph("t = MatMul(x, w) u = Add(t, b) y = Mul(u, s)"))
    made.graph.inputs.append(made.graph.initializers[name])
    leaves_alone(made)


def test_leaves_big_weights_that_are_shared_alone(leaves_alone):
    numbers = ", ".join(map(str, np.ones(2048)))
    text = f"""(float[2,32] x) => (float[?,?] y) <float[32,64] w = {{{numbers}}},
      float s = {{2}}> {{ t = MatMul(x, w) u = MatMul(x, w) v = Mul(u, s) y = Add(t, v) }}"""
    leaves_alone(text)
