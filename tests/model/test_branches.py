import onnx
from onnx_ir.passes.common import RemoveUnusedNodesPass

from onnx_passes.model.load import load_model
from onnx_passes.model.save import save_model

HEAD = '<ir_version: 10, opset_import: ["": 20]>\n'
BRANCH = HEAD + (
    "g (bool c, float[2] x) => (float[2] y) { t = Relu(x) y = If(c) <"
    "then_branch = a () => (float[2] t) { },"
    "else_branch = b () => (float[2] x, float[2] x) { }> }"
)


def test_what_a_branch_hands_out_is_still_produced_after_cleanup(write):
    model = load_model(write(BRANCH.replace("x, float[2] x", "x"), "m.txt")).model
    relu = model.graph.node(0)
    branch = model.graph.node(1).attributes["then_branch"].as_graph()
    assert branch.outputs[0].producer().inputs == (relu.outputs[0],)
    RemoveUnusedNodesPass()(model)
    assert [node.op_type for node in model.graph] == ["Relu", "If"]


def test_each_is_noted_and_names_stay_unique(write):
    loaded = load_model(write(BRANCH, "m.txt"))
    assert len(loaded.notes) == 3
    assert "graph 'a' of node 'If -> y' hands out 't'" in loaded.notes[0]
    names = [
        value.name
        for graph in (
            attr.as_graph() for attr in loaded.model.graph.node(1).attributes.values()
        )
        for value in graph.outputs
    ]
    assert len(set(names)) == 3


def test_an_output_that_a_body_lists_twice_is_one_of_an_identity(write):
    text = HEAD + (
        "g (int64 n, float[2] x) => (float[2] y, float[K, 2] z) { a = Identity(x) y, z = Loop("
        "n, , a) <body = b (int64 i, bool c, float[2] s) => (bool d, float[2] t, float[2] t) {"
        "t = Add(s, x) d = Identity(c) }> }"
    )
    loaded = load_model(write(text, "m.txt"))
    assert ["hands out 't' twice" in note for note in loaded.notes] == [True]
    (path,) = save_model(loaded.model, loaded.path.with_name("o.onnx"))
    onnx.checker.check_model(onnx.load(path))


def test_nested_branches_and_functions(write):
    inner = (
        "z = If(c) <then_branch = p () => (float x) { }, else_branch = q () => (float x) { }>"
    )
    text = (
        '<ir_version: 10, opset_import: ["": 20, "my": 1]>\n'
        "g (bool c, float x) => (float y) { y = my.f(c, x) }\n"
        '<domain: "my", opset_import: ["": 20]> f (c, x) => (y) { y = If(c) <'
        f"then_branch = a () => (float z) {{ {inner} }}, "
        "else_branch = b () => (float x) { }> }"
    )
    loaded = load_model(write(text, "m.txt"))
    assert len(loaded.notes) == 3
    (path,) = save_model(loaded.model, loaded.path.with_name("o.onnx"))
    onnx.checker.check_model(onnx.load(path))


def test_a_name_that_is_nowhere_is_refused(refused):
    error = refused(BRANCH.replace("float[2] t) { }", "float[2] u) { }"), "m.txt")
    assert "nothing makes the output 'u'" in error.message
