import pytest


@pytest.mark.parametrize("call", ["Gelu(x)", 'Gelu<approximate = "tanh">(x)'])
def test_fires(call, lowers_elementwise):
    kinds = lowers_elementwise(call, 20)
    assert "Gelu" not in kinds


def test_becomes_primitives(lowers):
    text = '<ir_version: 8, opset_import: ["" : 20]> g (float[2,N] x) => (float[2,N] y)'
    kinds = lowers(text + " { y = Gelu(x) }")
    assert kinds == ["Div", "Erf", "Add", "Mul", "Mul"]


def test_leaves_functions_alone(leaves_functions_alone):
    leaves_functions_alone("Gelu(x)", 20)
