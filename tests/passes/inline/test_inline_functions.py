import onnx
import onnx_ir as ir
import onnxruntime as ort
import pytest

from onnx_passes.errors import PassError
from onnx_passes.passes.inline.inline_functions import InlineFunctions
from tests.tables import each_row, pass_cases

HEADER = '<ir_version: 10, opset_import: ["" : 20, "l" : 1]> m '


def function(text, imports='"" : 20, "l" : 1'):
    return f'<domain: "l", opset_import: [{imports}]> {text}\n'


def model(graph, *functions):
    return ir.from_onnx_text(HEADER + graph + "".join(map(function, functions)))


def operators(graph):
    return [node.op_type for node in graph]


@each_row("""graph | functions | after
twice: (float[N] x) => (float[N] y) { t = l.F(x) y = l.F(t) }
  | =function('F (a) => (b) { c = Exp(a) b = Neg(c) }')
  | (float[N] x) => (float[N] y) { c = Exp(x) t = Neg(c) d = Exp(t) y = Neg(d) }
nested: (float[N] x) => (float[N] y) { y = l.G(x) }
  | =function('G (a) => (b) { c = l.F(a) b = l.F(c) }') + function('F (a) => (b) {
    b = Exp(a) }') | (float[N] x) => (float[N] y) { t = Exp(x) y = Exp(t) }
attribute-of-the-call-and-default: (float[N] x) => (float[N] y, float[N] z) {
  y = l.F<k = 2.0>(x) z = l.F(x) }
  | =function('F<k : float = 3.0>(a) => (b) { b = Elu<alpha : float = @k>(a) }')
  | (float[N] x) => (float[N] y, float[N] z) { y = Elu<alpha = 2.0>(x)
    z = Elu<alpha = 3.0>(x) }
attribute-without-value-is-left-out: (float[N] x) => (float[N] y) { y = l.F(x) }
  | =function('F<k>(a) => (b) { b = Elu<alpha : float = @k>(a) }')
  | (float[N] x) => (float[N] y) { y = Elu(x) }
attribute-handed-on: (float[N] x) => (float[N] y) { y = l.G<k = 2.0>(x) }
  | =function('G<k>(a) => (b) { b = l.F<j : float = @k>(a) }') + function('F<j>(a) => (b) {
    b = Elu<alpha : float = @j>(a) }')
  | (float[N] x) => (float[N] y) { y = Elu<alpha = 2.0>(x) }
inputs-that-the-call-leaves-out: (float[N] x) => (float[N] y) { y = l.F(x) }
  | =function('F (a, lo, hi) => (b) { b = Clip(a, lo, hi) }')
  | (float[N] x) => (float[N] y) { y = Clip(x) }
subgraph-that-captures-an-input: (bool c, float[N] x) => (float[N] y) { y = l.F(c, x) }
  | =function('F (c, a) => (b) { b = If(c) < then_branch = g () => (float[N] t) {
    t = Exp(a) }, else_branch = h () => (float[N] e) { e = Neg(a) }> }')
  | (bool c, float[N] x) => (float[N] y) { y = If(c) < then_branch = g () => (float[N] t) {
    t = Exp(x) }, else_branch = h () => (float[N] e) { e = Neg(x) }> }
calls-in-branches: (bool c, float[N] x) => (float[N] y) { y = If(c) < then_branch = g ()
  => (float[N] t) { t = l.F(x) }, else_branch = h () => (float[N] e) { e = l.F(x) }> }
  | =function('F (a) => (b) { b = Exp(a) }')
  | (bool c, float[N] x) => (float[N] y) { y = If(c) < then_branch = g () => (float[N] t) {
    t = Exp(x) }, else_branch = h () => (float[N] e) { e = Exp(x) }> }
""")
def test_bodies_take_the_place_of_calls(graph, functions, after, rewrites):
    assert not rewrites(HEADER + graph + functions, HEADER + after).functions


def test_an_input_that_the_function_returns_keeps_an_identity():
    found = model(
        "(float[N] x) => (float[N] y, float[N] z) { y, z = l.F(x) }",
        "F (a) => (a, b) { b = Exp(a) }",
    )
    assert InlineFunctions()(found).modified
    assert sorted(operators(found.graph)) == ["Exp", "Identity"]
    assert [value.name for value in found.graph.outputs] == ["y", "z"]


def test_overloads_are_told_apart(rewrites):
    overloads = "".join(
        f'<domain: "l", overload: "{name}", opset_import: ["" : 20]> '
        f"F (a) => (b) {{ b = {op}(a) }}"
        for name, op in (("one", "Exp"), ("two", "Neg"))
    )
    model = rewrites(HEADER + "(float[N] x) => (float[N] y) { y = l.F:two(x) }" + overloads)
    assert operators(model.graph) == ["Neg"]
    assert [key[2] for key in model.functions] == ["one"]  # nobody called it before either


