import numpy as np
import onnx_ir as ir
import pytest

from onnx_passes.errors import ModelError
from onnx_passes.passes.analysis.model_checker import ModelChecker

HEADER = '<ir_version: 10, opset_import: ["" : 20]> m '


def test_accepts_a_valid_model_and_leaves_it_alone():
    model = ir.from_onnx_text(HEADER + "(float[2] x) => (float[2] y) { y = Exp(x) }")
    before = ir.to_onnx_text(model)
    assert not ModelChecker(full_check=True)(model).modified
    assert ir.to_onnx_text(model) == before


def test_says_what_is_wrong_and_where():
    model = ir.from_onnx_text(
        HEADER + "(float[2] x) => (float[2] y) { [bad] y = Exp<alpha = 1.0>(x) }"
    )
    with pytest.raises(ModelError, match="alpha") as caught:
        ModelChecker()(model)
    assert "bad" in str(caught.value)


def test_full_check_compares_the_declared_shapes():
    model = ir.from_onnx_text(HEADER + "(float[2] x) => (float[3] y) { y = Exp(x) }")
    ModelChecker()(model)
    with pytest.raises(ModelError):
        ModelChecker(full_check=True)(model)


def test_big_weights_are_checked_without_their_bytes():
    model = ir.from_onnx_text(HEADER + "(float[2000] x) => (float[2000] y) { y = Add(x, x) }")
    tensor = ir.Tensor(np.zeros(2000, np.float32), name="w")
    value = ir.Value(
        name="w", const_value=tensor, shape=ir.Shape([2000]), type=ir.TensorType(tensor.dtype)
    )
    model.graph.register_initializer(value)
    model.graph[0].replace_input_with(1, value)
    ModelChecker(full_check=True)(model)
    assert list(model.graph.initializers) == ["w"]
    assert [v.name for v in model.graph.inputs] == ["x"]
