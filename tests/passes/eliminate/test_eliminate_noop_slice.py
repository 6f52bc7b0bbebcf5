from tests.tables import pass_cases

test_cases = pass_cases("""
to the end: (float[2,N] x) => (float[2,N] y) <int64[1] a = {0}, int64[1] b =
  {9223372036854775807}, int64[1] c = {1}, int64[1] d = {1}> { t = Slice(x, a, b, c, d)
  y = Exp(t) } | (float[2,N] x) => (float[2,N] y) { y = Exp(x) }
behind the end: (float[2,N] x) => (float[2,N] y) <int64[1] a = {0}, int64[1] b = {7},
  int64[1] c = {0}, int64[1] d = {1}> { t = Slice(x, a, b, c, d) y = Exp(t) }
  | (float[2,N] x) => (float[2,N] y) { y = Exp(x) }
before the start: (float[2,N] x) => (float[2,N] y) <int64[1] a = {-2}, int64[1] b = {2},
  int64[1] c = {0}, int64[1] d = {1}> { t = Slice(x, a, b, c, d) y = Exp(t) }
  | (float[2,N] x) => (float[2,N] y) { y = Exp(x) }
negative axis: (float[2,N] x) => (float[2,N] y) <int64[1] a = {0}, int64[1] b = {2147483647},
  int64[1] c = {-1}, int64[1] d = {1}> { t = Slice(x, a, b, c, d) y = Exp(t) }
  | (float[2,N] x) => (float[2,N] y) { y = Exp(x) }
no axes: (float[2,N] x) => (float[2,N] y) <int64[2] a = {0, 0}, int64[2] b = {2, 2147483647}>
  { t = Slice(x, a, b) y = Exp(t) } | (float[2,N] x) => (float[2,N] y) { y = Exp(x) }
one less: (float[2,N] x) => (float[M,K] y) <int64[1] a = {0}, int64[1] b = {1}, int64[1] c =
  {0}, int64[1] d = {1}> { y = Slice(x, a, b, c, d) }
from the second: (float[2,N] x) => (float[M,K] y) <int64[1] a = {1}, int64[1] b = {2},
  int64[1] c = {0}, int64[1] d = {1}> { y = Slice(x, a, b, c, d) }
backwards: (float[2,N] x) => (float[M,K] y) <int64[1] a = {-1}, int64[1] b =
  {-9223372036854775807}, int64[1] c = {0}, int64[1] d = {-1}> { y = Slice(x, a, b, c, d) }
steps: (float[2,N] x) => (float[M,K] y) <int64[1] a = {0}, int64[1] b = {2}, int64[1] c =
  {0}, int64[1] d = {2}> { y = Slice(x, a, b, c, d) }
unknown size: (float[2,N] x) => (float[M,K] y) <int64[1] a = {0}, int64[1] b = {100},
  int64[1] c = {1}, int64[1] d = {1}> { y = Slice(x, a, b, c, d) }
before the last: (float[2,N] x) => (float[M,K] y) <int64[1] a = {0}, int64[1] b = {-1},
  int64[1] c = {1}, int64[1] d = {1}> { y = Slice(x, a, b, c, d) }
""")
