import numpy as np
import onnx_ir as ir

from onnx_passes.passes.common.large_tensors import SMALL
from onnx_passes.passes.folding.sink_initializers import SinkInitializers
from onnx_passes.testing import assert_leaves_alone, parse
from tests.tables import pass_cases

HELD = "float[2] w = {1, 2}"


def branches(inner, *, outer="", held="", body=""):
    return f"""(float[2] x, bool c) => (float[2] y) {f"<{held}>" if held else ""} {{ {outer}
      y = If (c) <
        then_branch = th () => (float[2] p) {f"<{body}>" if body else ""} {{ {inner} }},
        else_branch = el () => (float[2] q) {{ q = Identity(x) }}> }}"""


def test_fires_in_loops(rewrites):
    def of(held, body):
        return f"""(float[2] x) => (float[2] y) <int64 n = {{3}}, bool c = {{1}}{held}> {{
          y = Loop (n, c, x) <body = b (int64 i, bool k, float[2] s) => (bool l, float[2] o)
            {body} {{ l = Identity(k) o = Add(s, w) }}> }}"""

    rewrites(of(f", {HELD}", ""), of("", f"<{HELD}>"))


def test_goes_down_several_graphs(rewrites):
    def of(held, body):
        inner = f"""p = If (c) <
          then_branch = th2 () => (float[2] r) {body} {{ r = Add(x, w) }},
          else_branch = el2 () => (float[2] s) {{ s = Identity(x) }}>"""
        return branches(inner, held=held)

    rewrites(of(HELD, ""), of("", f"<{HELD}>"))


test_cases = pass_cases("""
=branches('t = Add(x, w) p = Mul(t, w)', held=HELD) | =branches('t = Add(x, w) p = Mul(t, w)',
  body=HELD)
outside: =branches('p = Add(x, w)', outer='t = Add(x, w)', held=HELD)
two-bodies: =branches('p = Add(x, w)', held=HELD).replace('Identity(x)', 'Mul(x, w)')
default-of-an-input: =branches('p = Add(x, w)', held=HELD).replace('(float[2] x,', '(float[2]
  x, float[2] w,')
output: =branches('p = Add(x, w)', held=HELD).replace('(float[2] y)', '(float[2] y, float[2]
  w)')
there-already: =branches('p = Add(x, w)', body=HELD)
""")


def test_large_constants_stay():
    model = parse(
        branches(
            "t = Reshape(w, s) u = Gather(t, i) p = Add(x, u)",
            held=HELD + ", int64[2] s = {-1, 2}, int64 i = {0}",
        )
    )
    large = np.zeros(SMALL // 4, np.float32)
    model.graph.initializers["w"].const_value = ir.tensor(large, name="w")
    model.graph.initializers["w"].shape = ir.Shape(large.shape)
    SinkInitializers()(model)
    assert list(model.graph.initializers) == ["w"]
    assert_leaves_alone(SinkInitializers(), model)
