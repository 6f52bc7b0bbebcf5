from tests.tables import pass_cases

test_cases = pass_cases("""
reads-the-input: (float[N] x) => (float[N] y) { t = Identity(x) y = Exp(t) }
  | (float[N] x) => (float[N] y) { y = Exp(x) }
output-takes-its-name-along: (float[N] x) => (float[N] y) { t = Exp(x) y = Identity(t) }
  | (float[N] x) => (float[N] y) { y = Exp(x) }
chain-from-input-to-output-keeps-one: (float[N] x) => (float[N] y) { a = Identity(x)
  b = Identity(a) y = Identity(b) } | (float[N] x) => (float[N] y) { y = Identity(x) }
two-outputs: (float[N] x) => (float[N] y, float[N] z) { y = Exp(x) z = Identity(y) }
in-branches: (bool c, float[N] x) => (float[N] y) { y = If(c) < then_branch = g ()
  => (float[N] t) { a = Exp(x) t = Identity(a) }, else_branch = h () => (float[N] e) {
  b = Identity(x) e = Neg(b) }> }
  | (bool c, float[N] x) => (float[N] y) { y = If(c) < then_branch = g () => (float[N] t) {
    t = Exp(x) }, else_branch = h () => (float[N] e) { e = Neg(x) }> }
looks into functions: <ir_version: 10, opset_import: ["" : 20, "l" : 1]> m (float[N] x) =>
  (float[N] y) { y = l.F(x) } <domain: "l", opset_import: ["" : 20]> F (a) => (b) { c =
  Identity(a) b = Exp(c) } | <ir_version: 10, opset_import: ["" : 20, "l" : 1]> m (float[N] x)
  => (float[N] y) { y = l.F(x) } <domain: "l", opset_import: ["" : 20]> F (a) => (b) { b =
  Exp(a) }
input-to-output: (float[N] x) => (float[N] y) { y = Identity(x) }
initializer-to-output: () => (float[1] y) <float[1] w = {1}> { y = Identity(w) }
outer-value-as-output-of-a-branch: (bool c, float[N] x) => (float[N] y) { y = If(c) <
  then_branch = g () => (float[N] t) { t = Identity(x) }, else_branch = h () => (float[N] e)
  { e = Neg(x) }> }
""")


def test_dims_that_the_user_declared_on_an_output_stay(rewrites):
    model = rewrites("""(float[2,3] x) => (float[rows,cols] y) <float[2,3] t>
        { t = Exp(x) y = Identity(t) }""")
    assert [str(d) for d in model.graph.outputs[0].shape] == ["rows", "cols"]
