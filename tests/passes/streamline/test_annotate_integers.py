import numpy as np

from onnx_passes import testing
from onnx_passes.passes.streamline._integer_ranges import IntegerRange, integer_ranges
from onnx_passes.passes.streamline.annotate_integers import KEY, AnnotateIntegers
from onnx_passes.runtime.ort import OnnxRuntimeEngine
from tests.tables import each_of, each_row

GRAPH = """(float[N,2] x) => (float[N,2] y) <float[3] t = {0, 1, 2}, float w = {1},
float[2,2] m = {1, -1, 2, 3}, float c = {-1}>
{ a = o.MultiThreshold(x, t, w) b = Add(a, c) p = MatMul(b, m) q = Exp(p) y = Mul(q, p) }"""


def test_accumulators_are_as_wide_as_their_weights_need(text, rewrites):
    model = rewrites(text(GRAPH))
    noted = {
        value.name: value.meta["quant_parameter_tensor_names"][KEY]
        for node in model.graph
        for value in node.outputs
        if "quant_parameter_tensor_names" in value.meta
    }
    # b lies in [-1, 2]; the columns of m give [-3, 6] and [-1 * 2 - 3, 1 + 6].
    assert noted == {"a": "UINT2", "b": "INT3", "p": "INT4"}
    assert not AnnotateIntegers()(model).modified


@each_of(
    "low, high, name",
    (0, 1, "BINARY"),
    (0, 3, "UINT2"),
    (0, 4, "UINT3"),
    (-1, 1, "TERNARY"),
    (-4, 3, "INT3"),
    (-5, 3, "INT4"),
    (-1, 127, "INT8"),
    (-129, 0, "INT9"),
)
def test_names(low, high, name):
    assert IntegerRange(low, high).name == name


def noted(graph, text):
    model = testing.parse(text(graph))
    AnnotateIntegers()(model)
    return {
        value.name: value.meta["quant_parameter_tensor_names"][KEY]
        for node in model.graph
        for value in (*node.inputs, *node.outputs)
        if value is not None and "quant_parameter_tensor_names" in value.meta
    }


def test_two_levels_are_bipolar_and_so_are_weights(text):
    graph = """(float[N,2] x) => (float[N,2] y) <float[1] t = {0}, float w = {2},
    float c = {-1}, float[2,2] m = {1, -1, 1, 1}>
    { a = o.MultiThreshold(x, t, w) b = Add(a, c) y = MatMul(b, m) }"""
    found = noted(graph, text)
    assert (found["b"], found["m"]) == ("BIPOLAR", "BIPOLAR")
    assert found["y"] == "INT3", "-2 and 2 are reached"


def test_a_width_holds_for_every_sum_on_the_way(text):
    graph = """(float[N,2] x) => (float[N,1] y) <float[1] t = {0}, float w = {1},
    float c = {3}, float[2,1] m = {5, -5}>
    { a = o.MultiThreshold(x, t, w) b = Add(a, c) y = MatMul(b, m) }"""
    # The result lies between -5 and 5, but -20 or 20 may be summed up first.
    assert noted(graph, text)["y"] == "INT6"


def test_a_product_of_two_computed_matrices_is_as_wide_as_its_depth_needs(text):
    graph = """(float[3,4] x, float[4,5] z) => (float[3,5] y) <float[3] t = {0, 1, 2},
    float w = {1}, float[3,4] a, float[4,5] b>
    { a = o.MultiThreshold(x, t, w) b = o.MultiThreshold(z, t, w)
    y = MatMul(a, b) }"""
    assert noted(graph, text)["y"] == "UINT6"


STEPS = """<float[3] t = {0, 1, 2}, float w = {1}, float[1,1,3,3] k = {1,2,3,4,-5,6,7,8,9},
float[2,1,1,1] m = {3, -2}, float[1,2,1,1] h = {3, -2}, float f = {-1},
int64[8] e = {0, 0, 1, 1, 0, 0, 1, 1}, float[4] r = {1, 1, 2, 2}, int64[2] p = {1, 1}>"""


