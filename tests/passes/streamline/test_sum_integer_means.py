from onnx_passes import testing
from onnx_passes.passes.streamline._integer_ranges import integer_ranges
from onnx_passes.passes.streamline.annotate_integers import KEY, AnnotateIntegers
from onnx_passes.passes.streamline.sum_integer_means import SumIntegerMeans
from tests.tables import each_of, inferred

GRAPH = """(float[N,2,6,6] x) => (float[A,B,C,D] y) <float[3] t = {{0, 1, 2}}, float w = {{1}},
float c = {{{low}}}, int64[2] r = {{-1, 2}}, int64[1] one = {{1}}>
{{ a = o.MultiThreshold(x, t, w) b = Add(a, c) y = {mean} }}"""
SQUARE = "AveragePool<kernel_shape = [3, 3], strides = [2, 2]>(b)"


def model_of(text, mean, low=0):
    return inferred(text(GRAPH.format(mean=mean, low=low)))


@each_of(
    "mean, low, told",
    (SQUARE, 0, {"kernel": 3, "stride": 2, "ibits": 2, "obits": 5, "signed": 0}),
    (SQUARE, -2, {"kernel": 3, "stride": 2, "ibits": 2, "obits": 6, "signed": 1}),
    ("ReduceMean(b, r)", 0, {"kernel": 6, "stride": 6, "ibits": 2, "obits": 7}),
    ("AveragePool<kernel_shape = [2, 2]>(b)", 0, {"stride": 1, "obits": 4}),
)
def test_fires(mean, low, told, text, applied):
    model = model_of(text, mean, low)
    assert applied(model)
    (pool,) = (node for node in model.graph if node.op_type == "QuantAvgPool2d")
    found = {a.name: a.value for a in pool.attributes.values()}
    assert {name: found[name] for name in told} == told
    assert [node.op_type for node in model.graph if node.op_type != "Constant"][-1] == "Div"
    assert not SumIntegerMeans()(model).modified
    AnnotateIntegers()(model)
    bits = found["obits"]
    assert pool.outputs[0].meta["quant_parameter_tensor_names"][KEY] in {
        f"{sign}INT{n}" for sign in ("U", "") for n in range(1, bits + 1)
    }


@each_of(
    "mean, kinds",
    ("ReduceMean(b, one)", ["ReduceSum"]),
    ("AveragePool<kernel_shape = [3, 2], strides = [1, 2]>(b)", ["Conv"]),
    ("AveragePool<kernel_shape = [2, 2], dilations = [2, 2]>(b)", ["Conv"]),
)
def test_sums_of_other_elements(mean, kinds, text, applied):
    model = model_of(text, mean, -2)
    assert applied(model)
    made = [node.op_type for node in model.graph if node.op_type != "Constant"]
    assert made == ["MultiThreshold", "Add", *kinds, "Div"]
    assert model.graph.outputs[0].producer().inputs[0] in integer_ranges(model.graph)


PLANE = """(float[N,2,5] x) => (float[N,3] y) <float[3] t = {0, 1, 2}, float w = {1},
float[2,3] m = {1, 2, 3, 4, 5, 6}, int64[1] e = {-1}> {
a = o.MultiThreshold(x, t, w) b = GlobalAveragePool(a) c = Squeeze(b, e) y = MatMul(c, m) }"""


def test_a_global_mean_in_front_of_a_product(text, applied):
    model = testing.parse(text(PLANE))
    assert applied(model)
    assert [n.op_type for n in model.graph][-4:] == ["ReduceSum", "Div", "Squeeze", "MatMul"]


@each_of(
    "mean",
    "AveragePool<kernel_shape = [3, 2], ceil_mode = 1>(b)",
    "AveragePool<kernel_shape = [3, 3], pads = [1, 1, 1, 1]>(b)",
    "AveragePool<kernel_shape = [3, 3]>(x)",
    "GlobalAveragePool(b)",
    "ReduceMean(x, one)",
    "ReduceMean(b)",  # over a batch of any size
)
def test_leaves_alone(mean, text):
    testing.assert_leaves_alone(SumIntegerMeans(), model_of(text, mean))
