"""Activations that fall before they rise become thresholds, held against what they were."""

import numpy as np

from onnx_passes.passes.quantised.infer_thresholds import InferThresholds
from onnx_passes.runtime.ort import OnnxRuntimeEngine
from tests.tables import each_of, each_row, inferred, outputs_of

ACTIVATIONS = {
    "gelu": "t = Gelu(u)",
    "gelu by tanh": 't = Gelu<approximate = "tanh">(u)',
    "gelu as a formula": """d = Div(u, r) e = Erf(d) f = Add(e, one) g = Mul(u, f)
    t = Mul(g, h)""",
    "gelu, half first": "d = Mul(u, k) e = Erf(d) f = Add(one, e) g = Mul(h, u) t = Mul(g, f)",
    "silu": "s = Sigmoid(u) t = Mul(u, s)",
    "swish": "d = Mul(u, r) s = Sigmoid(d) t = Mul(s, u)",
    "hard swish": "t = HardSwish(u)",
    "hard swish as a formula": "s = HardSigmoid<alpha = 0.25, beta = 0.5>(u) t = Mul(u, s)",
    "mish": "t = Mish(u)",
    "mish as a formula": "p = Softplus(u) s = Tanh(p) t = Mul(u, s)",
}
"""From u to t; r is the root of 2 and k its inverse."""

GRAPH = """(float[N,3] x) => (float[N,3] y) <float r = {{1.4142135}}, float k = {{0.70710677}},
float h = {{0.5}}, float one = {{1}}, float[3] c = {{1, -0.5, 3}}, float[3] b = {{0, 1, -2}},
float q = {{{scale}}}, float z = {{{zero}}}, float w = {{{bits}}}>
{{ m = Mul(x, c) u = Add(m, b) {body} y = q.Quant<signed = 1, narrow = 0>(t, q, z, w) }}"""


def results(model, values):
    feeds = {"x": np.ascontiguousarray(np.broadcast_to(values[:, None], (len(values), 3)))}
    return outputs_of(OnnxRuntimeEngine(prepacking=False), model, feeds)["y"]


def kinds(model):
    return {node.op_type for node in model.graph} - {"Constant"}


def is_taken_in(graph, most=3):
    """Whether thresholds do the same, but for ``most`` numbers that kernels waver at."""
    model = inferred(graph)
    before = model.clone()
    if not InferThresholds()(model).modified:
        return False
    assert kinds(model) <= {"MultiThreshold", "Add", "Mul"}
    draw = np.random.default_rng(0)
    values = np.concatenate(
        [
            np.linspace(-12, 12, 20_001),
            draw.normal(0, 3, 20_000),
            draw.normal(0, 1e6, 100),
            [0, -0.0, 1e38, -1e38],
        ]
    ).astype(np.float32)
    old, new = results(before, values), results(model, values)
    assert (old != new).sum() <= most, f"{(old != new).sum()} of {old.size} differ"
    return True


@each_of("body", *ACTIVATIONS.values(), ids=ACTIVATIONS)
@each_of("scale, bits", (0.31, 4), (0.043, 4), (0.011, 6), (0.07, 8))
def test_taken_into_thresholds(body, scale, bits, text):
    assert is_taken_in(text(GRAPH.format(body=body, scale=scale, zero=0, bits=bits)))


def test_a_zero_point_that_is_odd(text):
    body = ACTIVATIONS["silu"]
    assert is_taken_in(text(GRAPH.format(body=body, scale=0.1, zero=3, bits=5)))


@each_row("""body
- s = Sigmoid(x) t = Mul(u, s)
- n = Neg(u) s = Sigmoid(n) t = Mul(u, s)
- s = Sigmoid(u) v = Mul(u, u) t = Mul(v, s)
- e = Erf(u) f = Add(e, r) t = Mul(u, f)
- s = Sigmoid(u) f = Mul(u, s) g = Sigmoid(f) t = Mul(f, g)
""")
def test_other_products_stay(body, text):
    model = inferred(text(GRAPH.format(body=body, scale=0.1, zero=0, bits=4)))
    InferThresholds()(model)
    assert kinds(model) & {"Sigmoid", "Erf"}


@each_of("factor", 1.7, -1.7)
@each_row("""activation
- t = HardSwish(u)
- g = Sigmoid(u) t = Mul(u, g)
- a = Abs(u) o = Add(a, one) t = Div(u, o)
""")
def test_no_level_is_taken_from_a_quantiser_that_makes_a_number_of_nan(activation, factor):
    model = f"""(float[N,3] x) => (float[N,3] y)
    <float c = {{{factor}}}, float s = {{0.0101}}, uint8 z = {{37}}, float one = {{1}}>
    {{ u = Mul(x, c) {activation} q = QuantizeLinear(t, s, z)
    y = DequantizeLinear(q, s, z) }}"""
    assert is_taken_in(model)


@each_of("factor", 0.7, -0.7)
def test_thresholds_of_both_signs_take_in_a_factor(factor, text):
    graph = f"""(float[N,3] x) => (float[N,3] y)
    <float c = {{{factor}}}, float[3] b = {{0, 1, -2}},
    float[3,5] t = {{-3, -1, 0, 0.5, 2, -2, -1, -1, 0, 7, 1, 2, 3, 4, 5}},
    float[5] w = {{-1, -1, 1, 2, -3}}>
    {{ m = Mul(x, c) u = Add(m, b) y = o.MultiThreshold(u, t, w) }}"""
    assert is_taken_in(text(graph), most=0)
