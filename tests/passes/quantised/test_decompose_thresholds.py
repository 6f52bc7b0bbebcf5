from onnx_passes.passes.quantised.decompose_thresholds import DecomposeThresholds
from tests.tables import each_of

GRAPH = """(float[N,2] x) => (float[N,2] y)
<float[2,3] t = {{1, 2, 3, -1, 0, 1}}, float[3] w = {{{}}}>
{{ y = o.MultiThreshold(x, t, w) }}"""


@each_of("weights, count", ("1, -1, 2", 2), ("0, 2, 3", 1), ("-1, -1, -1", 2), ("2, -2, 4", 2))
def test_fires(weights, count, rewrites, text):
    model = rewrites(text(GRAPH.format(weights)))
    assert sum(n.op_type == "MultiThreshold" for n in model.graph) == count


@each_of("weights", "1, 1, 1", "2, 2, 2", "0.5, 1, 1", "5000, 1, 1")
def test_leaves_alone(weights, leaves_alone, text):
    leaves_alone(text(GRAPH.format(weights)))


def test_a_weight_that_all_share_stays(rewrites, text):
    model = rewrites(text(GRAPH.format("2, 0, 4")))
    (node,) = (n for n in model.graph if n.op_type == "MultiThreshold")
    assert node.inputs[1].const_value.shape == (2, 3)
    assert float(node.inputs[2].const_value.numpy()) == 2


@each_of(
    "pass_", DecomposeThresholds(unit=True), DecomposeThresholds({"model_checker": {}}, {})
)
def test_clients_of_the_seed_system_count_thresholds(rewrites, text, pass_):
    model = rewrites(pass_, text(GRAPH.format("2, 2, 2")))
    (node,) = (n for n in model.graph if n.op_type == "MultiThreshold")
    assert node.inputs[1].const_value.shape == (2, 6)
    assert float(node.inputs[2].const_value.numpy()) == 1
