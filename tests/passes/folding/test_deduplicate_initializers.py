from tests.tables import pass_cases

test_cases = pass_cases("""
pair: (float[2] x) => (float[2] y) <float[2] a = {1, 2}, float[2] b = {1, 2}> { t = Mul(x, a)
  y = Add(t, b) }
  | (float[2] x) => (float[2] y) <float[2] a = {1, 2}> { t = Mul(x, a) y = Add(t, a) }
in-a-branch: (bool c, float[1] x) => (float[1] y) <float[1] a = {5}> { u = Add(x, a)
  y = If(c) < then_branch = g () => (float[1] t) <float[1] b = {5}> { t = Add(u, b) },
  else_branch = h () => (float[1] e) { e = Neg(u) }> }
  | (bool c, float[1] x) => (float[1] y) <float[1] a = {5}> { u = Add(x, a) y = If(c) <
    then_branch = g () => (float[1] t) { t = Add(u, a) }, else_branch = h () => (float[1] e)
    { e = Neg(u) }> }
one-is-returned: (float[1] x) => (float[1] y, float[1] b)
  <float[1] a = {1}, float[1] b = {1}, float[1] c = {1}> { t = Mul(x, a) y = Add(t, c) }
  | (float[1] x) => (float[1] y, float[1] b) <float[1] a = {1}, float[1] b = {1}> {
    t = Mul(x, a) y = Add(t, a) }
zero-and-negative-zero: (float[1] x) => (float[1] y) <float[1] a = {0}, float[1] b = {-0.0}>
  { t = Div(x, a) y = Div(t, b) }
type: (float[1] x, int32[1] i) => (float[1] y, int32[1] z)
  <float[1] a = {0}, int32[1] b = {0}> { y = Add(x, a) z = Add(i, b) }
shape: (float[1] x) => (float[1] y) <float[1] a = {1}, float b = {1}> { t = Add(x, a)
  y = Add(t, b) }
overridable: (float[1] x, float[1] a) => (float[1] y) <float[1] a = {1}, float[1] b = {1}> {
  t = Add(x, a) y = Add(t, b) }
two-branches: (bool c, float[1] x) => (float[1] y) { y = If(c) < then_branch = g ()
  => (float[1] t) <float[1] a = {5}> { t = Add(x, a) }, else_branch = h () => (float[1] e)
  <float[1] b = {5}> { e = Mul(x, b) }> }
strings-whose-bytes-joined-are-equal: () => (string[2] y, string[2] z)
  <string[2] a = {"a", "bc"}, string[2] b = {"ab", "c"}> { y = Identity(a) z = Identity(b) }
""")
