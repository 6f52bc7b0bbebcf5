from tests.tables import cases_in, inferred


def model(body, *, x="float[N,2,H,W] x", more=""):
    return inferred(f"""<ir_version: 8, opset_import: ["" : 18]> g ({x}) => (float[N,?,?,?] y)
      <float[1,2,1,1] s = {{0.5, 3}}, float[2] sr = {{0.5, 3}}, float c = {{2}},
       float[2] cr = {{2, 2}}, float[1,1,1,1] b = {{-1}}, float[2] br = {{-1, -1}},
       float[1,2,1,1] w = {{1, -1}}, float[2] m = {{0, 0}}, float[2] v = {{1, 1}}{more}>
      {{ {body} }}""")


AFFINE = "p = Mul(x, c) t = Add(p, b)"


test_cases = cases_in(model)("""
rows: p = Mul(s, x) t = Add(p, b) y = Conv<pads = [1, 1, 1, 1]>(t, w)
  | t = BatchNormalization<epsilon = 0.0>(x, sr, br, m, v)
    y = Conv<pads = [1, 1, 1, 1]>(t, w)
number: p = Mul(x, c) t = Add(b, p) y = Conv(t, w)
  | t = BatchNormalization<epsilon = 0.0>(x, cr, br, m, v) y = Conv(t, w)
relu: p = Mul(x, c) t = Add(p, b) r = Relu(t) y = Conv(r, w)
  | t = BatchNormalization<epsilon = 0.0>(x, cr, br, m, v) r = Relu(t) y = Conv(r, w)
no-conv: =model(f'{AFFINE} y = Relu(t)')
sum-alone: t = Add(x, b) y = Conv(t, w)
along-the-picture: =model('p = Mul(x, q) t = Add(p, b) y = Conv(t, w)', x='float[N,2,H,3] x',
  more=', float[3] q = {1, 2, 3}')
infinite: =model('p = Mul(x, q) t = Add(p, b) y = Conv(t, w)', more=', float q = {inf}')
unknown-channels: =model(f'{AFFINE} y = Conv(t, w)', x='float[N,C,H,W] x')
line: =model(f'{AFFINE} y = Conv(t, q)', x='float[N,2,W] x', more=', float[1,2,1] q = {1, 2}')
""")
