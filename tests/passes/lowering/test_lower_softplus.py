import numpy as np

from onnx_passes.passes.lowering.lower_softplus import LowerSoftplus
from onnx_passes.runtime.ort import OnnxRuntimeEngine
from tests.passes.lowering.forms import elementwise
from tests.tables import inferred, outputs_of

test_lowers = elementwise(
    "Softplus(x)", 13, "Abs Neg Exp Add Sub Log Div Mul Equal Where Max Add", old=10
)


def test_small_results_keep_their_digits():
    text = '<ir_version: 8, opset_import: ["" : 13]> g (float[9] x) => (float[9] y)'
    model = inferred(text + " { y = Softplus(x) }")
    assert LowerSoftplus()(model).modified
    x = np.linspace(-40, 40, 9, dtype=np.float32)
    found = outputs_of(OnnxRuntimeEngine(), model, {"x": x})["y"]
    np.testing.assert_allclose(found, np.log1p(np.exp(x.astype(np.float64))), rtol=1e-6)
