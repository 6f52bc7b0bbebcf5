import numpy as np
import pytest


@pytest.mark.parametrize("call", ["LeakyRelu(x)", "LeakyRelu<alpha = -2.0>(x)"])
def test_fires(call, lowers_elementwise):
    kinds = lowers_elementwise(call, 9, types=("float",))
    assert "LeakyRelu" not in kinds


def test_becomes_primitives(lowers):
    text = '<ir_version: 8, opset_import: ["" : 9]> g (float[2,N] x) => (float[2,N] y)'
    kinds = lowers(text + " { y = LeakyRelu(x) }")
    assert kinds == ["Less", "Where", "Mul"]


def test_leaves_functions_alone(leaves_functions_alone):
    leaves_functions_alone("LeakyRelu(x)", 20)


def test_leaves_old_opsets_alone(leaves_alone):
    text = '<ir_version: 7, opset_import: ["" : 8]> g (float[2] x) => (float[2] y)'
    leaves_alone(text + " { y = LeakyRelu(x) }")


def test_keeps_the_sign_of_zero_with_an_alpha_of_0(lowers):
    # ONNX Runtime's Where turns -0 into 0, and 1 / 0 is not 1 / -0.
    text = """<ir_version: 8, opset_import: ["" : 13]> g (float[N] x) => (float[N] y) {
        t = LeakyRelu<alpha = 0.0>(x) y = Reciprocal(t) }"""
    feeds = [{"x": np.array([-1, -0.0, 0, 2, np.nan, np.inf, -np.inf], np.float32)}]
    assert "LeakyRelu" not in lowers(text, feeds=feeds)
