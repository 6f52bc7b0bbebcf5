import pytest

from onnx_passes.passes.quantised.decompose_thresholds import DecomposeThresholds

GRAPH = """(float[N,2] x) => (float[N,2] y)
<float[2,3] t = {{1, 2, 3, -1, 0, 1}}, float[3] w = {{{}}}>
{{ y = o.MultiThreshold(x, t, w) }}"""


@pytest.mark.parametrize(
    ("weights", "count"), [("1, -1, 2", 2), ("0, 2, 3", 1), ("-1, -1, -1", 2)]
)
def test_fires(weights, count, rewrites, text):
    model = rewrites(DecomposeThresholds(), text(GRAPH.format(weights)))
    assert sum(n.op_type == "MultiThreshold" for n in model.graph) == count


@pytest.mark.parametrize("weights", ["1, 1, 1", "0.5, 1, 1", "5000, 1, 1"])
def test_leaves_alone(weights, leaves_alone, text):
    leaves_alone(DecomposeThresholds(), text(GRAPH.format(weights)))
