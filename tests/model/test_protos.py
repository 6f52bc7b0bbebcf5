import os

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper

from onnx_passes.errors import ModelError
from onnx_passes.model.load import load_model
from tests.tables import each_of, each_row

HEAD = '<ir_version: 10, opset_import: ["": 20, "my": 1]>\n'


@each_row("""graph | says | where
- g (float x) => () { y = Relu(x) } | no outputs | =''
- g (float x) => (float q) { y = Relu(x) } | nothing makes the output 'q' | graph 'g'
- g (float x) => (float y) { y = Add(x, w) } | 'Add -> y' uses 'w' | graph 'g'
- g (float x) => (float y) { y = Relu(x) y = Abs(x) } | 'Abs -> y' makes 'y' | 'g'
- g (float x) => (float x) { x = Relu(x) } | makes 'x' | graph 'g'
- g (float x, float x) => (float y) { y = Relu(x) } | input 'x' is there twice | 'g'
- g (float x) => (float y) <float w = {1}, float w = {2}> { y = Add(x, w) } | initializer 'w'
  is there twice | graph 'g'
- g (float x) => (float y) { y = Elu<alpha = 1.0, alpha = 2.0>(x) } | twice | 'g'
- g (bool c, float x) => (float y) { y = If(c) <then_branch = t () => (float z) { z = Relu(x)
  },else_branch = e () => (float q) { q = Abs(nowhere) }> } | 'Abs -> q' uses 'nowhere' | graph
  'e' of node 'If -> y'
""")
def test_graphs_whose_names_do_not_say_what_is_what(refused, graph, says, where):
    error = refused(HEAD + graph, "m.onnxtxt")
    assert says in error.message
    assert where in str(error.where)


def test_a_cycle_is_named_node_by_node(refused):
    error = refused(
        HEAD + "g (float x) => (float y) { [first] a = Add(x, b) b = Relu(a) y = Abs(b) }",
        "m.txt",
    )
    assert "cycle" in error.message
    assert "'first'" in error.message
    assert "'Relu -> b'" in error.message
    assert "Abs" not in error.message


def test_nodes_out_of_order_are_sorted_with_a_note(write):
    loaded = load_model(
        write(HEAD + "g (float x) => (float y) { y = Abs(b) b = Relu(x) }", "m.txt")
    )
    assert [node.op_type for node in loaded.model.graph] == ["Relu", "Abs"]
    assert loaded.notes == ["nodes were out of order, from 'Abs -> y' on; they were sorted"]


def test_what_a_subgraph_captures_comes_before_its_node(write):
    text = HEAD + (
        "g (bool c, float x) => (float y) { y = If(c) <"
        "then_branch = t () => (float z) { z = Relu(late) },"
        "else_branch = e () => (float q) { q = Abs(x) }> late = Neg(x) }"
    )
    loaded = load_model(write(text, "m.txt"))
    assert [node.op_type for node in loaded.model.graph] == ["Neg", "If"]


def test_names_may_be_shadowed_in_subgraphs(write):
    text = HEAD + (
        "g (bool c, float x) => (float y) { a = Neg(x) y = If(c) <"
        "then_branch = t () => (float a) { a = Relu(x) },"
        "else_branch = e () => (float b) { b = Abs(a) }> }"
    )
    assert load_model(write(text, "m.txt")).notes == []


def test_functions_are_held_to_the_same_rules(refused):
    text = (
        HEAD + "g (float x) => (float y) { y = my.f(x) }\n"
        '<domain: "my", opset_import: ["": 20]> f (a) => (b) { b = Relu(c) }'
    )
    error = refused(text, "m.txt")
    assert "uses 'c'" in error.message
    assert "function 'my::f'" in str(error.where)


def test_headers(refused, proto):
    def with_(**changes):
        changed = onnx.ModelProto()
        changed.CopyFrom(proto)
        for name, value in changes.items():
            setattr(changed, name, value)
        return changed

    assert "no IR version" in refused(with_(ir_version=0)).message
    assert "newer" in refused(with_(ir_version=onnx.IR_VERSION + 1)).message
    no_opset = with_()
    no_opset.ClearField("opset_import")
    assert "imports no opset" in refused(no_opset).message
    two = with_()
    two.opset_import.append(helper.make_opsetid("ai.onnx", 13))
    assert "versions 20 and 13" in refused(two).message


def test_functions_defined_twice(refused, proto):
    function = onnx.parser.parse_function(
        '<domain: "my", opset_import: ["": 20]> f (a) => (b) { b = Relu(a) }'
    )
    proto.functions.extend([function, function])
    assert "defined twice" in refused(proto).message


def test_types_that_onnx_ir_cannot_hold(refused, proto):
    proto.graph.input[0].type.map_type.key_type = 7
    error = refused(proto)
    assert "map type" in error.message
    assert f"value '{proto.graph.input[0].name}'" in str(error.where)
    assert "extract" in str(error.help)


def test_unknown_element_types(refused, proto):
    proto.graph.input[0].type.tensor_type.elem_type = 99
    assert "unknown element type 99" in refused(proto).message


