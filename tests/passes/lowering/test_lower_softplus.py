import pytest

from onnx_passes.passes.lowering.lower_softplus import LowerSoftplus


@pytest.mark.parametrize("call", ["Softplus(x)"])
def test_fires(call, lowers_elementwise):
    kinds = lowers_elementwise(LowerSoftplus(), call, 13)
    assert "Softplus" not in kinds


def test_becomes_primitives(lowers):
    text = '<ir_version: 8, opset_import: ["" : 13]> g (float[2,N] x) => (float[2,N] y)'
    kinds = lowers(LowerSoftplus(), text + " { y = Softplus(x) }")
    assert kinds == ["Abs", "Neg", "Exp", "Add", "Log", "Max", "Add"]


def test_leaves_functions_alone(leaves_functions_alone):
    leaves_functions_alone(LowerSoftplus(), "Softplus(x)", 20)


def test_leaves_old_opsets_alone(leaves_alone):
    text = '<ir_version: 7, opset_import: ["" : 7]> g (float[2] x) => (float[2] y)'
    leaves_alone(LowerSoftplus(), text + " { y = Softplus(x) }")
