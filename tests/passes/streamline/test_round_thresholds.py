import numpy as np
import pytest

from onnx_passes import testing
from onnx_passes.passes.streamline.round_thresholds import RoundThresholds

GRAPH = """(float[N,2] x) => (float[N,2] y) <float[2] t = {{0, 1}}, float w = {{1}},
float[2,2] m = {{{}}}, float[4] u = {{-7.5, 0.3, 1, 9}}>
{{ a = o.MultiThreshold(x, t, w) b = MatMul(a, m) y = o.MultiThreshold(b, u, w) }}"""


def test_fires(rewrites, text):
    model = rewrites(RoundThresholds(), text(GRAPH.format("1, -1, 2, 1")))
    last = list(model.graph)[-1]
    # The product lies between -2 and 6.
    np.testing.assert_array_equal(last.inputs[1].const_value.numpy(), [-2, 1, 1, 7])


@pytest.mark.parametrize("weights", ["0.5, 1, 1, 1", "1e8, 1, 1, 1"])
def test_leaves_what_is_no_integer_alone(weights, text):
    model = testing.parse(text(GRAPH.format(weights)))
    testing.assert_leaves_alone(RoundThresholds(), model)
