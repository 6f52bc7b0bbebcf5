import numpy as np
import onnx_ir as ir

from onnx_passes import testing
from onnx_passes.configs.pipeline_files import default_config
from onnx_passes.pipeline.run import run_pipeline
from tests.tables import each_of

GRAPH = """(float[N,2] x) => (float[N,2] y) <float[2] t = {{0, 1}}, float w = {{1}},
float[2,2] m = {{{}}}, float[4] u = {{-7.5, 0.3, 1, 9}}>
{{ a = o.MultiThreshold(x, t, w) b = MatMul(a, m) y = o.MultiThreshold(b, u, w) }}"""


def test_fires(rewrites, text):
    last = list(rewrites(text(GRAPH.format("1, -1, 2, 1"))).graph)[-1]
    # The product lies between -2 and 6.
    np.testing.assert_array_equal(last.inputs[1].const_value.numpy(), [-2, 1, 1, 7])


@each_of("weights", "0.5, 1, 1, 1", "1e8, 1, 1, 1")
def test_leaves_what_is_no_integer_alone(weights, text, leaves_alone):
    leaves_alone(testing.parse(text(GRAPH.format(weights))))


CHAIN = """<ir_version: 10, opset_import: ["" : 20, "onnx_passes.ops" : 1]>
g (float[4,2] x) => (float[4,2] y)
<float[2] t = {0, 1}, float w = {1}, float[2,2] m = {1, -1, 2, 1},
float[4] u = {-0.5, 0.3, 1.5, 2.5}>
{ a = o.MultiThreshold(x, t, w) b = MatMul(a, m) c = o.MultiThreshold(b, u, w)
d = MatMul(c, m) e = o.MultiThreshold(d, u, w) f = MatMul(e, m)
y = o.MultiThreshold(f, u, w) }"""


def test_a_chain_of_thresholds_has_no_preconditions():
    model = ir.from_onnx_text(CHAIN.replace("o.Multi", "onnx_passes.ops.Multi"))
    done = run_pipeline(model, default_config(["reproducers=false"], ["round-thresholds"]))
    assert done.error is None
    assert done.report.passes[-1].changed
    assert not done.report.preconditions
