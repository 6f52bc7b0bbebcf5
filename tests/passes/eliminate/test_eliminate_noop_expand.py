from tests.tables import pass_cases

test_cases = pass_cases("""
ones: (float[2,3] x) => (float[2,3] y) <int64[2] s = {1, 1}> { t = Expand(x, s) y = Exp(t) }
  | (float[2,3] x) => (float[2,3] y) { y = Exp(x) }
own sizes: (float[2,3] x) => (float[2,3] y) <int64[2] s = {1, 3}> { t = Expand(x, s)
  y = Exp(t) } | (float[2,3] x) => (float[2,3] y) { y = Exp(x) }
fewer: (float[2,3] x) => (float[2,3] y) <int64[1] s = {3}> { t = Expand(x, s) y = Exp(t) }
  | (float[2,3] x) => (float[2,3] y) { y = Exp(x) }
tile: (float[2,3] x) => (float[2,3] y) <int64[2] s = {1, 1}> { t = Tile(x, s) y = Exp(t) }
  | (float[2,3] x) => (float[2,3] y) { y = Exp(x) }
more dimensions: (float[2,3] x) => (float[1,2,3] y) <int64[3] s = {1, 1, 1}> {
  y = Expand(x, s) }
bigger: (float[1,3] x) => (float[2,3] y) <int64[2] s = {2, 3}> { y = Expand(x, s) }
dynamic: (float[N] x) => (float[M] y) <int64[1] s = {3}> { y = Expand(x, s) }
tile twice: (float[2] x) => (float[4] y) <int64[1] s = {2}> { y = Tile(x, s) }
""")
