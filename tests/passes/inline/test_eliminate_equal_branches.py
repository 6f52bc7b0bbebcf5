import onnx_ir as ir

from tests.tables import pass_cases


def branches(then, otherwise, inputs="float[2] x"):
    return f"""(bool c, {inputs}) => (float[2] y) {{ y = If(c) <
      then_branch = g () => (float[2] t) {{ {then} }},
      else_branch = h () => (float[2] e) {{ {otherwise} }}> }}"""


SAME = branches("a = Exp(x) t = Neg(a)", "b = Exp(x) e = Neg(b)")


def test_equal_branches_need_no_condition(rewrites):
    model = rewrites(SAME)
    assert [n.op_type for n in model.graph] == ["Constant", "If"]
    assert model.graph[1].inputs[0] is model.graph[0].outputs[0]


def test_within_another_if(rewrites):
    inner = """t = If(c) < then_branch = p () => (float[2] r) { r = Exp(x) },
        else_branch = q () => (float[2] s) { s = Exp(x) }>"""
    model = rewrites(branches(inner, "e = Neg(x)"))
    outer = model.graph[0].attributes["then_branch"].as_graph()
    assert [n.op_type for n in outer] == ["Constant", "If"]


def test_in_a_function(applied):
    model = ir.from_onnx_text("""<ir_version: 10, opset_import: ["" : 20, "l" : 1]>
        m (bool c, float[2] x) => (float[2] y) { y = l.F(c, x) }
        <domain: "l", opset_import: ["" : 20]> F (c, x) => (y) { y = If(c) <
        then_branch = g () => (float[2] t) { t = Exp(x) },
        else_branch = h () => (float[2] e) { e = Exp(x) }> }""")
    assert applied(model)


test_cases = pass_cases("""
other-operators: =branches('t = Exp(x)', 'e = Neg(x)')
other-values: =branches('t = Exp(x)', 'e = Exp(z)', 'float[2] x, float[2] z')
other-constants: =branches('a = Constant<value_float = 0.0>() t = Mul(x, a)', 'b =
  Constant<value_float = -0.0>() e = Mul(x, b)')
random: =branches('t = RandomNormalLike(x)', 'e = RandomNormalLike(x)')
""")
