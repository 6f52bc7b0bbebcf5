from tests.tables import pass_cases

test_cases = pass_cases("""
Max: (float[2,3] x) => (float[2,3] y) { t = Max(x) y = Exp(t) } | (float[2,3] x) => (float[2,3]
  y) { y = Exp(x) }
Min: (float[2,3] x) => (float[2,3] y) { t = Min(x) y = Exp(t) } | (float[2,3] x) => (float[2,3]
  y) { y = Exp(x) }
Sum: (float[2,3] x) => (float[2,3] y) { t = Sum(x) y = Exp(t) } | (float[2,3] x) => (float[2,3]
  y) { y = Exp(x) }
Mean: (float[2,3] x) => (float[2,3] y) { t = Mean(x) y = Exp(t) } | (float[2,3] x) =>
  (float[2,3] y) { y = Exp(x) }
Concat: (float[2,3] x) => (float[2,3] y) { t = Concat<axis = 1>(x) y = Exp(t) } | (float[2,3]
  x) => (float[2,3] y) { y = Exp(x) }
Split: (float[2,3] x) => (float[2,3] y) { t = Split<num_outputs = 1>(x) y = Exp(t) } |
  (float[2,3] x) => (float[2,3] y) { y = Exp(x) }
two: (float[2,3] x) => (float[2,3] y) { y = Max(x, x) }
two parts: (float[2] x) => (float[1] y, float[1] z) { y, z = Split<num_outputs = 2>(x) }
""")
