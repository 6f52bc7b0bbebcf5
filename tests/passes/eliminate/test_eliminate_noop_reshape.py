from tests.tables import pass_cases

test_cases = pass_cases("""
inferred: (float[2,N] x) => (float[2,N] y) <int64[2] s = {2, -1}> { t = Reshape(x, s)
  y = Exp(t) } | (float[2,N] x) => (float[2,N] y) { y = Exp(x) }
copied: (float[2,N] x) => (float[2,N] y) <int64[2] s = {0, 0}> { t = Reshape(x, s)
  y = Exp(t) } | (float[2,N] x) => (float[2,N] y) { y = Exp(x) }
both: (float[2,N] x) => (float[2,N] y) <int64[2] s = {0, -1}> { t = Reshape(x, s)
  y = Exp(t) } | (float[2,N] x) => (float[2,N] y) { y = Exp(x) }
flatten: (float[2,N] x) => (float[2,N] y) { t = Flatten(x) y = Exp(t) }
  | (float[2,N] x) => (float[2,N] y) { y = Exp(x) }
own shape: (float[2,N] x) => (float[2,N] y) { s = Shape(x) t = Reshape(x, s) y = Exp(t) }
  | (float[2,N] x) => (float[2,N] y) { y = Exp(x) }
another shape: (float[2,3] x) => (float[3,2] y) <int64[2] s = {3, -1}> { y = Reshape(x, s) }
a number for a dynamic dimension: (float[2,N] x) => (float[2,N] y) <int64[2] s = {2, 4}> {
  y = Reshape(x, s) }
allowzero: (float[0,3] x) => (float[0,2] y) <int64[2] s = {0, 2}> {
  y = Reshape<allowzero = 1>(x, s) }
another rank: (float[2] x) => (float[1,2] y) <int64[2] s = {1, 2}> { y = Reshape(x, s) }
part of the shape: (float[2,N] x) => (float[2] y) <int64[1] a = {1}> {
  s = Shape<start = 0, end = 1>(x) t = ReduceSum<keepdims = 0>(x, a) y = Reshape(t, s) }
""")
