from tests.tables import pass_cases

test_cases = pass_cases("""
plain: (float[2,3] x) => (float[2,3] y) { t = Dropout(x) y = Exp(t) } | (float[2,3] x) =>
  (float[2,3] y) { y = Exp(x) }
with a mask that nobody reads: (float[2,3] x) => (float[2,3] y) { t, m = Dropout(x) y = Exp(t)
  } | (float[2,3] x) => (float[2,3] y) { y = Exp(x) }
not training: (float[2,3] x) => (float[2,3] y) <float r = {0.5}, bool f = {0}> { t = Dropout(x,
  r, f) y = Exp(t) } | (float[2,3] x) => (float[2,3] y) { y = Exp(x) }
opset 7: <ir_version: 8, opset_import: ["" : 7]> m (float[2,3] x) => (float[2,3] y) { t =
  Dropout(x) y = Exp(t) } | <ir_version: 8, opset_import: ["" : 7]> m (float[2,3] x) =>
  (float[2,3] y) { y = Exp(x) }
training: (float[2,3] x) => (float[2,3] y) <float r = {0.5}, bool f = {1}> {
  y = Dropout<seed = 1>(x, r, f) }
the mask is read: (float[2] x) => (float[2] y, bool[2] m) { y, m = Dropout(x) }
computed mode: (float[2] x, bool f) => (float[2] y) <float r = {0.5}> {
  y = Dropout<seed = 1>(x, r, f) }
opset 6: <ir_version: 8, opset_import: ["" : 6]> m (float[2] x) => (float[2] y) {
  y = Dropout<is_test = 0>(x) }
""")
