import pytest


@pytest.mark.parametrize("call", ["Swish(x)", "Swish<alpha = 1.7>(x)"])
def test_fires(call, lowers_elementwise):
    kinds = lowers_elementwise(call, 24)
    assert "Swish" not in kinds


def test_becomes_primitives(lowers):
    text = '<ir_version: 10, opset_import: ["" : 24]> g (float[2,N] x) => (float[2,N] y)'
    kinds = lowers(text + " { y = Swish(x) }")
    assert kinds == ["Sigmoid", "Mul"]


def test_leaves_functions_alone(leaves_functions_alone):
    leaves_functions_alone("Swish(x)", 24)
