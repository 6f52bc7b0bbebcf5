import numpy as np

from onnx_passes.passes.constants import constant_of
from tests.tables import each_of, pass_cases


def graph(body, dtype="float", **constants):
    fixed = ", ".join(
        f"{dtype}{list(np.shape(c)) or ''} {name} = {{{', '.join(map(str, np.ravel(c)))}}}"
        for name, c in constants.items()
    )
    return f"({dtype}[2,3] x) => ({dtype}[?,?] y) <{fixed}> {{ {body} }}"


@each_of(
    "body, a, b, merged",
    ("t = Mul(x, a) y = Mul(t, b)", 2, 3, 6),
    ("t = Mul(a, x) y = Div(t, b)", 2, 4, 0.5),
    ("t = Div(x, a) y = Mul(b, t)", 4, 2, 0.5),
    ("t = Div(x, a) y = Div(t, b)", 2, 4, 0.125),
    ("t = Add(a, x) y = Add(b, t)", 2, 3, 5),
    ("t = Add(x, a) y = Sub(t, b)", 8, 2, 6),
    ("t = Sub(x, a) y = Sub(t, b)", 8, 2, -10),
    ("t = Mul(x, a) y = Mul(t, b)", [1, 2, 3], 2, [2, 4, 6]),
    ("t = Mul(x, a) y = Mul(t, b)", 2, [[3], [4]], [[6], [8]]),
)
def test_fires(body, a, b, merged, rewrites):
    after = rewrites(graph(body, a=a, b=b))
    (node,) = [n for n in after.graph if n.op_type != "Constant"]
    assert constant_of(node.inputs[1]).numpy().tolist() == merged


@each_of("dtype", "int32", "int64")
@each_of("body", "t = Mul(x, a) y = Mul(t, b)", "t = Add(x, a) y = Sub(t, b)")
def test_integers_wrap_around(dtype, body, rewrites):
    big = 2**30 + 12345
    x = np.array([[1, -1, 2**31 - 1], [0, 7, -(2**31)]], dtype)
    rewrites(graph(body, dtype, a=big, b=-big), feeds=[{"x": x}])


test_cases = pass_cases("""
cancel: =graph('t = Add(x, a) y = Sub(t, b)', **{'a': 1000000.0, 'b': 1000000.0})
range: =graph('t = Mul(x, a) y = Mul(t, b)', **{'a': 1e+30, 'b': 1e-30})
zero: =graph('t = Mul(x, a) y = Mul(t, b)', **{'a': 0, 'b': 1})
reciprocal: =graph('t = Mul(x, a) y = Div(b, t)', **{'a': 2, 'b': 3})
from-constant: =graph('t = Sub(a, x) y = Add(t, b)', **{'a': 2, 'b': 3})
both-kinds: =graph('t = Mul(x, a) y = Add(t, b)', **{'a': 2, 'b': 3})
read: =graph('t = Mul(x, a) u = Mul(t, b) y = Add(t, u)', **{'a': 2, 'b': 3})
bigger: =graph('t = Mul(x, a) y = Mul(t, b)', **{'a': [1, 2, 3], 'b': [[1], [2]]})
computed: =graph('c = Abs(a) t = Mul(x, c) y = Mul(t, b)', **{'a': 2, 'b': 3})
leaves quotients of integers alone: =graph('t = Div(x, a) y = Div(t, b)', 'int64', a=2, b=3)
""")
