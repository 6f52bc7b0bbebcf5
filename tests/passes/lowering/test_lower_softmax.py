import numpy as np
import pytest

from onnx_passes import testing
from onnx_passes.passes.annotation.shape_inference import infer_shapes
from onnx_passes.passes.lowering.lower_softmax import LowerSoftmax
from tests.tables import pass_cases


@pytest.mark.parametrize("call", ["Softmax(x)"])
def test_fires(call, lowers_elementwise):
    kinds = lowers_elementwise(call, 13, types=("float", "float16", "double"))
    assert "Softmax" not in kinds


def test_becomes_primitives(lowers):
    text = '<ir_version: 8, opset_import: ["" : 13]> g (float[2,N] x) => (float[2,N] y)'
    kinds = lowers(text + " { y = Softmax(x) }")
    assert kinds == ["ReduceMax", "Sub", "Exp", "ReduceSum", "Div"]


def test_leaves_functions_alone(leaves_functions_alone):
    leaves_functions_alone("Softmax(x)", 20)


def test_leaves_old_opsets_alone(leaves_alone):
    text = '<ir_version: 7, opset_import: ["" : 6]> g (float[2] x) => (float[2] y)'
    leaves_alone(text + " { y = Softmax(x) }")


@pytest.mark.parametrize("opset", [7, 11, 12, 13, 18, 21])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_old_opsets_flatten(opset, axis, lowers):
    lowers(
        f"""<ir_version: 8, opset_import: ["" : {opset}]> g
        (float[2,3,4] x) => (float[2,3,4] y) {{ y = Softmax<axis = {axis}>(x) }}""",
    )


test_cases = pass_cases("""
leaves alone what is over no axis: <ir_version: 8, opset_import: ["" : 11]> g (float[2] x) =>
  (float[2] y) { y = Softmax<axis = 1>(x) }
""")


def test_an_empty_axis_gives_nothing(lowers):
    feeds = [{"x": np.zeros((2, 0), np.float32)}]
    lowers("(float[2,N] x) => (float[2,N] y) { y = Softmax(x) }", feeds=feeds)


def test_an_axis_from_the_end_of_an_empty_tensor_is_reduced(lowers):
    """ONNX Runtime keeps the size of such an axis where it is counted from the end."""
    text = '<ir_version: 9, opset_import: ["" : 18]> g (float[3,2,N] x) => (float[3,2,N] y)'
    model = testing.parse(text + " { y = Softmax<axis = -3>(x) }")
    infer_shapes(model)
    assert LowerSoftmax()(model).modified
    (axes,) = {
        tuple(n.inputs[1].const_value.numpy()) for n in model.graph if "Reduce" in n.op_type
    }
    assert axes == (0,)


def test_long_rows_in_half_precision_are_summed_up_in_single_precision(lowers):
    feeds = [{"x": np.zeros((1, 5000), np.float16)}]
    text = "(float16[1,5000] x) => (float16[1,5000] y) { y = Softmax(x) }"
    assert lowers(text, feeds=feeds).count("Cast") == 2
