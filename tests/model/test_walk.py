import onnx_ir as ir

from onnx_passes.model import walk
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


def test_a_constant_that_was_read_is_looked_at_without_a_check_of_its_protocol(
    model, monkeypatch
):
    # onnx-ir's own look takes 50 us, a tenth of a run over a network from TorchScript.
    m = model(TEXT, FUNCTION)
    walk.make_immutable(m, layout="any")
    monkeypatch.delattr(ir.Attr, "as_tensor")
    held = [n.attributes["value"] for n in walk.all_nodes(m) if n.op_type == "Constant"]
    assert [attribute.as_tensor().numpy().item() for attribute in held] == [3.0, 4.0]
