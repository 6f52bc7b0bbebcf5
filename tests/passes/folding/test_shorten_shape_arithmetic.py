import onnx_ir as ir

from onnx_passes import testing
from onnx_passes.passes.annotation.shape_inference import ShapeInference
from onnx_passes.passes.folding.shorten_shape_arithmetic import ShortenShapeArithmetic
from tests.tables import each_row, inferred


class ShortenAfterInference(ShortenShapeArithmetic):
    """What a pipeline runs: the pass after the one it requires."""

    def call(self, model):
        ShapeInference()(model)
        return super().call(model)


CONSTANTS = """<int64[1] zero = {0}, int64[1] one = {1}, int64[1] three = {3},
    int64 i = {1}, int64 j = {2}>"""


@each_row("""body | start | end
gather: s = Shape(x) g = Gather(s, i) n = Unsqueeze(g, zero) | =1 | =2
slice: s = Shape(x) n = Slice(s, one, three) | =1 | =None
concat: s = Shape(x) g = Gather(s, i) h = Gather(s, j) a = Unsqueeze(g, zero)
  b = Unsqueeze(h, zero) n = Concat<axis = 0>(a, b) | =1 | =None
cast-and-reshape: s = Shape(x) g = Gather(s, i) c = Cast<to = 6>(g) d = Cast<to = 7>(c)
  n = Reshape(d, one) | =1 | =2
of-a-part: s = Shape<start = 1>(x) a = Slice(s, zero, one) n = Identity(a) | =1 | =2
""")
def test_one_shape_is_enough(body, start, end, rewrites):
    model = rewrites(
        ShortenAfterInference(),
        f"(float[A,B,C] x) => (int64[?] y) {CONSTANTS} {{ {body} y = Mul(n, n) }}",
    )
    shape, _ = model.graph
    assert shape.op_type == "Shape"
    assert shape.attributes.get_int("start", 0) == start
    assert shape.attributes.get_int("end") == end


def test_the_output_keeps_its_name(rewrites):
    model = rewrites(
        ShortenAfterInference(),
        f"""(float[A,B,C] x) => (int64[1] y) {CONSTANTS}
        {{ s = Shape(x) g = Gather(s, i) y = Unsqueeze(g, zero) }}""",
    )
    assert [n.op_type for n in model.graph] == ["Shape"]


def test_in_a_subgraph(rewrites):
    model = rewrites(
        ShortenAfterInference(),
        f"""(bool k, float[A,B,C] x) => (int64[1] y) {CONSTANTS} {{ y = If(k) <
          then_branch = g () => (int64[1] t) {{ s = Shape(x) g1 = Gather(s, i)
            t = Unsqueeze(g1, zero) }},
          else_branch = h () => (int64[1] e) {{ e = Identity(one) }}> }}""",
    )
    branch = model.graph[0].attributes["then_branch"].as_graph()
    assert [n.op_type for n in branch] == ["Shape"]


@each_row("""text
opset-14: <ir_version: 8, opset_import: ["" : 14]> m (float[A,B] x) => (int64[1] y)
  <int64 i = {1}, int64[1] zero = {0}> { s = Shape(x) g = Gather(s, i)
  y = Unsqueeze(g, zero) }
what-is-read-elsewhere: (float[A,B] x) => (int64[1] y, int64 g)
  <int64 i = {1}, int64[1] zero = {0}> { s = Shape(x) g = Gather(s, i)
  y = Unsqueeze(g, zero) }
another-order: (float[A,B] x) => (int64[2] y) <int64[2] i = {1, 0}> { s = Shape(x)
  g = Gather(s, i) y = Mul(g, g) }
a-product: (float[A,B] x) => (int64[2] y) { s = Shape(x) y = Mul(s, s) }
an-index-that-is-computed: (float[A,B] x, int64 i) => (int64[1] y) <int64[1] zero = {0}> {
  s = Shape(x) g = Gather(s, i) y = Unsqueeze(g, zero) }
""")
def test_leaves_alone(text):
    testing.assert_leaves_alone(ShortenShapeArithmetic(), inferred(text))


def test_functions_are_left_alone():
    model = ir.from_onnx_text("""<ir_version: 10, opset_import: ["" : 20, "l" : 1]>
        m (float[N] x) => (int64[1] y) { y = l.F(x) }
        <domain: "l", opset_import: ["" : 20]>
        F (a) => (b) { i = Constant<value_int = 0>() z = Constant<value_ints = [0]>()
        s = Shape(a) g = Gather(s, i) b = Unsqueeze(g, z) }""")
    assert not ShortenAfterInference()(model).modified
