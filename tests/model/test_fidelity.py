import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from onnx_passes.model.fidelity import lost, split


@pytest.fixture
def other(proto):
    copy = onnx.ModelProto()
    copy.CopyFrom(proto)
    return copy


def test_nothing_is_lost_between_equals_however_stored(proto, other):
    node = other.graph.node[0]
    node.domain = ""
    array = numpy_helper.to_array(proto.graph.initializer[0])
    other.graph.initializer[0].CopyFrom(numpy_helper.from_array(array, "w"))
    other.graph.value_info.append(helper.make_tensor_value_info("z", 1, [1]))
    proto.opset_import.append(helper.make_opsetid("my", 1))
    other.opset_import.insert(0, helper.make_opsetid("my", 1))
    assert list(lost(proto, other)) == []


def test_a_type_that_an_output_declares_too_is_not_lost(proto, other):
    (again,) = proto.graph.output
    proto.graph.value_info.append(again)
    assert list(lost(proto, other)) == []
    proto.graph.value_info[-1].type.tensor_type.elem_type = 7
    assert list(lost(proto, other)) == [
        f"graph.value_info[{again.name}].type.tensor_type.elem_type"
    ]


@pytest.mark.parametrize(
    ("change", "path"),
    [
        (lambda m: m.graph.node[0].__setattr__("op_type", "Sub"), "graph.node[0].op_type"),
        (lambda m: m.graph.node.__delitem__(1), "graph.node (2 entries became 1)"),
        (lambda m: m.graph.node[0].input.__setitem__(1, "q"), "graph.node[0].input[1]"),
        (lambda m: m.graph.initializer[0].__setattr__("doc_string", "d"), "doc_string"),
        (lambda m: m.graph.initializer[0].dims.__setitem__(0, 5), "graph.initializer[w].data"),
        (lambda m: m.graph.initializer[0].float_data.__setitem__(0, -1), "[w].data"),
        (lambda m: m.graph.input[0].ClearField("type"), "graph.input[x].type"),
        (lambda m: m.ClearField("graph"), "graph"),
        (lambda m: m.opset_import[0].__setattr__("version", 21), "opset_import[0].version"),
        (lambda m: m.opset_import.add(domain="more", version=1), "opset_import (added)"),
        (lambda m: m.graph.node[0].attribute.add(name="a"), "attribute (added)"),
        (lambda m: m.functions.add(name="f"), "functions (added)"),
        (lambda m: m.graph.input[0].type.tensor_type.shape.dim[0].Clear(), "dim_param"),
    ],
)
def test_each_loss_is_named_by_its_path(proto, other, change, path):
    change(other)
    losses = list(lost(proto, other))
    assert any(path in loss for loss in losses), losses


def test_values_are_compared_by_their_bits(proto, other):
    for model, bits in ((proto, 0x7FC00001), (other, 0x7FC00002)):
        array = np.array([bits], np.uint32).view(np.float32)
        model.graph.initializer[0].CopyFrom(numpy_helper.from_array(array, "w"))
    assert list(lost(proto, proto)) == []
    assert list(lost(proto, other)) == ["graph.initializer[w].data"]
    nan = helper.make_attribute("a", float("nan"))
    for model in (proto, other):
        model.graph.node[0].attribute.append(nan)
    assert list(lost(proto.graph.node[0], other.graph.node[0])) == []


def test_strings_and_external_places_are_compared(proto, other):
    for model, text in ((proto, "a"), (other, "b")):
        tensor = numpy_helper.from_array(np.array([text]), "s")
        model.graph.initializer[0].CopyFrom(tensor)
    assert list(lost(proto, other)) == ["graph.initializer[s].data"]
    for model, location in ((proto, "a.bin"), (other, "b.bin")):
        tensor = model.graph.initializer[0]
        tensor.ClearField("string_data")
        tensor.data_location = onnx.TensorProto.EXTERNAL
        tensor.external_data.add(key="location", value=location)
    assert list(lost(proto, other)) == ["graph.initializer[s].data"]


def test_remarks_are_told_from_what_matters():
    losses = [
        "graph.node[0].doc_string",
        "graph.value_info[z].type",
        "graph.node[my.doc_string].op_type",
        "metadata_props (added)",
        "graph.initializer[w].data",
    ]
    grave, remarks = split(losses)
    assert "graph.initializer[w].data" in grave
    assert remarks == [losses[0], losses[1], losses[3]]
    assert losses[2] in grave
