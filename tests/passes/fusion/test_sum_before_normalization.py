from tests.tables import cases_in, inferred

WEIGHTS = "float[4] s = {1, 2, 3, 4}, float[4] b = {0, 1, 0, 1}"


def model(body, *, inputs="float[B,T,4] x, float[B,T,4] y", opset=18, weights=WEIGHTS):
    return inferred(f"""<ir_version: 10, opset_import: ["" : {opset}]>
      g ({inputs}) => (float[B,T,4] z, float[B,T,4] t) <{weights}> {{ {body} }}""")


NORMAL = "z = LayerNormalization<axis = -1>(t, s, b)"


SQUARES = "z = RMSNormalization<axis = -1>(t, s) u = Relu(b)"


test_cases = cases_in(model)("""
layer: =model(f't = Add(x, y) {NORMAL}') | =model(f't = Sum(x, y) {NORMAL}')
no-bias: t = Add(x, y) z = LayerNormalization<axis = -1>(t, s) u = Relu(b)
  | t = Sum(x, y) z = LayerNormalization<axis = -1>(t, s) u = Relu(b)
squares: =model(f't = Add(x, y) {SQUARES}', opset=23)
  | =model(f't = Sum(x, y) {SQUARES}', opset=23)
another-reader: t = Add(x, y) z = Relu(t) u = Mul(s, b)
bias: t = Add(x, b) z = LayerNormalization<axis = -1>(t, s, b)
not-what-is-normalized: =model('t = Add(x, y) z = LayerNormalization<axis = -1>(x, s, t)',
  inputs='float[4] y, float[B,T,4] x')
another-rank: =model(f't = Add(x, y) {NORMAL}', inputs='float[B,T,4] x, float[T,4] y')
double: =model(f't = Add(x, y) {NORMAL}', inputs='double[B,T,4] x, double[B,T,4] y',
  weights=WEIGHTS.replace('float', 'double'))
""")
