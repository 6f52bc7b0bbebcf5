from onnx_passes.passes.fusion.fuse_silu import FuseSilu
from tests.tables import cases_in, each_row

HEAD = '<ir_version: 11, opset_import: ["" : 24]> g (float[2,N] x) => (float[?,?] y)'


def graph(body, head=HEAD):
    return (
        f"{head} <float c = {{1.702}}, float[1,1,1] w = {{2}}, float k = {{2}}> {{ {body} }}"
    )


test_cases = cases_in(graph)("""
s = Sigmoid(x) y = Mul(x, s) | y = Swish(x)
s = Sigmoid(x) y = Mul(s, x) | y = Swish(x)
t = Mul(c, x) s = Sigmoid(t) y = Mul(x, s) | y = Swish<alpha = 1.702>(x)
read: s = Sigmoid(x) r = Mul(x, s) y = Add(r, s)
bigger: =graph('t = Mul(x, w) s = Sigmoid(t) y = Mul(x, s)', HEAD.replace('[?,?]', '[?,?,?]'))
another-operand: t = Abs(x) s = Sigmoid(t) y = Mul(x, s)
computed: d = Abs(k) t = Mul(x, d) s = Sigmoid(t) y = Mul(x, s)
before opset 24: =graph('s = Sigmoid(x) y = Mul(x, s)', HEAD.replace('24', '23'))
""")


@each_row("""body | after
- s = Sigmoid(x) y = Mul(x, s) | Silu(x)
- t = Mul(c, x) s = Sigmoid(t) y = Mul(x, s) | Swish<alpha = 1.702>(x)
""")
def test_makes_an_operator_of_our_own_at_any_opset(body, after, rewrites):
    head = HEAD.replace(": 24", ": 18").replace("]>", ', "onnx_passes.ops" : 1]>')
    before = f"{head} <float c = {{1.702}}> {{ {body} }}"
    rewrites(FuseSilu(custom=True), before, f"{head} {{ y = onnx_passes.ops.{after} }}")
