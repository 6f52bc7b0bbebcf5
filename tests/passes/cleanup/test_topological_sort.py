import onnx_ir as ir
import pytest

from onnx_passes.errors import ModelError
from onnx_passes.passes.cleanup.topological_sort import TopologicalSort

IN_ORDER = "(float[N] x) => (float[N] y) { a = Exp(x) b = Neg(x) y = Add(b, a) }"


def text_of(model):
    return [f"{node.outputs[0].name}={node.op_type}" for node in model.graph]


def test_leaves_alone_what_is_in_order(leaves_alone):
    leaves_alone(IN_ORDER)


def test_producers_come_first():
    model = ir.from_onnx_text("""<ir_version: 10, opset_import: ["" : 20]>
        m (float[N] x) => (float[N] y) { y = Add(b, a) a = Exp(x) b = Neg(x) }""")
    assert TopologicalSort()(model).modified
    assert text_of(model)[-1] == "y=Add"
    assert not TopologicalSort()(model).modified


def test_what_a_subgraph_captures_comes_before_the_node_that_holds_it():
    model = ir.from_onnx_text("""<ir_version: 10, opset_import: ["" : 20]>
        m (bool c, float[N] x) => (float[N] y) { y = If(c) <
          then_branch = g () => (float[N] t) { t = Neg(u) u = Exp(o) },
          else_branch = h () => (float[N] e) { e = Neg(x) }> o = Abs(x) }""")
    assert TopologicalSort()(model).modified
    assert text_of(model) == ["o=Abs", "y=If"]
    branch = model.graph[1].attributes["then_branch"].as_graph()
    assert [node.op_type for node in branch] == ["Exp", "Neg"]


def test_a_cycle_is_an_error_that_names_it():
    model = ir.from_onnx_text("""<ir_version: 10, opset_import: ["" : 20]>
        m (float[N] x) => (float[N] y) { a = Add(x, b) b = Exp(a) y = Neg(a) }""")
    with pytest.raises(ModelError, match="cycle"):
        TopologicalSort()(model)


def test_function_bodies_are_sorted():
    model = ir.from_onnx_text("""<ir_version: 10, opset_import: ["" : 20, "l" : 1]>
        m (float[N] x) => (float[N] y) { y = l.F(x) }
        <domain: "l", opset_import: ["" : 20]> F (a) => (b) { b = Neg(c) c = Exp(a) }""")
    assert TopologicalSort()(model).modified
    (function,) = model.functions.values()
    assert [node.op_type for node in function] == ["Exp", "Neg"]
