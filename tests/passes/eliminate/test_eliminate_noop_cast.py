from tests.tables import pass_cases

test_cases = pass_cases("""
same: (float[2,3] x) => (float[2,3] y) { t = Cast<to = 1>(x) y = Exp(t) } | (float[2,3] x) =>
  (float[2,3] y) { y = Exp(x) }
like: (float[2,3] x) => (float[2,3] y) { t = CastLike(x, x) y = Exp(t) } | (float[2,3] x) =>
  (float[2,3] y) { y = Exp(x) }
other type: (float[2] x) => (int64[2] y) { y = Cast<to = 7>(x) }
string: (float[2,3] x) => (float[2,3] y) { t = Cast<to = 8>(x) y = Cast<to = 1>(t) }
""")
