from tests.tables import cases_in

HEAD = """(float[2,N] x) => (float[2,N] y)
<float a = {3}, float b = {0.5}, float[2,1] c = {2, -1},
float[2,2] m = {1, 2, 3, 4}, float none = {0},
int64[4] p = {0, 0, 0, 0}> """


test_cases = cases_in(lambda body: HEAD + "{ " + body + " }")("""
t = Add(x, a) y = Mul(t, c) | >~ Mul Add
t = Add(x, a) y = Add(t, c) | >~ Add
t = Mul(x, a) y = Mul(t, c) | >~ Mul
t = Div(x, a) y = Mul(t, c) | >~ Mul
t = Add(x, c) y = Div(t, a) | >~ Mul Add
y = Sub(x, c) | >~ Add
y = Div(x, b) | >~ Mul
t = Div(x, a) u = Identity(t) y = MatMul(m, u) | >~ Mul Identity MatMul
y = Mul(c, x) | >~ Mul
t = Add(x, none) y = Exp(t) | >~ Exp
y = Neg(x) | >~ Mul
t = Exp(x) u = Sub(x, t) y = Neg(u) | >~ Exp Sub
t = Mul(x, a) u = Mul(x, b) y = Add(t, u) | >~ Mul
t = Mul(x, a) y = Add(t, x) | >~ Mul
t = Sub(x, a) u = Div(t, a) v = Mul(u, c) y = Add(v, b) | >~ Mul Add
y = Div(x, a)
the factor passes zeros: t = Add(x, a) u = Mul(t, c) y = Pad(u, p)
t = Div(x, a) u = MatMul(m, t) y = Add(u, t)
t = Mul(x, a) y = Add(t, b)
one factor would be 0: t = Mul(x, c) y = Add(x, t)
t = Div(x, a) z = Round(t) y = Mul(z, b)
t = Add(x, a) u = Mul(t, b) e = Equal(u, c) y = Where(e, x, a)
t = Add(x, a) u = Mul(t, b) v = Add(u, a) e = Equal(c, v) y = Where(e, x, a)
t = Add(x, b) u = Div(t, a) z = Round(u) y = Mul(z, b)
t = Add(x, b) u = Div(t, a) w = Add(u, b) z = Round(w) y = Mul(z, b)
""")