def test_a_call_that_means_another_version_of_an_operator_stays():
    model = ir.from_onnx_text(
        HEADER
        + "(float[2,3] x) => (float[2] y) { y = l.F(x) }"
        + function("F (a) => (b) { b = ReduceMax<axes = [1], keepdims = 0>(a) }", '"" : 17')
    )
    pass_ = InlineFunctions()
    assert not pass_(model).modified
    assert "ReduceMax of version 17" in pass_.context.notes[0]


def test_a_domain_that_only_the_function_imports_is_imported(rewrites):
    model = rewrites(
        HEADER
        + "(float[N] x) => (float[N] y) { y = l.F(x) }"
        + function("F (a) => (b) { b = ai.onnx.ml.Binarizer(a) }", '"ai.onnx.ml" : 3')
    )
    assert model.opset_imports["ai.onnx.ml"] == 3


def test_excluded_functions_stay():
    found = model(
        "(float[N] x) => (float[N] y) { y = l.G(x) }",
        "G (a) => (b) { c = l.F(a) b = l.H(c) }",
        "F (a) => (b) { b = Exp(a) }",
        "H (a) => (b) { b = Neg(a) }",
    )
    assert InlineFunctions(exclude=("l::F",))(found).modified
    assert operators(found.graph) == ["F", "Neg"]
    assert [key[1] for key in found.functions] == ["F"]


def test_recursion_is_an_error_that_names_the_cycle():
    found = model(
        "(float[N] x) => (float[N] y) { y = l.G(x) }",
        "G (a) => (b) { b = l.F(a) }",
        "F (a) => (b) { b = l.G(a) }",
    )
    with pytest.raises(PassError, match=r"l::\w -> l::\w -> l::\w"):
        InlineFunctions()(found)


def test_names_of_a_body_avoid_those_around_the_call():
    found = model(
        "(float[N] x) => (float[N] y) { c = Abs(x) t = l.F(c) y = Add(t, c) }",
        "F (a) => (b) { c = Exp(a) b = Neg(c) }",
    )
    InlineFunctions()(found)
    assert [node.outputs[0].name for node in found.graph] == ["c", "c_1", "t", "y"]
    onnx.checker.check_model(ir.to_proto(found), full_check=True)


def test_nodes_get_names_of_their_own():
    """ONNX Runtime refuses a graph with two nodes of one name."""
    found = model(
        "(float[N] x) => (float[N] y) { [a] t = l.F(x) y = l.F(t) }",
        "F (a) => (b) { [a] c = Exp(a) b = Neg(c) }",
    )
    InlineFunctions()(found)
    names = [node.name for node in found.graph if node.name]
    assert len(set(names)) == len(names)
    ort.InferenceSession(ir.to_proto(found).SerializeToString())


test_cases = pass_cases("""
another opset version is no obstacle if it means the same operators: =HEADER + '(float[N] x) =>
  (float[N] y) { y = l.F(x) }' + function('F (a) => (b) { b = Exp(a) }', '"" : 18') | =HEADER +
  '(float[N] x) => (float[N] y) { y = Exp(x) }'
=HEADER + '(float[N] x) => (float[N] y) { y = Exp(x) }' + function('F (a) => (b) { b = Exp(a)
  }')
""")


SHADOWING = """<ir_version: 10, opset_import: ["" : 18, "com.microsoft" : 1]>
    g (float[2] x) => (float[2] y) { a = Abs(x) y = com.microsoft.QuickGelu(a) }
    <domain: "com.microsoft", opset_import: ["" : 18]> QuickGelu (p) => (q) { q = Neg(p) }"""
"""ONNX Runtime runs its own QuickGelu, and onnx's evaluator the function."""


def test_a_function_with_the_name_of_an_operator_stays():
    model = ir.from_onnx_text(SHADOWING)
    assert not InlineFunctions()(model).modified
    assert [node.op_type for node in model.graph] == ["Abs", "QuickGelu"]


def test_a_function_with_the_name_of_an_operator_of_later_opsets_is_inlined():
    model = ir.from_onnx_text("""<ir_version: 10, opset_import: ["" : 18]>
        g (float[2] x) => (float[2] y) { y = Gelu(x) }
        <domain: "", opset_import: ["" : 18]> Gelu (p) => (q) { q = Neg(p) }""")
    assert InlineFunctions()(model).modified
    assert [node.op_type for node in model.graph] == ["Neg"]
