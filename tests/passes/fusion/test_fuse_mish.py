from tests.tables import cases_in

HEAD = "(float[2,N] x) => (float[2,N] y)"
OLD = '<ir_version: 8, opset_import: ["" : 17]> g '


test_cases = cases_in(lambda body: f"{HEAD} {{ {body} }}")("""
s = Softplus(x) t = Tanh(s) y = Mul(x, t) | y = Mish(x)
s = Softplus(x) t = Tanh(s) y = Mul(t, x) | y = Mish(x)
read: s = Softplus(x) t = Tanh(s) r = Mul(x, t) y = Add(r, t)
another-operand: s = Softplus(x) t = Tanh(s) y = Mul(s, t)
before opset 18: =OLD + HEAD + '{ s = Softplus(x) t = Tanh(s) y = Mul(x, t) }'
""")
