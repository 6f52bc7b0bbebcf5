from tests.tables import pass_cases

test_cases = pass_cases("""
all-rows: (float[2,3] x, float[2,3] u) => (float[2,3] y) <int64[2,1] i = {0, 1}> {
  t = ScatterND(x, i, u) y = Relu(t) }
  | (float[2,3] x, float[2,3] u) => (float[2,3] y) { y = Relu(u) }
all-elements: (float[2,2] x, float[2,2] u) => (float[2,2] y)
  <int64[2,2,2] i = {0, 0, 0, -1, 1, 0, 1, 1}> { t = ScatterND(x, i, u) y = Relu(t) }
  | (float[2,2] x, float[2,2] u) => (float[2,2] y) { y = Relu(u) }
elements-along-an-axis: (float[2,2] x, float[2,2] u) => (float[2,2] y)
  <int64[2,2] i = {0, -1, 0, 1}> { t = ScatterElements<axis = 1>(x, i, u) y = Relu(t) }
  | (float[2,2] x, float[2,2] u) => (float[2,2] y) { y = Relu(u) }
nothing: (float[2,3] x, float[0,3] u) => (float[2,3] y) <int64[0,1] i = {}> {
  t = ScatterND<reduction = "add">(x, i, u) y = Relu(t) }
  | (float[2,3] x, float[0,3] u) => (float[2,3] y) { y = Relu(x) }
no-index-of-depth-0: (float[2,3] x, float[0,2,3] u) => (float[2,3] y) <int64[0,0] i = {}> {
  t = ScatterND(x, i, u) y = Relu(t) }
  | (float[2,3] x, float[0,2,3] u) => (float[2,3] y) { y = Relu(x) }
another-order: (float[2,3] x, float[2,3] u) => (float[2,3] y) <int64[2,1] i = {1, 0}> {
  y = ScatterND(x, i, u) }
a-part: (float[3,3] x, float[2,3] u) => (float[3,3] y) <int64[2,1] i = {0, 1}> {
  y = ScatterND(x, i, u) }
added: (float[2,3] x, float[2,3] u) => (float[2,3] y) <int64[2,1] i = {0, 1}> {
  y = ScatterND<reduction = "add">(x, i, u) }
unknown-size: (float[N,3] x, float[2,3] u) => (float[N,3] y) <int64[2,1] i = {0, 1}> {
  y = ScatterND(x, i, u) }
elements-along-the-other-axis: (float[2,2] x, float[2,2] u) => (float[2,2] y)
  <int64[2,2] i = {0, 1, 0, 1}> { y = ScatterElements<axis = 0>(x, i, u) }
fewer-indices-than-elements: (float[2,2] x, float[2,2] u) => (float[2,2] y)
  <int64[1,2] i = {0, 0}> { y = ScatterElements<axis = 0>(x, i, u) }
an-index-of-depth-0-writes-everything: (float[2,3] x, float[1,2,3] u) => (float[2,3] y)
  <int64[1,0] i = {}> { t = ScatterND(x, i, u) y = Relu(t) }
""")
