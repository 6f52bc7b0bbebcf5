import pytest

from onnx_passes.passes.fusion.fuse_silu import FuseSilu
from tests.tables import each_of, each_row

HEAD = '<ir_version: 11, opset_import: ["" : 24]> g (float[2,N] x) => (float[?,?] y)'


@each_row("""body | after
- s = Sigmoid(x) y = Mul(x, s) | Swish(x)
- s = Sigmoid(x) y = Mul(s, x) | Swish(x)
- t = Mul(c, x) s = Sigmoid(t) y = Mul(x, s) | Swish<alpha = 1.702>(x)
""")
def test_fires(body, after, rewrites):
    rewrites(f"{HEAD} <float c = {{1.702}}> {{ {body} }}", f"{HEAD} {{ y = {after} }}")


@each_of(
    "body",
    pytest.param("s = Sigmoid(x) r = Mul(x, s) y = Add(r, s)", id="read"),
    pytest.param("t = Mul(x, w) s = Sigmoid(t) y = Mul(x, s)", id="bigger"),
    pytest.param("t = Abs(x) s = Sigmoid(t) y = Mul(x, s)", id="another-operand"),
    pytest.param("c = Abs(k) t = Mul(x, c) s = Sigmoid(t) y = Mul(x, s)", id="computed"),
)
def test_leaves_alone(body, leaves_alone):
    head = HEAD.replace("[?,?]", "[?,?,?]") if "w)" in body else HEAD
    leaves_alone(f"{head} <float[1,1,1] w = {{2}}, float k = {{2}}> {{ {body} }}")


def test_leaves_older_opsets_alone(leaves_alone):
    leaves_alone(f"{HEAD} {{ s = Sigmoid(x) y = Mul(x, s) }}".replace("24", "23"))


@each_row("""body | after
- s = Sigmoid(x) y = Mul(x, s) | Silu(x)
- t = Mul(c, x) s = Sigmoid(t) y = Mul(x, s) | Swish<alpha = 1.702>(x)
""")
def test_makes_an_operator_of_our_own_at_any_opset(body, after, rewrites):
    head = HEAD.replace(": 24", ": 18").replace("]>", ', "onnx_passes.ops" : 1]>')
    before = f"{head} <float c = {{1.702}}> {{ {body} }}"
    rewrites(FuseSilu(custom=True), before, f"{head} {{ y = onnx_passes.ops.{after} }}")
