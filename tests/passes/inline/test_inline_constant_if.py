import onnx_ir as ir

from onnx_passes.passes.inline.inline_constant_if import InlineConstantIf
from tests.tables import pass_cases

IF = """(float[N] x) => (float[N] y) <bool c = {%d}> { a = Abs(x) r = If(c) <
  then_branch = g () => (float[N] t) { b = Exp(a) t = Neg(b) },
  else_branch = h () => (float[N] e) <float[1] w = {2}> { b = Mul(a, w) e = Neg(b) }>
  y = Sqrt(r) }"""


def test_names_that_another_branch_uses_for_its_own_are_changed(rewrites):
    rewrites("""(bool k, float[N] x) => (float[N] y) <bool c = {1}>
        { r = If(c) <then_branch = g () => (float[N] t) { b = Exp(x) t = Neg(b) },
                     else_branch = h () => (float[N] e) { e = Neg(x) }>
          y = If(k) <then_branch = g2 () => (float[N] t) { b = Abs(r) t = Neg(b) },
                     else_branch = h2 () => (float[N] e) { e = Neg(r) }> }""")


def test_functions_get_constant_nodes(rewrites):
    model = rewrites("""<ir_version: 10, opset_import: ["" : 20, "l" : 1]>
        m (float[N] x) => (float[N] y) { y = l.F(x) }
        <domain: "l", opset_import: ["" : 20]>
        F (a) => (b) { c = Constant<value = bool {1}>() b = If(c) <
          then_branch = g () => (float[N] t) <float[1] w = {2}> { t = Mul(a, w) },
          else_branch = h () => (float[N] e) { e = Neg(a) }> }""")
    (function,) = model.functions.values()
    assert [node.op_type for node in function] == ["Constant", "Constant", "Mul"]


test_cases = pass_cases("""
then: =IF % 1 | (float[N] x) => (float[N] y) <bool c = {1}> { a = Abs(x) b = Exp(a) t = Neg(b)
  y = Sqrt(t) }
else-with-an-initializer: =IF % 0 | (float[N] x) => (float[N] y) <bool c = {0}, float[1] w =
  {2}> { a = Abs(x) b = Mul(a, w) t = Neg(b) y = Sqrt(t) }
outputs-keep-their-names: (float[N] x) => (float[N] y, float[1] z) <bool c = {1}> { y, z =
  If(c) < then_branch = g () => (float[N] t, float[1] w) <float[1] w = {2}> { t = Exp(x) },
  else_branch = h () => (float[N] e, float[1] f) <float[1] f = {3}> { e = Neg(x) }> } |
  (float[N] x) => (float[N] y, float[1] z) <bool c = {1}, float[1] w = {2}> { y = Exp(x) z =
  Identity(w) }
nested: (float[N] x) => (float[N] y) <bool c = {1}> { y = If(c) < then_branch = g () =>
  (float[N] t) { d = Constant<value = bool {0}>() t = If(d) < then_branch = g2 () => (float[N]
  t2) { t2 = Exp(x) }, else_branch = h2 () => (float[N] e2) { e2 = Abs(x) }> }, else_branch = h
  () => (float[N] e) { e = Neg(x) }> } | (float[N] x) => (float[N] y) <bool c = {1}> { d =
  Constant<value = bool {0}>() y = Abs(x) }
overridable: =IF.replace('x)', 'x, bool c)', 1) % 1
input: =IF.replace('x)', 'x, bool c)', 1).replace('<bool c = {%d}> ', '')
""")


def test_a_branch_that_contradicts_its_reader_stays_in_its_if():
    """ONNX Runtime lets Range take a vector of one element if it does not know the rank."""
    text = """<ir_version: 10, opset_import: ["" : 20]>
    m (float[N] x) => (float[?] y, float[N] z) <bool c = {1}, float a = {0}, float d = {1}>
    { r = If(c) <then_branch = g () => (float[?] t) { t = Constant<value_floats = [3.0]>() },
                 else_branch = h () => (float[?] e)
                   { e = Constant<value_floats : floats = []>() }>
      y = Range(a, r, d)
      z = If(c) <then_branch = g2 () => (float[N] t2) { t2 = Exp(x) },
                 else_branch = h2 () => (float[N] e2) { e2 = Neg(x) }> }"""
    model = ir.from_onnx_text(text)
    pass_ = InlineConstantIf()
    assert pass_(model).modified
    assert [node.op_type for node in model.graph] == ["If", "Range", "Exp"]
    assert "'r' stays" in pass_.context.notes[0]
    assert not InlineConstantIf()(model).modified
