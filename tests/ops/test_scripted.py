import numpy as np
import onnx
import onnx_ir as ir
import pytest

from onnx_passes.ops import DOMAIN, inject_custom_ops, op, register
from onnx_passes.ops.bodies import attach
from onnx_passes.ops.swish import Swish
from onnx_passes.runtime.ort import OnnxRuntimeEngine
from tests.tables import outputs_of

HEAD = '<ir_version: 8, opset_import: ["" : 19, "onnx_passes.ops" : 1]>\n'


@register
def TwiceSwish(x, alpha: float = 1.0):  # noqa: N802
    return op.Add(Swish(x, alpha=alpha), Swish(x, alpha=alpha))


def run(call, x):
    text = HEAD + "g (float[N] x) => (float[N] y) { y = onnx_passes.ops." + call + " }"
    model = ir.from_proto(onnx.parser.parse_model(text))
    return outputs_of(OnnxRuntimeEngine(), model, {"x": np.float32(x)})["y"]


def test_an_operator_of_the_user_calls_one_of_ours():
    x = np.float32([-3, -0.3, 0, 0.5, 20])
    np.testing.assert_allclose(run("TwiceSwish(x)", x), 2 * x / (1 + np.exp(-x)), rtol=1e-6)


def test_inject_makes_a_model_that_runs_elsewhere():
    import onnxruntime

    text = HEAD + "g (float[N] x) => (float[N] y) { y = onnx_passes.ops.Silu(x) }"
    model = inject_custom_ops(ir.from_proto(onnx.parser.parse_model(text)))
    assert (DOMAIN, "TwiceSwish", "") in model.functions
    data = ir.to_proto(model).SerializeToString()
    session = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
    found = session.run(None, {"x": np.float32([1, -2])})[0]
    np.testing.assert_allclose(found, [0.731058, -0.238406], rtol=1e-5)


@pytest.fixture
def own_operators(monkeypatch):
    """Forget what a test registers."""
    for table in ("_FUNCTIONS", "_REFERENCES"):
        monkeypatch.setattr(attach, table, dict(getattr(attach, table)))


@pytest.mark.usefixtures("own_operators")
def test_an_operator_of_another_domain_is_written_into_the_file():
    import onnxruntime

    @register(domain="acme")
    def Thrice(x):  # noqa: N802
        return op.Add(op.Add(x, x), x)

    text = HEAD.replace("onnx_passes.ops", "acme")
    text += "g (float[N] x) => (float[N] y) { y = acme.Thrice(x) }"
    model = inject_custom_ops(ir.from_proto(onnx.parser.parse_model(text)))
    data = ir.to_proto(model).SerializeToString()
    session = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
    np.testing.assert_array_equal(session.run(None, {"x": np.float32([1, 2])})[0], [3, 6])


@pytest.mark.usefixtures("own_operators")
def test_a_class_of_the_reference_evaluator_is_an_operator_of_that_engine():
    from onnx.reference.op_run import OpRun

    from onnx_passes.errors import UnsupportedModelError
    from onnx_passes.runtime.reference import ReferenceEngine

    @register
    class Sinc(OpRun):
        op_domain = "acme"

        def _run(self, x):
            return (np.sinc(x),)

    text = HEAD.replace("onnx_passes.ops", "acme")
    text += "g (float[N] x) => (float[N] y) { y = acme.Sinc(x) }"
    model = ir.from_proto(onnx.parser.parse_model(text))
    found = outputs_of(ReferenceEngine(), model, {"x": np.float32([0, 0.5])})["y"]
    np.testing.assert_allclose(found, [1, 2 / np.pi], rtol=1e-6)
    with (
        pytest.raises(UnsupportedModelError, match="Sinc") as failure,
        OnnxRuntimeEngine().prepare(model),
    ):
        pass
    assert "onnx_passes.ops.register" in failure.value.help
