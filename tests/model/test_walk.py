import onnx
import onnx_ir as ir
from onnx_ir.passes.common import RemoveUnusedNodesPass

from onnx_passes.model import walk
from onnx_passes.model.load import load_model
from onnx_passes.model.save import save_model
from onnx_passes.model.walk import nodes_of

TEXT = """g (float x, bool c) => (float y)
{
    k = Constant<value = float {3.0}>()
    y = If(c) <
      then_branch = t () => (float p) <float w = {2}> { u = Add(x, w) p = my.f(u) },
      else_branch = e () => (float q) { q = If(c) <
        then_branch = tt () => (float r) { r = Neg(k) },
        else_branch = ee () => (float s) { s = Neg(x) }> }>
}"""
FUNCTION = """<domain: "my", opset_import: ["": 20]> f (i) => (o) { h = Constant<value = float
    {4.0}>() o = Add(i, h) }"""


def test_walks_see_subgraphs_and_functions(model):
    m = model(TEXT, FUNCTION)
    names = [graph.name for graph in walk.all_graphs(m)]
    assert names[:5] == ["g", "t", "e", "tt", "ee"]
    assert walk.node_count(m) == 9
    assert walk.operator_histogram(m) == {
        "Add": 2,
        "Constant": 2,
        "If": 2,
        "Neg": 2,
        "my::f": 1,
    }
    assert walk.weight_bytes(m) == 12


def test_order_counts_captures_and_keeps_what_is_in_order(model):
    m = model(TEXT, FUNCTION)
    in_order = list(m.graph)
    assert walk.topological_order(m.graph) == in_order
    m.graph.remove(in_order)
    m.graph.extend(reversed(in_order))
    assert walk.topological_order(m.graph) == in_order


def test_a_long_chain_is_ordered_without_recursion(model):
    nodes = " ".join(f"a{i} = Neg(a{i + 1})" for i in range(5000))
    m = model(f"g (float a5000) => (float y) {{ y = Abs(a0) {nodes} }}")
    order = walk.topological_order(m.graph)
    assert order[0].outputs[0].name == "a4999"
    assert order[-1].op_type == "Abs"


def test_nodes_are_those_that_the_iterator_gives_in_its_order(model):
    graph = model(TEXT, FUNCTION).graph
    first, *_ = graph
    graph.remove(first)
    graph.append(first)
    graph.insert_before(first, ir.Node("", "Neg", [first.outputs[0]]))
    assert nodes_of(graph) == list(graph)
    view = ir.GraphView([], [], nodes=list(graph))
    assert nodes_of(view) == list(view)


def test_a_constant_that_was_read_is_looked_at_without_a_protocol_check(model, monkeypatch):
    # onnx-ir's own look takes 50 us, a tenth of a run over a network from TorchScript.
    m = model(TEXT, FUNCTION)
    walk.make_immutable(m, layout="any")
    monkeypatch.delattr(ir.Attr, "as_tensor")
    held = [n.attributes["value"] for n in walk.all_nodes(m) if n.op_type == "Constant"]
    assert [attribute.as_tensor().numpy().item() for attribute in held] == [3.0, 4.0]


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
