from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from onnx_passes.runtime.weightless import split_weights

LARGE = np.arange(4096, dtype=np.float32)
ADD = "g (float[4096] x, float[4096] w) => (float[4096] y) { y = Add(x, w) }"


def test_large_tensors_stay_outside_the_protobuf(parse):
    model = parse(ADD, w=LARGE)
    split = split_weights(model)
    assert split.weights == {"w": model.graph.initializers["w"].const_value}
    assert len(split.proto.SerializeToString()) < 400
    assert split.proto.graph.initializer[0].data_location == onnx.TensorProto.EXTERNAL


def test_small_tensors_and_indices_stay_inside(parse):
    text = "g (float[n] x, int64[4096] i, float[8] w) => (float[m] y) {" + (
        "z = Add(x, w) y = Gather(z, i) }"
    )
    split = split_weights(parse(text, i=np.zeros(4096, np.int64), w=LARGE[:8]))
    assert not split.weights
    assert [len(t.raw_data) for t in split.proto.graph.initializer] == [32768, 32]


def test_the_model_stays_as_it_was(parse):
    model = parse(ADD, w=ir.tensor(LARGE, name="a name of its own"))
    before = ir.to_proto(model).SerializeToString(deterministic=True)
    model.graph.initializers["w"].const_value.name = "a name of its own"
    split_weights(model)
    assert model.graph.initializers["w"].const_value.name == "a name of its own"
    assert ir.to_proto(model).SerializeToString(deterministic=True) == before


def test_small_tensors_in_files_are_read(parse, tmp_path):
    (tmp_path / "w.bin").write_bytes(LARGE[:2].tobytes())
    weight = ir.ExternalTensor(
        "w.bin", 0, 8, ir.DataType.FLOAT, shape=ir.Shape([2]), name="w", base_dir=tmp_path
    )
    model = parse("g (float[2] x, float[2] w) => (float[2] y) { y = Add(x, w) }", w=weight)
    (tensor,) = split_weights(model).proto.graph.initializer
    np.testing.assert_array_equal(onnx.numpy_helper.to_array(tensor), LARGE[:2])


def constant(name: str, array: np.ndarray) -> ir.Node:
    value = ir.Value(name=name, type=ir.TensorType(ir.DataType.FLOAT))
    attributes = {"value": ir.AttrTensor("value", ir.tensor(array))}
    return ir.node("Constant", [], attributes, outputs=[value])


def test_large_constants_become_weights(parse):
    model = parse("g (float[4096] x) => (float[4096] y) { y = Relu(x) }")
    node = constant("c", LARGE)
    model.graph.insert_before(model.graph.node(0), node)
    model.graph.node(1).op_type = "Add"
    model.graph.node(1).resize_inputs(2)
    model.graph.node(1).replace_input_with(1, node.outputs[0])
    split = split_weights(model)
    assert list(split.weights) == ["c"]
    assert [node.op_type for node in split.proto.graph.node] == ["Add"]


@pytest.mark.parametrize("position", ["inner", "output"])
def test_constants_of_branches_move_unless_they_are_its_output(parse, position):
    text = """g (bool c, float[4096] x) => (float[4096] y) {
        y = If (c) <then_branch = t () => (float[4096] a) { a = Relu(x) },
                    else_branch = e () => (float[4096] b) { b = Relu(x) }> }"""
    model = parse(text)
    branch = model.graph.node(0).attributes["then_branch"].as_graph()
    node = constant("k", LARGE)
    branch.insert_before(branch.node(0), node)
    if position == "output":
        branch.outputs[0] = node.outputs[0]
    else:
        branch.node(1).replace_input_with(0, node.outputs[0])
    split = split_weights(model)
    onnx.shape_inference.infer_shapes(split.proto, strict_mode=True)
    assert list(split.weights) == (["k"] if position == "inner" else [])


def test_what_nothing_uses_is_left_out(parse):
    text = "g (float[2] x, float[4096] w) => (float[2] y) { y = Relu(x) }"
    split = split_weights(parse(text, w=LARGE))
    assert not split.weights
    assert not split.proto.graph.initializer


def test_an_unused_default_of_an_input_is_kept(parse):
    # Without it, the input would have to be fed.
    model = parse("g (float[2] x, float[4096] w) => (float[2] y) { y = Relu(x) }")
    model.graph.inputs[1].const_value = ir.tensor(LARGE)
    model.graph.register_initializer(model.graph.inputs[1])
    split = split_weights(model)
    assert [tensor.name for tensor in split.proto.graph.initializer] == ["w"]
    assert not split.weights


def test_everything_but_the_weights_survives(parse):
    text = """g (float[N, 4] x, float[4] w) => (float[N, 4] y, float[N, 4] z) {
        a = my.f<alpha = 2.0>(x)  [node] y = Clip(a, , w)  z, = Dropout(y) }
        <domain: "my", opset_import: ["" : 21]> f <alpha> (p) => (q) {
            q = LeakyRelu<alpha: float = @alpha>(p) }"""
    model = parse(text, w=LARGE[:4])
    proto = split_weights(model).proto
    again = ir.to_proto(ir.from_proto(proto))
    expected = ir.to_proto(model)
    assert list(again.graph.node) == list(expected.graph.node)
    assert list(again.graph.input) == list(expected.graph.input)
    assert list(again.graph.output) == list(expected.graph.output)
    assert list(again.functions) == list(expected.functions)
    assert {o.domain: o.version for o in again.opset_import} == {"": 21, "my": 1}
