import numpy as np

from tests.passes.lowering.forms import elementwise

test_lowers = elementwise(
    "LeakyRelu(x)", 9, "Less Where Mul", "LeakyRelu<alpha = -2.0>(x)", types=("float",), old=8
)


def test_keeps_the_sign_of_zero_with_an_alpha_of_0(lowers):
    # ONNX Runtime's Where turns -0 into 0, and 1 / 0 is not 1 / -0.
    text = """<ir_version: 8, opset_import: ["" : 13]> g (float[N] x) => (float[N] y) {
        t = LeakyRelu<alpha = 0.0>(x) y = Reciprocal(t) }"""
    feeds = [{"x": np.array([-1, -0.0, 0, 2, np.nan, np.inf, -np.inf], np.float32)}]
    assert "LeakyRelu" not in lowers(text, feeds=feeds)
