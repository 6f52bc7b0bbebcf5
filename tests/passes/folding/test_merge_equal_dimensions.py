import onnx_ir as ir

from onnx_passes import testing
from onnx_passes.passes.annotation.shape_inference import ShapeInference
from onnx_passes.passes.folding.merge_equal_dimensions import MergeEqualDimensions
from tests.tables import each_row, inferred


class MergeAfterInference(MergeEqualDimensions):
    """What a pipeline runs: the pass after the one it requires."""

    def call(self, model):
        ShapeInference()(model)
        return super().call(model)


USED = "r = Expand(z, a) q = Expand(z, b) y = Concat<axis = 0>(r, q)"


def merged(rewrites, body, inputs="float[N,M] x, float[1] z"):
    """The operators left of a body that computes a and b, which Expand reads."""
    model = rewrites(
        MergeAfterInference(),
        f"""({inputs}) => (float[?] y) <int64[1] one = {{1}}, int64[1] two = {{2}},
        int64[1] zero = {{0}}> {{ {body} {USED} }}""",
    )
    first, second = (node for node in model.graph if node.op_type == "Expand")
    assert first.inputs[1] is second.inputs[1]
    return [node.op_type for node in model.graph]


def test_one_dimension_of_two_tensors(rewrites):
    left = merged(
        rewrites,
        "a = Shape<end = 1>(x) t = Relu(x) b = Shape<end = 1>(t)",
        "float[N,M] x, float[1] z",
    )
    assert left.count("Shape") == 1


@each_row("""ways
4n: c = Add(n, n) a = Mul(c, two) f = Add(two, two) b = Mul(n, f)
nm: a = Mul(n, m) b = Mul(m, n)
(n + 1) m: c = Add(n, one) a = Mul(c, m) d = Mul(n, m) b = Add(m, d)
2n/2: c = Mul(n, two) d = Div(c, two) a = Mul(d, m) b = Mul(n, m)
n - m + 3m: c = Add(n, m) a = Add(c, m) d = Sub(n, m) b1 = Mul(m, two) b2 = Add(b1, m)
  b = Add(d, b2)
product: p = Concat<axis = 0>(n, m) a = ReduceProd(p) b = Mul(n, m)
size: c = Size(x) a = Reshape(c, one) b = Mul(n, m)
minus minus: c = Neg(n) a = Sub(m, c) b = Add(n, m)
casts of a dimension: c = Cast<to = 6>(n) d = Cast<to = 7>(c) a = Add(d, m) b = Add(n, m)
""")
def test_two_ways_to_compute_one_size(ways, rewrites):
    merged(rewrites, f"n = Shape<end = 1>(x) m = Shape<start = 1>(x) {ways}")


def test_outputs_keep_their_names(rewrites):
    model = rewrites(
        MergeAfterInference(),
        "(float[N] x) => (int64[1] a, int64[1] b) { a = Shape(x) t = Relu(x) b = Shape(t) }",
    )
    assert [n.op_type for n in model.graph][-1] == "Identity"


@each_row("""body
two-dimensions: a = Shape<end = 1>(x) b = Shape<start = 1>(x)
int32-may-wrap: n = Shape<end = 1>(x) c = Cast<to = 6>(n) a = Shape<end = 1>(c) d = Mul(c, c)
  b = Cast<to = 7>(d) e = Mul(n, n)
a-quotient-that-rounds: n = Shape<end = 1>(x) c = Div(n, two) a = Mul(c, two) b = Mul(n, one)
a-dimension-that-depends-on-data: a = Shape<end = 1>(x) c = NonZero(x)
  b = Shape<start = 1>(c)
""")
def test_leaves_alone(body):
    model = ir.from_onnx_text(f"""<ir_version: 10, opset_import: ["" : 20]> m (float[N,M] x,
        float[1] z)
        => (float[?] y) <int64[1] one = {{1}}, int64[1] two = {{2}}> {{ {body} {USED} }}""")
    MergeAfterInference()(model)
    first, second = (node for node in model.graph if node.op_type == "Expand")
    assert first.inputs[1] is not second.inputs[1]


def test_the_type_must_be_the_same_too():
    model = inferred(
        "(float[N] x) => (int64[1] a, int32[1] b) { a = Shape(x) b = Cast<to = 6>(a) }"
    )
    testing.assert_leaves_alone(MergeEqualDimensions(), model)
