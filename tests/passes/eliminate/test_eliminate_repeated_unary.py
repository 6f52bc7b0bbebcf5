from tests.tables import pass_cases

test_cases = pass_cases("""
not: (bool[2] x) => (bool[2] y) { a = Not(x) b = Not(a) y = And(b, x) } | (bool[2] x) =>
  (bool[2] y) { y = And(x, x) }
neg: (float[2,3] x) => (float[2,3] y) { a = Neg(x) b = Neg(a) y = Exp(b) } | (float[2,3] x) =>
  (float[2,3] y) { y = Exp(x) }
relu: (float[2] x) => (float[2] y) { a = Relu(x) y = Relu(a) } | (float[2] x) => (float[2] y) {
  y = Relu(x) }
floor of ceil: (float[2] x) => (float[2] y) { a = Ceil(x) y = Floor(a) } | (float[2] x) =>
  (float[2] y) { y = Ceil(x) }
abs of neg: (float[2] x) => (float[2] y) { a = Neg(x) y = Abs(a) } | (float[2] x) => (float[2]
  y) { y = Abs(x) }
neg of abs: (float[2] x) => (float[2] y) { a = Abs(x) y = Neg(a) }
relu of neg: (float[2] x) => (float[2] y) { a = Neg(x) y = Relu(a) }
""")
