import onnx_ir as ir
import pytest

from onnx_passes.errors import OptionError, PassError
from onnx_passes.passes.convert.freeze_dims import FreezeDims

MODEL = """(float[batch, 3] x) => (float[batch, 3] y) <float[batch, 3] t>
{ t = Exp(x) y = Neg(t) }"""


def test_freezes_inputs_outputs_and_inner_values():
    model = ir.from_onnx_text('<ir_version: 10, opset_import: ["" : 20]> m ' + MODEL)
    assert FreezeDims(dims={"batch": 2})(model).modified
    values = (*model.graph.inputs, *model.graph.outputs, *model.graph[0].outputs)
    assert [list(value.shape) for value in values] == [[2, 3]] * 3
    assert "dims" in FreezeDims.interface_changes


def test_a_name_that_no_input_has_is_an_error_with_the_known_ones():
    model = ir.from_onnx_text('<ir_version: 10, opset_import: ["" : 20]> m ' + MODEL)
    with pytest.raises(PassError, match="did you mean 'batch'"):
        FreezeDims(dims={"bach": 1})(model)
    with pytest.raises(PassError, match="its dimensions are: batch"):
        FreezeDims(dims={"sequence": 1})(model)


def test_a_dimension_without_a_name_is_that_of_an_input_and_an_axis():
    text = "(float[?, 3, ?] x, float[?] z) => (float[?, 3, ?] y) { y = Neg(x) }"
    model = ir.from_onnx_text('<ir_version: 10, opset_import: ["" : 20]> m ' + text)
    assert FreezeDims(dims={"x[0]": 2, "x[2]": 5})(model).modified
    x, z = model.graph.inputs
    assert list(x.shape) == [2, 3, 5]
    assert not isinstance(z.shape[0], int)
    with pytest.raises(PassError, match=r"did you mean 'z\[0\]'"):
        FreezeDims(dims={"x[0]": 2})(model)


def test_sizes_are_checked():
    model = ir.from_onnx_text('<ir_version: 10, opset_import: ["" : 20]> m ' + MODEL)
    with pytest.raises(PassError, match="cannot have size -1"):
        FreezeDims(dims={"batch": -1})(model)
    with pytest.raises(OptionError):
        FreezeDims(dims={"batch": "one"})


def test_leaves_alone(leaves_alone):
    leaves_alone(MODEL)
