import pytest

from onnx_passes.passes.lowering.lower_leaky_relu import LowerLeakyRelu


@pytest.mark.parametrize("call", ["LeakyRelu(x)", "LeakyRelu<alpha = -2.0>(x)"])
def test_fires(call, lowers_elementwise):
    kinds = lowers_elementwise(LowerLeakyRelu(), call, 9, types=("float",))
    assert "LeakyRelu" not in kinds


def test_becomes_primitives(lowers):
    text = '<ir_version: 8, opset_import: ["" : 9]> g (float[2,N] x) => (float[2,N] y)'
    kinds = lowers(LowerLeakyRelu(), text + " { y = LeakyRelu(x) }")
    assert kinds == ["Less", "Mul", "Where"]


def test_leaves_functions_alone(leaves_functions_alone):
    leaves_functions_alone(LowerLeakyRelu(), "LeakyRelu(x)", 20)


def test_leaves_old_opsets_alone(leaves_alone):
    text = '<ir_version: 7, opset_import: ["" : 8]> g (float[2] x) => (float[2] y)'
    leaves_alone(LowerLeakyRelu(), text + " { y = LeakyRelu(x) }")
