from tests.tables import pass_cases

test_cases = pass_cases("""
all: (float[2,3] x) => (float[2,3] y) <int64[2] i = {0, 1}> { t = Gather(x, i) y = Exp(t) }
  | (float[2,3] x) => (float[2,3] y) { y = Exp(x) }
from the end: (float[2,3] x) => (float[2,3] y) <int64[3] i = {0, -2, 2}> {
  t = Gather<axis = -1>(x, i) y = Exp(t) } | (float[2,3] x) => (float[2,3] y) { y = Exp(x) }
some: (float[2] x) => (float[1] y) <int64[1] i = {0}> { y = Gather(x, i) }
another order: (float[2,3] x) => (float[2,3] y) <int64[2] i = {1, 0}> { y = Gather(x, i) }
dynamic: (float[N] x) => (float[2] y) <int64[2] i = {0, 1}> { y = Gather(x, i) }
another rank: (float[1] x) => (float[1,1] y) <int64[1,1] i = {0}> { y = Gather(x, i) }
""")
