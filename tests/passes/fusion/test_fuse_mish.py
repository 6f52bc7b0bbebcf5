from tests.tables import cases_in, each_of

HEAD = "(float[2,N] x) => (float[2,N] y)"


@each_of("product", "Mul(x, t)", "Mul(t, x)")
def test_fires(product, rewrites):
    before = f"{HEAD} {{ s = Softplus(x) t = Tanh(s) y = {product} }}"
    rewrites(before, f"{HEAD} {{ y = Mish(x) }}")


test_cases = cases_in(lambda body: f"{HEAD} {{ {body} }}")("""
read: s = Softplus(x) t = Tanh(s) r = Mul(x, t) y = Add(r, t)
another-operand: s = Softplus(x) t = Tanh(s) y = Mul(s, t)
""")


def test_leaves_older_opsets_alone(leaves_alone):
    text = f"{HEAD} {{ s = Softplus(x) t = Tanh(s) y = Mul(x, t) }}"
    leaves_alone(f'<ir_version: 8, opset_import: ["" : 17]> g {text}')
