from tests.tables import pass_cases

test_cases = pass_cases("""
squeeze first: (float[2,1] x) => (float[2,1] y) <int64[1] a = {1}, int64[1] b = {1}> {
  s = Squeeze(x, a) t = Unsqueeze(s, b) y = Exp(t) }
  | (float[2,1] x) => (float[2,1] y) { y = Exp(x) }
unsqueeze first: (float[2,3] x) => (float[2,3] y) <int64[2] a = {0, 2}, int64[2] b = {2, 0}>
  { s = Unsqueeze(x, a) t = Squeeze(s, b) y = Exp(t) }
  | (float[2,3] x) => (float[2,3] y) { y = Exp(x) }
the-same-axes-counted-from-the-end-stayed: (float[2,3] x) => (float[2,3] y)
  <int64[2] a = {0, 2}, int64[2] b = {-2, 0}> { s = Unsqueeze(x, a) t = Squeeze(s, b)
  y = Exp(t) } | (float[2,3] x) => (float[2,3] y) { y = Exp(x) }
squeeze-first-counted-from-the-end: (float[N,1,3] x) => (float[N,1,3] y)
  <int64[1] a = {-2}, int64[1] b = {1}> { s = Squeeze(x, a) t = Unsqueeze(s, b) y = Exp(t) }
  | (float[N,1,3] x) => (float[N,1,3] y) { y = Exp(x) }
other axes: (float[2] x) => (float[A,B] y) <int64[2] a = {0, 2}, int64[1] b = {0}> {
  s = Unsqueeze(x, a) y = Squeeze(s, b) }
other axes counted from the end: (float[1,1,2] x) => (float[A,B,C] y)
  <int64[1] a = {0}, int64[1] b = {-2}> { s = Squeeze(x, a) y = Unsqueeze(s, b) }
all axes: (float[1] x) => (float[1] y) <int64[1] a = {0}> { s = Squeeze(x)
  y = Unsqueeze(s, a) }
""")
