import numpy as np
import onnx_ir as ir
import pytest

from onnx_passes.passes.lowering.lower_hard_sigmoid import LowerHardSigmoid


@pytest.mark.parametrize("call", ["HardSigmoid(x)", "HardSigmoid<alpha = 0.3, beta = 0.1>(x)"])
def test_fires(call, lowers_elementwise):
    kinds = lowers_elementwise(call, 8, types=("float",))
    assert "HardSigmoid" not in kinds


def test_becomes_primitives(lowers):
    text = '<ir_version: 8, opset_import: ["" : 8]> g (float[2,N] x) => (float[2,N] y)'
    kinds = lowers(text + " { y = HardSigmoid(x) }")
    assert kinds == ["Mul", "Add", "Min", "Max"]


def test_the_default_of_alpha_is_in_single_precision_on_doubles_too():
    model = ir.from_onnx_text(
        '<ir_version: 8, opset_import: ["" : 13]> g (double[2] x) => (double[2] y)'
        "{ y = HardSigmoid(x) }"
    )
    graph = LowerHardSigmoid()(model).model.graph
    constants = [node.attributes.get("value") for node in graph]
    numbers = [c.as_tensor().numpy().item() for c in constants if c is not None]
    assert float(np.float32(0.2)) in numbers


def test_leaves_functions_alone(leaves_functions_alone):
    leaves_functions_alone("HardSigmoid(x)", 20)


def test_leaves_old_opsets_alone(leaves_alone):
    text = '<ir_version: 7, opset_import: ["" : 7]> g (float[2] x) => (float[2] y)'
    leaves_alone(text + " { y = HardSigmoid(x) }")
