import pytest

from onnx_passes import testing
from onnx_passes.passes.streamline._integers import Range
from onnx_passes.passes.streamline.annotate_integers import KEY, AnnotateIntegers

GRAPH = """(float[N,2] x) => (float[N,2] y) <float[3] t = {0, 1, 2}, float w = {1},
float[2,2] m = {1, -1, 2, 3}, float c = {-1}>
{ a = o.MultiThreshold(x, t, w) b = Add(a, c) p = MatMul(b, m) q = Exp(p) y = Mul(q, p) }"""


def test_accumulators_are_as_wide_as_their_weights_need(text):
    model = testing.parse(text(GRAPH))
    assert AnnotateIntegers()(model).modified
    noted = {
        value.name: value.meta["quant_parameter_tensor_names"][KEY]
        for node in model.graph
        for value in node.outputs
        if "quant_parameter_tensor_names" in value.meta
    }
    # b lies in [-1, 2]; the columns of m give [-3, 6] and [-1 * 2 - 3, 1 + 6].
    assert noted == {"a": "UINT2", "b": "INT3", "p": "INT4"}
    assert not AnnotateIntegers()(model).modified


@pytest.mark.parametrize(
    ("low", "high", "name"),
    [
        (0, 1, "BINARY"),
        (0, 3, "UINT2"),
        (0, 4, "UINT3"),
        (-1, 1, "TERNARY"),
        (-4, 3, "INT3"),
        (-5, 3, "INT4"),
        (-1, 127, "INT8"),
        (-129, 0, "INT9"),
    ],
)
def test_names(low, high, name):
    assert Range(low, high).name == name


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
