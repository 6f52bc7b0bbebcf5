from tests.tables import pass_cases

test_cases = pass_cases("""
zeros: (float[2,3] x) => (float[2,3] y) <int64[4] s = {0, 0, 0, 0}> { t = Pad(x, s)
  y = Exp(t) } | (float[2,3] x) => (float[2,3] y) { y = Exp(x) }
reflect: (float[2,3] x) => (float[2,3] y) <int64[4] s = {0, 0, 0, 0}> {
  t = Pad<mode = "reflect">(x, s) y = Exp(t) }
  | (float[2,3] x) => (float[2,3] y) { y = Exp(x) }
one: (float[2] x) => (float[3] y) <int64[2] s = {0, 1}> { y = Pad(x, s) }
computed: (float[2] x, int64[2] s) => (float[N] y) { y = Pad(x, s) }
crops and pads: (float[2] x) => (float[2] y) <int64[2] s = {-1, 1}> { y = Pad(x, s) }
""")
