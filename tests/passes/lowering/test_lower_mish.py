import pytest


@pytest.mark.parametrize("call", ["Mish(x)"])
def test_fires(call, lowers_elementwise):
    kinds = lowers_elementwise(call, 18)
    assert "Mish" not in kinds


def test_becomes_primitives(lowers):
    text = '<ir_version: 8, opset_import: ["" : 18]> g (float[2,N] x) => (float[2,N] y)'
    kinds = lowers(text + " { y = Mish(x) }")
    assert kinds == [
        *("Abs", "Neg", "Exp", "Add", "Sub", "Log", "Div", "Mul", "Equal", "Where", "Max"),
        *("Add", "Tanh", "Mul"),
    ]


def test_leaves_functions_alone(leaves_functions_alone):
    leaves_functions_alone("Mish(x)", 20)
