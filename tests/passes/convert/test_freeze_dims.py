import onnx_ir as ir
import pytest

from onnx_passes.errors import OptionError, PassError
from onnx_passes.passes.convert.freeze_dims import FreezeDims
from tests.tables import each_of

HEADER = '<ir_version: 10, opset_import: ["" : 20]> m '
MODEL = """(float[batch, 3] x) => (float[batch, 3] y) <float[batch, 3] t>
{ t = Exp(x) y = Neg(t) }"""


def test_freezes_inputs_outputs_and_inner_values():
    model = ir.from_onnx_text(HEADER + MODEL)
    assert FreezeDims(dims={"batch": 2})(model).modified
    values = (*model.graph.inputs, *model.graph.outputs, *model.graph[0].outputs)
    assert [list(value.shape) for value in values] == [[2, 3]] * 3
    assert "dims" in FreezeDims.interface_changes


@each_of(
    "dims, told",
    ({"bach": 1}, "did you mean 'batch'"),
    ({"sequence": 1}, "its dimensions are: batch"),
    ({"batch": -1}, "cannot have size -1"),
)
def test_what_does_not_fit_the_inputs_is_told(dims, told):
    with pytest.raises(PassError, match=told):
        FreezeDims(dims=dims)(ir.from_onnx_text(HEADER + MODEL))


def test_a_dimension_without_a_name_is_that_of_an_input_and_an_axis():
    text = "(float[?, 3, ?] x, float[?] z) => (float[?, 3, ?] y) { y = Neg(x) }"
    model = ir.from_onnx_text(HEADER + text)
    assert FreezeDims(dims={"x[0]": 2, "x[2]": 5})(model).modified
    x, z = model.graph.inputs
    assert list(x.shape) == [2, 3, 5]
    assert not isinstance(z.shape[0], int)
    with pytest.raises(PassError, match=r"did you mean 'z\[0\]'"):
        FreezeDims(dims={"x[0]": 2})(model)


def test_sizes_are_checked():
    with pytest.raises(OptionError):
        FreezeDims(dims={"batch": "one"})


def test_leaves_alone(leaves_alone):
    leaves_alone(MODEL)
