import numpy as np
import onnx_ir as ir
import pytest

from onnx_passes.testing import parse
from onnx_passes.verify.snapshot import Change, Snapshot

TEXT = """<ir_version: 10, opset_import: ["" : 20]> main (float[2,N] x) => (float[2,N] y)
<float[2,1] w = {1, 2}> { t = Mul(x, w) y = Relu(t) }"""


@pytest.fixture
def model():
    return parse(TEXT)


def test_an_untouched_model_is_unchanged(model):
    assert Snapshot(model).change(model) is Change.NONE


def test_a_new_name_is_a_change_of_names_only(model):
    before = Snapshot(model)
    model.graph.node(0).outputs[0].name = "other"
    assert before.change(model) is Change.NAMES


def test_a_shape_noted_on_an_inner_value_is_an_annotation(model):
    before = Snapshot(model)
    model.graph.node(0).outputs[0].shape = ir.Shape([2, "N"])
    assert before.change(model) is Change.ANNOTATIONS


@pytest.mark.parametrize("weights", [[1.0, 2.0], [1.0, 3.0]], ids=["equal", "different"])
def test_weights_are_compared_by_content(model, weights):
    before = Snapshot(model)
    array = np.asarray(weights, np.float32).reshape(2, 1)
    model.graph.initializers["w"].const_value = ir.tensor(array, name="w")
    equal = weights == [1.0, 2.0]
    assert before.change(model) is (Change.NAMES if equal else Change.COMPUTATION)


def test_an_operator_changed_in_place_is_found(model):
    before = Snapshot(model)
    model.graph.node(1).op_type = "Neg"
    assert before.change(model) is Change.COMPUTATION


def test_restores_the_model_bit_for_bit(model):
    saved = ir.to_proto(model).SerializeToString(deterministic=True)
    before = Snapshot(model)
    model.graph.node(1).op_type = "Neg"
    restored = ir.to_proto(before.restore()).SerializeToString(deterministic=True)
    assert restored == saved


def test_weights_edited_in_place_raise_in_the_pass(model):
    array = np.ones((2, 1), np.float32)
    model.graph.initializers["w"].const_value = ir.tensor(array, name="w")
    Snapshot(model)
    with pytest.raises(ValueError, match="read-only"):
        model.graph.initializers["w"].const_value.numpy()[0] = 7
