import numpy as np
import pytest

from onnx_passes import testing
from onnx_passes.passes.annotation.shape_inference import infer_shapes
from onnx_passes.passes.lowering.lower_softplus import LowerSoftplus
from onnx_passes.runtime.ort import OnnxRuntimeEngine


@pytest.mark.parametrize("call", ["Softplus(x)"])
def test_fires(call, lowers_elementwise):
    kinds = lowers_elementwise(call, 13)
    assert "Softplus" not in kinds


def test_becomes_primitives(lowers):
    text = '<ir_version: 8, opset_import: ["" : 13]> g (float[2,N] x) => (float[2,N] y)'
    kinds = lowers(text + " { y = Softplus(x) }")
    assert kinds == [
        *("Abs", "Neg", "Exp", "Add", "Sub", "Log", "Div", "Mul", "Equal", "Where", "Max"),
        "Add",
    ]


def test_small_results_keep_their_digits():
    text = '<ir_version: 8, opset_import: ["" : 13]> g (float[9] x) => (float[9] y)'
    model = testing.parse(text + " { y = Softplus(x) }")
    infer_shapes(model)
    assert LowerSoftplus()(model).modified
    x = np.linspace(-40, 40, 9, dtype=np.float32)
    with OnnxRuntimeEngine().prepare(model) as session:
        found = session.run({"x": x})["y"]
    np.testing.assert_allclose(found, np.log1p(np.exp(x.astype(np.float64))), rtol=1e-6)


def test_leaves_functions_alone(leaves_functions_alone):
    leaves_functions_alone("Softplus(x)", 20)


def test_leaves_old_opsets_alone(leaves_alone):
    text = '<ir_version: 7, opset_import: ["" : 10]> g (float[2] x) => (float[2] y)'
    leaves_alone(text + " { y = Softplus(x) }")
