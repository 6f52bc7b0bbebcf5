import numpy as np
import onnx_ir as ir
import pytest

from onnx_passes.testing import parse
from onnx_passes.verify.snapshot import Change, Snapshot
from tests.tables import each_of, each_row

TEXT = """<ir_version: 10, opset_import: ["" : 20]> main (float[2,N] x) => (float[2,N] y)
<float[2,1] w = {1, 2}> { t = Mul(x, w) y = Relu(t) }"""


@pytest.fixture
def model():
    return parse(TEXT)


def test_a_new_name_is_a_change_of_names_only(model):
    before = Snapshot(model)
    model.graph.node(0).outputs[0].name = "other"
    assert before.change(model) is Change.NAMES


def test_a_shape_noted_on_an_inner_value_is_an_annotation(model):
    before = Snapshot(model)
    model.graph.node(0).outputs[0].shape = ir.Shape([2, "N"])
    assert before.change(model) is Change.ANNOTATIONS


@each_of("weights", [1.0, 2.0], [1.0, 3.0], ids=["equal", "different"])
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
    assert ir.to_proto(before.restore()).SerializeToString(deterministic=True) == saved


def test_weights_edited_in_place_raise_in_the_pass(model):
    array = np.ones((2, 1), np.float32)
    model.graph.initializers["w"].const_value = ir.tensor(array, name="w")
    Snapshot(model)
    weights = model.graph.initializers["w"].const_value.numpy()
    with pytest.raises(ValueError, match="read-only"):
        weights[0] = 7
    with pytest.raises(ValueError, match="WRITEABLE"):
        weights.flags.writeable = True


def test_an_array_that_a_pass_has_kept_is_no_longer_the_models(model):
    array = np.ones((2, 1), np.float32)
    model.graph.initializers["w"].const_value = ir.tensor(array, name="w")
    before = Snapshot(model)
    array[:] = 7
    assert before.change(model) is Change.NONE
    for state in (model, before.restore()):
        assert state.graph.initializers["w"].const_value.numpy().tolist() == [[1], [1]]


BUSY = """<ir_version: 11, opset_import: ["" : 20, "my": 1]>
main (bool c, float[2,N] x) => (float[2,N] y) <float[2,1] w = {1, 2}> {
    t = Mul(x, w)
    k = Constant <value = float[2,1] {3, 4}> ()
    y = If(c) <
        then_branch = a () => (float[2,N] p) { p = my.f <g = 1> (t) },
        else_branch = b () => (float[2,N] q) { q = Add(t, k) }>
}
<domain: "my", opset_import: ["" : 20]> f <g, h> (i) => (o) {
    o = LeakyRelu <alpha: float = @g> (i)
}"""


def _branch(model):
    return model.graph.node(2).attributes["then_branch"].as_graph()


def _function(model):
    return model.functions["my", "f", ""]


def _reorder(graph):
    node = graph.node(1)
    graph.remove(node)
    graph.insert_before(graph.node(0), node)


def _requantize(model):
    model.graph.inputs[1].meta["quant_parameter_tensor_names"]["SCALE_TENSOR"] = "t"


FLOAT, NINES = ir.TensorType(ir.DataType.FLOAT), ir.tensor(np.full((2, 1), 9, np.float32))


def _of_type(value, dtype):
    value.dtype = dtype


