import pytest


@pytest.mark.parametrize("call", ["HardSwish(x)"])
def test_fires(call, lowers_elementwise):
    kinds = lowers_elementwise(call, 14)
    assert "HardSwish" not in kinds


def test_becomes_primitives(lowers):
    text = '<ir_version: 8, opset_import: ["" : 14]> g (float[2,N] x) => (float[2,N] y)'
    kinds = lowers(text + " { y = HardSwish(x) }")
    assert kinds == ["Add", "Min", "Max", "Div", "Mul"]


def test_leaves_functions_alone(leaves_functions_alone):
    leaves_functions_alone("HardSwish(x)", 20)
