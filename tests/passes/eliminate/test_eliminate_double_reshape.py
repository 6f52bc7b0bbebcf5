from tests.tables import pass_cases

test_cases = pass_cases("""
reshape: (float[2,N] x) => (float[A,B] y) <int64[3] s = {2, -1, 1}, int64[2] t = {-1, 2}> {
  a = Reshape(x, s) y = Reshape(a, t) }
  | (float[2,N] x) => (float[A,B] y) <int64[2] t = {-1, 2}> { y = Reshape(x, t) }
flatten: (float[2,N] x) => (float[A,B] y) <int64[2] t = {-1, 2}> { a = Flatten<axis = 0>(x)
  y = Reshape(a, t) }
  | (float[2,N] x) => (float[A,B] y) <int64[2] t = {-1, 2}> { y = Reshape(x, t) }
unsqueeze: (float[2,N] x) => (float[A,B] y) <int64[1] s = {0}, int64[2] t = {-1, 2}> {
  a = Unsqueeze(x, s) y = Reshape(a, t) }
  | (float[2,N] x) => (float[A,B] y) <int64[2] t = {-1, 2}> { y = Reshape(x, t) }
copies a dimension of the tensor between: (float[2,N] x) => (float[A,B] y)
  <int64[3] s = {2, -1, 1}, int64[2] t = {0, -1}> { a = Reshape(x, s) y = Reshape(a, t) }
computed target: (float[2,N] x, int64[2] t) => (float[A,B] y) <int64[3] s = {2, -1, 1}> {
  a = Reshape(x, s) y = Reshape(a, t) }
""")
