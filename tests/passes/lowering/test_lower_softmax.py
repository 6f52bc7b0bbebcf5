import numpy as np

from onnx_passes.passes.lowering.lower_softmax import LowerSoftmax
from tests.passes.lowering.forms import elementwise
from tests.tables import each_of, inferred, pass_cases

test_lowers = elementwise(
    "Softmax(x)",
    13,
    "ReduceMax Sub Exp ReduceSum Div",
    types=("float", "float16", "double"),
    old=6,
)


@each_of("opset", 7, 11, 12, 13, 18, 21)
@each_of("axis", 0, 1, 2)
def test_old_opsets_flatten(opset, axis, lowers):
    lowers(f"""<ir_version: 8, opset_import: ["" : {opset}]> g
        (float[2,3,4] x) => (float[2,3,4] y) {{ y = Softmax<axis = {axis}>(x) }}""")


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
    model = inferred(text + " { y = Softmax<axis = -3>(x) }")
    assert LowerSoftmax()(model).modified
    (axes,) = {
        tuple(n.inputs[1].const_value.numpy()) for n in model.graph if "Reduce" in n.op_type
    }
    assert axes == (0,)


def test_long_rows_in_half_precision_are_summed_up_in_single_precision(lowers):
    feeds = [{"x": np.zeros((1, 5000), np.float16)}]
    text = "(float16[1,5000] x) => (float16[1,5000] y) { y = Softmax(x) }"
    assert lowers(text, feeds=feeds).count("Cast") == 2
