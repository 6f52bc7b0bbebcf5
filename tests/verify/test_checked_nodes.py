import numpy as np
import onnx_ir as ir
import pytest

from onnx_passes.verify.checked_nodes import CheckedNodes
from onnx_passes.verify.checker import complaints
from onnx_passes.verify.well_formed import check_structure

TEXT = """<ir_version: 10, opset_import: ["" : 20, "ai.onnx.ml" : 3]>
main (float[4] x, float[4] z) => (float[4] y) <float[4] w = {1, 2, 3, 4}> {
  a = Relu(x)
  k = Constant <value = float[1] {2}> ()
  b = Mul(a, k)
  c = Clip(b)
  d = Softmax <axis = 0> (c)
  e = Add(d, w)
  y = Add(e, z)
}"""

BRANCH = """<ir_version: 10, opset_import: ["" : 20]>
main (bool c, float[2] x) => (float[2] y) {
  y = If (c) <
    then_branch = yes () => (float[2] t) { t = Relu(x) },
    else_branch = no () => (float[2] e) { e = Neg(x) }
  >
}"""


def model(text=TEXT):
    return ir.from_onnx_text(text)


def node(model, op):
    return next(n for n in model.graph if n.op_type == op)


def give_too_many(model):
    relu = node(model, "Relu")
    relu.resize_inputs(2)
    relu.replace_input_with(1, relu.inputs[0])


def give_none(model):
    node(model, "Mul").replace_input_with(1, None)


def misspell(model):
    node(model, "Relu").op_type = "Rellu"


def retype_attribute(model):
    node(model, "Softmax").attributes["axis"] = ir.AttrFloat32("axis", 0.0)


def invent_attribute(model):
    node(model, "Relu").attributes["slope"] = ir.AttrFloat32("slope", 0.5)


def call_other_opset(model):
    model.opset_imports[""] = 12
    node(model, "Add").op_type = "Gelu"


def move_domain(model):
    node(model, "Relu").domain = "ai.onnx.ml"


def drop_result(model):
    node(model, "Relu").outputs[0].name = ""


def lack_attribute(model):
    softmax = node(model, "Softmax")
    softmax.op_type = "Cast"
    del softmax.attributes["axis"]


FAULTS = [
    give_too_many,
    give_none,
    misspell,
    retype_attribute,
    invent_attribute,
    call_other_opset,
    move_domain,
    drop_result,
    lack_attribute,
]


@pytest.mark.parametrize("fault", FAULTS)
def test_finds_what_the_whole_checker_finds(fault):
    broken, known = model(), CheckedNodes()
    assert check_structure(broken, known=known) == []
    fault(broken)
    found = check_structure(broken)
    assert found
    assert check_structure(broken, known=known) == found
    assert check_structure(broken, known=known) == found, "a fault is never known as sound"
    assert check_structure(model(), known=known) == []


def test_asks_about_new_nodes_and_tensors_alone():
    asked, known, sound = [], CheckedNodes(), model()
    assert known.accept(sound, asked.append)
    assert {n.op_type for n in asked[0].graph.node} == {
        *("Relu", "Constant", "Mul", "Clip", "Softmax", "Add")
    }
    assert [t.name for t in asked[0].graph.initializer] == ["w"]
    assert known.accept(sound, asked.append)
    assert not asked[1].graph.node
    assert not asked[1].graph.initializer
    node(sound, "Softmax").attributes["axis"] = ir.AttrInt64("axis", -1)
    weight = sound.graph.initializers["w"]
    weight.const_value = ir.tensor(np.zeros(4, np.float32), name="w")
    assert known.accept(sound, asked.append)
    assert [n.op_type for n in asked[2].graph.node] == ["Softmax"]
    assert [t.name for t in asked[2].graph.initializer] == ["w"]


def test_another_opset_makes_everything_new():
    asked, known, sound = [], CheckedNodes(), model()
    known.accept(sound, asked.append)
    sound.opset_imports[""] = 21
    known.accept(sound, asked.append)
    assert len(asked[1].graph.node) == len(asked[0].graph.node)


def test_nodes_of_other_domains_are_always_asked_about():
    asked, known, sound = [], CheckedNodes(), model()
    node(sound, "Relu").domain = "com.example"
    sound.opset_imports["com.example"] = 1
    for _ in range(2):
        assert known.accept(sound, asked.append)
    assert [n.op_type for n in asked[1].graph.node] == ["Relu"]


def test_subgraphs_and_functions_are_left_to_the_whole_checker():
    branch = model(BRANCH)
    assert not CheckedNodes().accept(branch, lambda _: pytest.fail("asked"))
    assert complaints(branch, lenient=True, known=CheckedNodes()) == []
    node_ = branch.graph[0]
    node_.attributes["then_branch"].as_graph()[0].op_type = "Rellu"
    known = CheckedNodes()
    assert complaints(branch, lenient=True, known=known) == complaints(branch, lenient=True)
    assert complaints(branch, lenient=True, known=known)