@each_row("""edit | expected
version: =lambda m: setattr(m, 'ir_version', 12) | NAMES
producer: =lambda m: setattr(m, 'producer_name', 'me') | NAMES
doc: =lambda m: setattr(m.graph, 'doc_string', 'd') | NAMES
metadata: =lambda m: m.metadata_props.update(k='v') | NAMES
graph metadata: =lambda m: m.graph.metadata_props.update(k='v') | NAMES
node metadata: =lambda m: m.graph.node(0).metadata_props.update(k='v') | NAMES
node name: =lambda m: setattr(m.graph.node(0), 'name', 'n') | NAMES
inner name: =lambda m: setattr(_branch(m).outputs[0], 'name', 'n') | NAMES
order: =lambda m: _reorder(m.graph) | NAMES
quantization: =_requantize | NAMES
devices: =lambda m: setattr(m.graph.node(0), 'device_configurations', ()) | NAMES
attribute doc: =lambda m: setattr(m.graph.node(1).attributes['value'], 'doc_string', 'd') |
  NAMES
inner type: =lambda m: setattr(m.graph.node(0).outputs[0], 'type', FLOAT) | ANNOTATIONS
inner dtype in place: =lambda m: _of_type(_branch(m).outputs[0], ir.DataType.DOUBLE)
  | ANNOTATIONS
input dtype in place: =lambda m: _of_type(m.graph.inputs[1], ir.DataType.DOUBLE) | COMPUTATION
output shape: =lambda m: setattr(m.graph.outputs[0], 'shape', ir.Shape([2, 3])) | COMPUTATION
output name: =lambda m: setattr(m.graph.outputs[0], 'name', 'z') | COMPUTATION
opset: =lambda m: m.graph.opset_imports.update({'': 19}) | COMPUTATION
unused opset: =lambda m: m.graph.opset_imports.update({'his': 1}) | NAMES
weight: =lambda m: setattr(m.graph.initializers['w'], 'const_value', NINES) | COMPUTATION
constant: =lambda m: m.graph.node(1).attributes.add(ir.AttrTensor('value', NINES))
  | COMPUTATION
branch: =lambda m: setattr(_branch(m).node(0), 'op_type', 'Neg') | COMPUTATION
function: =lambda m: setattr(_function(m).graph.node(0), 'op_type', 'Elu') | COMPUTATION
reference: =lambda m: _function(m).graph.node(0).attributes.add(ir.RefAttr('alpha', 'h',
  ir.AttributeType.FLOAT)) | COMPUTATION
parameter: =lambda m: setattr(_function(m).attributes['h'], 'name', 'j') | COMPUTATION
no function: =lambda m: m.functions.clear() | COMPUTATION
""")
def test_every_change_is_found_and_taken_back(edit, expected):
    model = parse(BUSY)
    stage = ir.ModelConfiguration("gpus", 2)
    model.device_configurations = (stage,)
    model.graph.node(0).device_configurations = (ir.NodeDeviceConfiguration(stage),)
    model.graph.inputs[1].meta["quant_parameter_tensor_names"] = {"SCALE_TENSOR": "w"}
    before, saved = Snapshot(model), ir.to_proto(model).SerializeToString(deterministic=True)
    edit(model)
    written = ir.to_proto(model).SerializeToString(deterministic=True)
    assert before.change(model) is Change[expected]
    assert written != saved
    assert ir.to_proto(before.restore()).SerializeToString(deterministic=True) == saved


def test_a_model_that_a_pass_left_out_of_order_can_be_kept(model):
    nodes = list(model.graph)
    model.graph.remove(nodes)
    model.graph.extend(reversed(nodes))
    broken = Snapshot(model)
    assert [node.op_type for node in broken.restore().graph] == ["Relu", "Mul"]


def test_a_snapshot_that_holds_no_copy_still_says_whether_a_model_changed(model):
    before = Snapshot(model, hold=False)
    assert before.model is model
    before.let_go()
    assert not before.differs(model)
    assert before.model is model, "the same model stands for the copy again"
    before.let_go()
    model.graph.node(1).op_type = "Neg"
    assert before.differs(model)
    assert before.lost
    assert before.nodes == 2


def test_a_copy_is_made_when_it_is_asked_for(model):
    before = Snapshot(model, hold=False)
    before.hold()
    before.let_go()
    model.graph.node(1).op_type = "Neg"
    assert before.model.graph.node(1).op_type == "Relu"
    assert before.change(model) is Change.COMPUTATION


def test_what_nobody_touched_since_it_was_compared_is_not_looked_at_again(model, monkeypatch):
    before = Snapshot(model, hold=False)
    model.graph.node(1).op_type = "Neg"
    assert before.differs(model)
    expected = Snapshot(model).hash
    monkeypatch.setattr("onnx_passes.verify.snapshot.exact_key", None)
    assert Snapshot(model, after=before, hold=False, untouched=True).hash == expected


def test_a_lost_state_is_recognised_once_its_like_was_seen_again(model):
    first = Snapshot(model, hold=False)
    first.count()
    first.let_go()
    assert Snapshot(model).is_alike(first)
    model.graph.node(0).outputs[0].name = "other"
    again = Snapshot(model, hold=False)
    assert not again.is_alike(first)  # it has no hash, so that nothing is known
    model.graph.node(0).outputs[0].name = "another"
    model.graph.node(1).op_type = "Neg"
    other = Snapshot(model)
    assert not other.is_alike(again)
    model.graph.node(1).op_type = "Relu"
    assert Snapshot(model).is_alike(again)
