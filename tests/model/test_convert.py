import numpy as np
import onnx
from onnx import helper, numpy_helper

from onnx_passes.model.load import load_model
from tests.tables import each_of


def sparse(indices, values=(5.0, 7.0), dims=(2, 3), name="s"):
    return helper.make_sparse_tensor(
        numpy_helper.from_array(np.array(values, np.float32), name),
        numpy_helper.from_array(np.array(indices, np.int64), "i"),
        list(dims),
    )


@each_of("indices", [1, 5], [[0, 1], [1, 2]])
def test_sparse_initializers_are_made_dense(write, proto, indices):
    proto.graph.sparse_initializer.append(sparse(indices))
    proto.graph.node[0].input[1] = "s"
    loaded = load_model(write(proto))
    dense = loaded.model.graph.initializers["s"].const_value
    assert dense.numpy().tolist() == [[0, 5, 0], [0, 0, 7]]
    assert loaded.notes == ["the sparse initializer 's' was made dense"]


@each_of(
    "tensor, says",
    (sparse([1, 6]), "beyond"),
    (sparse([-1, 2]), "beyond"),
    (sparse([[0, 1], [2, 2]]), "invalid"),
    (sparse([1]), "1 indices"),
    (sparse([1, 2], dims=(2**40, 2**40)), "spelled out"),
)
def test_damaged_sparse_tensors(refused, proto, tensor, says):
    proto.graph.sparse_initializer.append(tensor)
    error = refused(proto)
    assert says in error.message
    assert "'s'" in str(error.where)


def test_sparse_constants_are_made_dense(write, proto):
    node = helper.make_node("Constant", [], ["w2"], sparse_value=sparse([1, 5]))
    proto.graph.node.insert(0, node)
    loaded = load_model(write(proto))
    value = loaded.model.graph.node(0).attributes["value"].as_tensor()
    assert value.numpy().tolist() == [[0, 5, 0], [0, 0, 7]]
    assert loaded.notes == [
        "the sparse value of node 'Constant -> w2', attribute 'sparse_value' was made dense"
    ]


def test_other_sparse_attributes_are_refused(refused, proto):
    attribute = helper.make_attribute("mine", sparse([1, 5]))
    proto.graph.node[0].attribute.append(attribute)
    assert "sparse tensor" in refused(proto).message


def test_the_default_domain_gets_one_name(write, proto):
    proto.opset_import[0].domain = "ai.onnx"
    proto.opset_import.append(helper.make_opsetid("", 20))
    proto.graph.node[0].domain = "ai.onnx"
    loaded = load_model(write(proto))
    assert loaded.model.opset_imports == {"": 20}
    assert loaded.notes == ["domain 'ai.onnx' is written as '', its other name"]


@each_of("place", "main", "body")
def test_operators_of_onnx_runtime_are_imported_where_a_model_does_not(write, proto, place):
    node = helper.make_node("Gelu", [proto.graph.input[0].name], ["g"], domain="com.microsoft")
    if place == "main":
        proto.graph.node.append(node)
    else:
        value = helper.make_tensor_value_info("g", 1, None)
        body = helper.make_graph([node], "body", [], [value])
        condition = helper.make_node("Constant", [], ["c"], value_int=1)
        branches = {"then_branch": body, "else_branch": body}
        proto.graph.node.append(condition)
        proto.graph.node.append(helper.make_node("If", ["c"], ["i"], **branches))
    loaded = load_model(write(proto))
    assert loaded.model.opset_imports["com.microsoft"] == 1
    assert any("'com.microsoft', which has no opset import" in note for note in loaded.notes)


def test_attributes_of_the_first_ir_version_get_their_type(write, proto):
    proto.graph.node[0].attribute.add(name="a", ints=[1, 2])
    loaded = load_model(write(proto))
    assert loaded.model.graph.node(0).attributes["a"].as_ints() == (1, 2)
    assert loaded.notes == ["1 attribute had no type; it was inferred from the values"]


def test_annotations_of_nothing_are_dropped_with_a_note(write, proto):
    proto.graph.value_info.append(helper.make_tensor_value_info("gone", 1, [1]))
    proto.graph.value_info.append(helper.make_tensor_value_info("z", 1, ["N", 4]))
    proto.graph.quantization_annotation.add(tensor_name="gone")
    loaded = load_model(write(proto))
    assert sorted(loaded.notes) == [
        "quantization parameters of values that do not exist were dropped: 1",
        "types of values that do not exist were dropped: 1",
    ]
    assert loaded.model.graph.node(0).outputs[0].shape is not None


def test_types_inside_functions_of_old_ir_versions_are_kept(write):
    proto = onnx.parser.parse_model("""<ir_version: 9, opset_import: ["": 18, "my": 1]>
        g (float[2] x) => (float[2] y) { y = my.f(x) } <domain: "my", opset_import: ["": 18]>
        f (a) => (b) { c = Abs(a) b = Relu(c) }""")
    proto.graph.value_info.append(helper.make_tensor_value_info("my::f/c", 1, [2]))
    loaded = load_model(write(proto))
    assert loaded.notes == []
    assert loaded.model.functions["my", "f", ""].graph.node(0).outputs[0].shape == [2]


def test_shapes_without_an_element_type_are_dropped_with_a_note(write, proto):
    proto.graph.value_info.add(name="z").type.tensor_type.shape.dim.add(dim_value=4)
    proto.graph.output[0].type.tensor_type.ClearField("elem_type")
    loaded = load_model(write(proto))
    assert loaded.notes == [
        "shapes without an element type were dropped: 2",
        "the output 'y' declares no type; float[N,4] is inferred",
    ]


def test_outputs_left_out_at_the_end_are_none_and_others_stay(write, proto):
    node = proto.graph.node[0]
    del node.output[:]
    node.output.extend(["", "z", "", ""])
    loaded = load_model(write(proto))
    assert [value.name for value in loaded.model.graph.node(0).outputs] == ["", "z"]
    assert loaded.notes == []


def test_an_output_that_is_an_input_may_lack_its_shape(write, proto):
    name = proto.graph.input[0].name
    bare = helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None)
    proto.graph.output.append(bare)
    loaded = load_model(write(proto))
    given = loaded.model.graph.inputs[0]
    assert loaded.model.graph.outputs[-1] is given
    assert given.shape is not None
    assert loaded.notes == [f"the output {name!r} is an input, whose type it is given"]