@each_of(
    "body, found",
    # Taps 1, 3, 7 and 9, 2 and 8, 4 and 6, or -5 alone: each times 0 to 3.
    ("y = ConvTranspose<strides = [2, 2]>(a, k)", "INT7"),
    # All nine taps: 40 times 3 and -5 times 3.
    ("y = ConvTranspose(a, k)", "INT8"),
    ("y = ConvTranspose<strides = [2, 2], dilations = [2, 2]>(a, k)", "INT8"),
    ("y = ConvTranspose<group = 1>(a, h)", "INT5"),
    ("y = Pad(a, e)", "UINT2"),
    ("y = Pad(a, e, f)", "INT3"),
    ("y = Resize(a, , r)", "UINT2"),
    ("y, z = Split<axis = 2>(a, p)", "UINT2"),
)
def test_widths(body, found, text):
    size = 2 if "Split" in body else "N"
    graph = f"(float[1,1,{size},2] x) => (float[A,B,C,D] y) {STEPS} "
    assert noted(graph + f"{{ a = o.MultiThreshold(x, t, w) {body} }}", text)["y"] == found


def test_accumulators_of_spread_images_hold_what_is_reached(text):
    """No bound is lower than what data of the range reaches, and some data reaches it."""
    draw = np.random.default_rng(1)
    for strides, groups in [((1, 1), 1), ((2, 1), 2), ((3, 2), 1), ((2, 2), 2)]:
        weights = draw.integers(-7, 8, (2 * groups, 2, 3, 2)).astype(np.float32)
        size, numbers = 2 * groups, ", ".join(map(str, weights.ravel()))
        graph = f"""(float[1,{size},4,4] x) => (float[A,B,C,D] y) <float[3] t = {{0, 1, 2}},
        float w = {{1}}, float[{size},2,3,2] k = {{{numbers}}}>
        {{ a = o.MultiThreshold(x, t, w)
        y = ConvTranspose<strides = [{strides[0]}, {strides[1]}], group = {groups}>(a, k) }}"""
        model = testing.parse(text(graph))
        bound = integer_ranges(model.graph)[model.graph.outputs[0]]
        reached = []
        with OnnxRuntimeEngine(prepacking=False).prepare(model) as session:
            for _ in range(3000):
                x = draw.choice([-1.0, 2.0], (1, 2 * groups, 4, 4)).astype(np.float32)
                reached.append(session.run({"x": x})["y"])
        assert bound.low <= np.min(reached)
        assert np.max(reached) <= bound.high
        # Random data comes close to the bound of the few taps that one element sees.
        assert np.max(reached) >= 0.6 * bound.high


DECLARED = """(float[N,2] x) => (float[N,2] y) <float[2,2] m = {1, -1, 2, 3}>
{ y = MatMul(x, m) }"""


@each_row("""datatype | found
- UINT8 | INT11
- INT4 | INT6
- BIPOLAR | INT4
- TERNARY | INT4
""")
def test_a_datatype_that_is_noted_at_an_input_holds(datatype, found, text):
    model = testing.parse(text(DECLARED))
    model.graph.inputs[0].meta["quant_parameter_tensor_names"] = {KEY: datatype}
    assert AnnotateIntegers()(model).modified
    assert model.graph.outputs[0].meta["quant_parameter_tensor_names"][KEY] == found
    assert model.graph.outputs[0] not in integer_ranges(model.graph)


@each_of(
    "attributes, found",
    ("", "UINT2"),
    ("out_bias = -2.0,", "INT2"),
    ("out_scale = 2.0,", "UINT3"),
)
def test_thresholds_of_qonnx_make_integers(attributes, found, text):
    graph = f"""(float[N,2] x) => (float[N,2] y) <float[2,3] t = {{0, 1, 2, 3, 4, 5}}>
    {{ y = q.MultiThreshold<{attributes} data_layout = "NC">(x, t) }}"""
    assert noted(graph, text)["y"] == found


@each_of(
    "low, kernel, bits, name",
    (0, 2, 4, "UINT4"),
    (-8, 2, 4, "INT4"),
    (0, 3, 8, "UINT8"),
    (0, 2, 9, "UINT6"),
)
def test_a_truncated_sum_of_a_window_is_an_integer(text, low, kernel, bits, name):
    steps = ", ".join(str(step + 0.5) for step in range(15))
    graph = f"""(float[1,2,6,6] x) => (float[1,2,A,B] y) <float[15] t = {{{steps}}},
    float w = {{1}}, float c = {{{low}}}>
    {{ a = o.MultiThreshold(x, t, w) b = Add(a, c) y = q.QuantAvgPool2d<kernel = {kernel},
    stride = 1, ibits = 4, obits = {bits}, signed = {int(low < 0)}>(b) }}"""
    # Sums of 4 bits by 2 by 2 have 6 bits, and by 3 by 3 have 8.
    assert noted(graph, text)["y"] == name