def test_attributes_without_type_or_text(refused, proto):
    attribute = proto.graph.node[0].attribute.add(name="a")
    assert "no type" in refused(proto).message
    attribute.type = onnx.AttributeProto.STRINGS
    attribute.strings.append(b"\xff")
    assert "UTF-8" in refused(proto).message
    attribute.ClearField("strings")
    for kind in ("TENSOR", "GRAPH", "TYPE_PROTO"):
        attribute.type = onnx.AttributeProto.AttributeType.Value(kind)
        assert "no value" in refused(proto).message


def test_external_data_are_found_from_the_models_folder(external, tmp_path, monkeypatch):
    path = external()
    monkeypatch.chdir("/")
    loaded = load_model(path)
    assert loaded.external == (tmp_path / "w.bin",)
    monkeypatch.chdir(tmp_path)
    relative = load_model("model.onnx")
    for model in (loaded.model, relative.model):
        tensor = model.graph.initializers["w"].const_value
        assert isinstance(tensor, ir.ExternalTensor)
        assert tensor.raw is None, "nothing is read or mapped before it is used"
        assert tensor.numpy()[599] == 599


def test_external_data_in_attributes_of_functions_are_found_too(external, tmp_path):
    proto = onnx.load(external(), load_external_data=False)
    function = onnx.parser.parse_function(
        '<domain: "my", opset_import: ["": 20]> f (a) => (b) { b = Identity(c) }'
    )
    constant = helper.make_node("Constant", [], ["c"], value=proto.graph.initializer[0])
    function.node.insert(0, constant)
    proto.functions.append(function)
    path = tmp_path / "with_function.onnx"
    path.write_bytes(proto.SerializeToString())
    node = load_model(path).model.functions["my", "f", ""].graph.node(0)
    assert node.attributes["value"].as_tensor().numpy()[3] == 3


@each_of(
    "location, says",
    ("/etc/passwd", "outside"),
    ("../w.bin", "outside"),
    ("sub/../../w.bin", "outside"),
    ("none.bin", "No such file"),
    ("", "no file name"),
    ("a\0b", "no file name"),
    (".", "is not a regular file"),
)
def test_locations_that_are_refused(external, location, says):
    with pytest.raises(ModelError, match=says) as caught:
        load_model(external(location))
    assert "initializer 'w'" in str(caught.value.where)


def test_links_out_of_the_folder_are_refused_and_links_inside_are_not(external, tmp_path):
    folder = tmp_path / "inside"
    folder.mkdir()
    os.rename(external(), folder / "model.onnx")
    (folder / "w.bin").symlink_to(tmp_path / "w.bin")
    with pytest.raises(ModelError, match="link to outside"):
        load_model(folder / "model.onnx")
    (folder / "w.bin").unlink()
    os.rename(tmp_path / "w.bin", folder / "real.bin")
    (folder / "w.bin").symlink_to("real.bin")
    assert load_model(folder / "model.onnx").external == (folder / "w.bin",)


def test_hard_links_are_refused_before_onnx_ir_does(external, tmp_path):
    path = external()
    os.link(tmp_path / "w.bin", tmp_path / "other.bin")
    with pytest.raises(ModelError, match="hard link"):
        load_model(path)


@each_of(
    "entries, says",
    ({"offset": 4}, "2400 bytes, but the tensor's data end at 2404"),
    ({"offset": -1}, "says -1 from byte -1"),
    ({"length": 2000}, "needs 2400 bytes"),
    ({"offset": "x"}, "is not a number"),
)
def test_offsets_and_lengths_that_do_not_fit(external, entries, says):
    with pytest.raises(ModelError, match=says):
        load_model(external(**entries))


@each_of(
    "change, says",
    ({"dims": [5]}, "needs 5 elements of float_data, but has 4"),
    ({"dims": [-4]}, "shape"),
    ({"data_type": 99}, "unknown element type 99"),
    ({"data_type": 0}, "unknown element type 0"),
    ({"data_type": TensorProto.INT64}, "int64_data"),
    ({"raw_data": b"1234"}, "needs 16 bytes, but has 4"),
    ({"segment": TensorProto.Segment(begin=0, end=4)}, "segments"),
)
def test_tensors_whose_data_do_not_fit(refused, proto, change, says):
    tensor = proto.graph.initializer[0]
    for name in change:
        tensor.ClearField(name)
    tensor.MergeFrom(TensorProto(**change))
    error = refused(proto)
    assert says in error.message
    assert "initializer 'w'" in str(error.where)


@each_of("raw", True, False)
@each_of("dtype", *[d for d in ir.DataType if d.name not in ("UNDEFINED", "STRING")], ids=str)
def test_every_element_type_in_both_layouts(write, proto, dtype, raw):
    array = np.array([[1, 2, 1], [2, 1, 1]]).astype(dtype.numpy())
    if raw:
        tensor = ir.to_proto(ir.Tensor(array, dtype=dtype, name="v"))
    else:
        tensor = helper.make_tensor("v", dtype, [2, 3], array)
    proto.graph.initializer.append(tensor)
    value = load_model(write(proto)).model.graph.initializers["v"].const_value
    assert value.dtype == dtype
    assert value.numpy().tobytes() == array.tobytes()
