from tests.tables import each_of

HEAD = "(float[N,1,3] x) => (float[N,1,3] y) <int64[1] one = {1}, int64[1] last = {-1}> "


@each_of("kind", "Sum", "Mean", "Max", "Min", "Prod")
def test_fires(kind, rewrites):
    model = rewrites(HEAD + f"{{ y = Reduce{kind}(x, one) }}")
    assert [node.op_type for node in model.graph] == ["Identity"]


PIXEL = "(float[N,2,1,1] x) => (float[N,2,1,1] y)"


def test_the_mean_of_one_pixel_is_the_pixel(rewrites):
    model = rewrites(PIXEL + "{ y = GlobalAveragePool(x) }")
    assert [node.op_type for node in model.graph] == ["Identity"]


@each_of(
    "graph",
    "(float[N,1,3] x) => (float[N,1,1] y) <int64[1] a = {2}> { y = ReduceSum(x, a) }",
    HEAD + "{ y = ReduceL1(x, one) }",
    # ONNX Runtime computes the least float of minus infinity.
    PIXEL + "{ y = GlobalMaxPool(x) }",
)
def test_leaves_alone(graph, leaves_alone):
    leaves_alone(graph)
