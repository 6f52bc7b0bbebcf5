import onnx
import onnx_ir as ir

from onnx_passes.passes.cleanup.remove_initializers_from_inputs import (
    RemoveInitializersFromInputs,
)


def test_default_becomes_a_constant(rewrites):
    model = rewrites(
        RemoveInitializersFromInputs(),
        "(float[2] w, float[2] x) => (float[2] y) <float[2] w = {1, 2}> { y = Add(x, w) }",
        "(float[2] x) => (float[2] y) <float[2] w = {1, 2}> { y = Add(x, w) }",
    )
    assert list(model.graph.initializers) == ["w"]
    assert "inputs" in RemoveInitializersFromInputs.interface_changes


def test_ir_version_3_which_demands_initializers_to_be_inputs_is_raised():
    model = ir.from_onnx_text(
        """<ir_version: 3, opset_import: ["" : 8]>
        m (float[2] w, float[2] x) => (float[2] y) <float[2] w = {1, 2}> { y = Add(x, w) }"""
    )
    assert RemoveInitializersFromInputs()(model).modified
    assert model.ir_version == 4
    onnx.checker.check_model(ir.to_proto(model), full_check=True)


def test_leaves_alone(leaves_alone):
    leaves_alone(
        RemoveInitializersFromInputs(),
        "(float[2] x) => (float[2] y) <float[2] w = {1, 2}> { y = Add(x, w) }",
    )
