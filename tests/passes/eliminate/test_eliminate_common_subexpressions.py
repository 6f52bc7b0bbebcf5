import onnx_ir as ir

from onnx_passes.passes.eliminate.eliminate_common_subexpressions import (
    EliminateCommonSubexpressions,
)
from tests.tables import pass_cases

test_cases = pass_cases("""
pair: (float[N] x) => (float[N] y) { a = Exp(x) b = Exp(x) y = Add(a, b) }
  | (float[N] x) => (float[N] y) { a = Exp(x) y = Add(a, a) }
chain-in-one-sweep: (float[N] x) => (float[N] y) { a = Exp(x) b = Exp(x) c = Neg(a)
  d = Neg(b) y = Add(c, d) }
  | (float[N] x) => (float[N] y) { a = Exp(x) c = Neg(a) y = Add(c, c) }
constants-by-content: (float[N] x) => (float[N] y) { a = Constant <value = float {2}>()
  b = Constant <value = float {2}>() c = Mul(x, a) d = Mul(x, b) y = Add(c, d) }
  | (float[N] x) => (float[N] y) { a = Constant <value = float {2}>() c = Mul(x, a)
    y = Add(c, c) }
sums-with-operands-swapped-were-two: (float[N] x, float[N] w) => (float[N] y) { a = Add(x, w)
  b = Add(w, x) y = Mul(a, b) }
  | (float[N] x, float[N] w) => (float[N] y) { a = Add(x, w) y = Mul(a, a) }
both-are-outputs: (float[N] x) => (float[N] y, float[N] z) { a = Exp(x) y = Neg(a)
  z = Neg(a) }
  | (float[N] x) => (float[N] y, float[N] z) { a = Exp(x) y = Neg(a) z = Identity(y) }
an-identity-put-in-meets-another: (float[N] x) => (float[N] y, float[N] z, float[N] v) {
  y = Neg(x) z = Neg(x) t = Identity(y) v = Exp(t) }
  | (float[N] x) => (float[N] y, float[N] z, float[N] v) { y = Neg(x) z = Identity(y)
    v = Exp(z) }
the-second-is-an-output: (float[N] x) => (float[N] y, float[N] z) { a = Exp(x) y = Exp(x)
  z = Neg(a) } | (float[N] x) => (float[N] y, float[N] z) { y = Exp(x) z = Neg(y) }
from-outside-into-a-branch: (bool c, float[N] x) => (float[N] y) { o = Exp(x) p = If(c) <
  then_branch = g () => (float[N] t) { a = Exp(x) t = Neg(a) }, else_branch = h ()
  => (float[N] e) { e = Neg(x) }> y = Add(o, p) }
  | (bool c, float[N] x) => (float[N] y) { o = Exp(x) p = If(c) < then_branch = g ()
    => (float[N] t) { t = Neg(o) }, else_branch = h () => (float[N] e) { e = Neg(x) }>
    y = Add(o, p) }
equal-subgraphs: (bool c, float[N] x) => (float[N] y) { p = If(c) <then_branch = g ()
  => (float[N] t) { t = Exp(x) }, else_branch = h () => (float[N] e) { e = Neg(x) }>
  q = If(c) <then_branch = g2 () => (float[N] t2) { t2 = Exp(x) }, else_branch = h2 ()
  => (float[N] e2) { e2 = Neg(x) }> y = Add(p, q) }
  | (bool c, float[N] x) => (float[N] y) { p = If(c) <then_branch = g () => (float[N] t) {
    t = Exp(x) }, else_branch = h () => (float[N] e) { e = Neg(x) }> y = Add(p, p) }
(float x, float w) => (float y) { a = Sub(x, w) b = Sub(w, x) y = Div(a, b) }
(float x, float w) => (float y) { a = Max(x, w) b = Max(w, x) y = Div(a, b) }
operator: (float[2] x) => (float[2] y) { a = Exp(x) b = Neg(x) y = Add(a, b) }
attribute: (float[2,2] x) => (float[2,2] y) { a = Softmax<axis = 0>(x) b = Softmax<axis = 1>(x)
  y = Add(a, b) }
zero-and-negative-zero: (float[2] x) => (float[2] y) { a = Constant <value = float {0}>() b =
  Constant <value = float {-0.0}>() c = Div(x, a) d = Div(x, b) y = Add(c, d) }
random: (float[2] x) => (float[2] y) { a = RandomNormalLike(x) b = RandomNormalLike(x) y =
  Sub(a, b) }
bernoulli-which-onnx-ir-merges: (float[2] x) => (float[2] y) { a = Bernoulli(x) b =
  Bernoulli(x) y = Sub(a, b) }
dropout-in-training: (float[2] x) => (float[2] y) <bool t = {1}, float r = {0.5}> { a =
  Dropout(x, r, t) b = Dropout(x, r, t) y = Sub(a, b) }
random-in-a-function: <ir_version: 10, opset_import: ["" : 20, "l" : 1]> m (float[2] x) =>
  (float[2] y) { a = l.F(x) b = l.F(x) y = Sub(a, b) } <domain: "l", opset_import: ["" : 20]> F
  (a) => (b) { b = RandomNormalLike(a) }
random-in-a-branch: (bool c, float[2] x) => (float[2] y) { p = If(c) <then_branch = g () =>
  (float[2] t) { t = RandomNormalLike(x) }, else_branch = h () => (float[2] e) { e = Neg(x) }>
  q = If(c) <then_branch = g2 () => (float[2] t2) { t2 = RandomNormalLike(x) }, else_branch =
  h2 () => (float[2] e2) { e2 = Neg(x) }> y = Add(p, q) }
in-two-branches-of-which-one-runs: (bool c, float[2] x) => (float[2] y) { y = If(c) <
  then_branch = g () => (float[2] t) { a = Exp(x) t = Neg(a) }, else_branch = h () => (float[2]
  e) { b = Exp(x) e = Abs(b) }> }
identities-that-name-outputs: (float[2] x) => (float[2] y, float[2] z) { y = Identity(x) z =
  Identity(x) }
""")


def test_operators_of_unknown_domains_are_not_trusted():
    model = ir.from_onnx_text("""<ir_version: 10, opset_import: ["" : 20, "acme" : 1]>
        m (float[2] x) => (float[2] y) { a = acme.Op(x) b = acme.Op(x) y = Sub(a, b) }""")
    assert not EliminateCommonSubexpressions()(model).modified
