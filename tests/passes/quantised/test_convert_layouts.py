import pytest

from onnx_passes import testing
from onnx_passes.errors import PassError
from onnx_passes.passes.quantised.convert_layouts import ConvertLayouts
from tests.tables import each_of

GRAPH = "(float[1,2,3,4] x, float[3] b) => (float[1,2,3,4] y) { t = Relu(x) y = Identity(t) }"
LAYOUT = {"assumes": ["N", "C", "H", "W"], "perm": [0, 2, 3, 1]}


def test_converters_at_both_ends(rewrites, text):
    model = rewrites(ConvertLayouts(inp=[LAYOUT], out=[LAYOUT]), text(GRAPH))
    kinds = [node.op_type for node in model.graph]
    assert kinds == [
        *("LayoutConverter", "Transpose", "Relu", "Identity"),
        *("LayoutConverter", "Transpose"),
    ]
    assert [value.name for value in model.graph.outputs] == ["y"]


def test_null_leaves_alone(leaves_alone, text):
    model = testing.parse(text(GRAPH))
    testing.assert_leaves_alone(ConvertLayouts(inp=[None], out=[]), model)


@each_of("layout", {"perm": [0, 1]}, {**LAYOUT, "perm": [0, 1, 2, 2]})
def test_what_does_not_fit_is_an_error(layout, text):
    with pytest.raises(PassError):
        ConvertLayouts(inp=[layout]).call(testing.parse(text(GRAPH)))


def test_an_output_that_is_an_input_keeps_its_name(rewrites, text):
    model = rewrites(
        ConvertLayouts(inp=[LAYOUT], out=[LAYOUT]),
        text("(float[1,2,3,4] x) => (float[1,2,3,4] x) { t = Relu(x) }"),
    )
    assert [value.name for value in (*model.graph.inputs, *model.graph.outputs)] == ["x", "x"]


def test_for_clients_of_the_seed_system_weights_are_constants_and_layouts_configured(text):
    model = testing.parse(text(GRAPH.replace("y) {", "y) <float[3] b = {1, 2, 3}> {")))
    config = {"layouts": {"inp": [LAYOUT], "out": [None]}, "model_checker": {}}
    assert ConvertLayouts(config, {})(model).modified
    assert [value.name for value in model.graph.inputs] == ["x"]
    assert next(iter(model.graph)).op_type == "LayoutConverter"
