import pytest


@pytest.mark.parametrize("call", ["Sigmoid(x)"])
def test_fires(call, lowers_elementwise):
    kinds = lowers_elementwise(call, 13, types=("float", "float16", "double"))
    assert "Sigmoid" not in kinds


def test_becomes_primitives(lowers):
    text = '<ir_version: 8, opset_import: ["" : 13]> g (float[2,N] x) => (float[2,N] y)'
    kinds = lowers(text + " { y = Sigmoid(x) }")
    assert kinds == ["Neg", "Exp", "Add", "Div"]


def test_small_results_keep_their_digits_in_half_precision(lowers):
    text = '<ir_version: 8, opset_import: ["" : 13]> g (float16[4] x) => (float16[4] y)'
    kinds = lowers(text + " { y = Sigmoid(x) }")
    assert kinds == ["Cast", "Neg", "Exp", "Add", "Div", "Cast"]


def test_leaves_functions_alone(leaves_functions_alone):
    leaves_functions_alone("Sigmoid(x)", 20)


def test_leaves_old_opsets_alone(leaves_alone):
    text = '<ir_version: 7, opset_import: ["" : 6]> g (float[2] x) => (float[2] y)'
    leaves_alone(text + " { y = Sigmoid(x) }")
