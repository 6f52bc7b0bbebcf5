import numpy as np
import onnx_ir as ir
import onnxruntime

from onnx_passes.passes.quantised.inject_ops import InjectOps


def test_the_file_runs_elsewhere(text, rewrites):
    model = rewrites(
        text("""(float[N] x) => (float[N] y) <float[2] t = {0, 1}, float w = {1}>
            { y = o.MultiThreshold(x, t, w) }""")
    )
    assert not InjectOps()(model).modified
    data = ir.to_proto(model).SerializeToString()
    session = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
    found = session.run(None, {"x": np.float32([-1, 0.5, 1])})[0]
    np.testing.assert_array_equal(found, [0, 1, 2])
