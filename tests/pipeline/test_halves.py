"""A model in 16 bits is rounded at each node, whatever else is an output or was removed.

ONNX Runtime's CPU computes such nodes in 32 bits and rounds in between only what is an output.
``Sqrt(Mul(x, x))`` of 1000 would be 1000, and infinite where the product is recorded.
"""

import numpy as np
import onnx_ir as ir
import pytest

from onnx_passes import passes
from onnx_passes.configs.pipeline_files import config_from_data
from onnx_passes.passes.base import Transformation
from onnx_passes.pipeline.run import run_pipeline
from onnx_passes.report.json import from_json, to_json
from onnx_passes.runtime.ort import OnnxRuntimeEngine
from onnx_passes.testing import parse
from onnx_passes.verify.evidence import Verdict
from onnx_passes.verify.recording import expose_values
from onnx_passes.verify.reference_data import ReferenceData
from tests.tables import each_of

X = {"x": np.float16([1000, 2])}


@pytest.fixture
def model():
    return parse("""(float16[2] x) => (float16[2] y)
    { m = Mul(x, x) i = Identity(m) s = Sqrt(i) y = Neg(s) }""")


def test_recording_does_not_change_the_numbers(model):
    found = []
    for shown in (model, expose_values(model)):
        with OnnxRuntimeEngine().prepare(shown) as session:
            found.append(float(session.run(X)["y"][0]))
    assert found == [-np.inf, -np.inf]


@each_of("scope", "auto", "model")
def test_no_pass_is_accused_of_that(model, scope):
    config = config_from_data({"passes": ["eliminate-identity"], "verify": {"scope": scope}})
    run = run_pipeline(model, config, reference=ReferenceData([X], None, "test"))
    assert run.error is None
    assert run.report.passes[0].changed
    assert not run.report.not_verified


CHAIN = """<ir_version: 10, opset_import: ["" : 18]>
    g (float16[2,4,90] x) => (float16[2,360] y)
    <float[4] s = {1, 1, 1, 1}, float[4] b = {0, 0, 0, 0},
     float k = {-0.63}, float c = {1.0}> {
    sh = Cast<to = 10>(s) bh = Cast<to = 10>(b) kh = Cast<to = 10>(k) ch = Cast<to = 10>(c)
    n = InstanceNormalization(x, sh, bh) t = Transpose<perm = [0, 1, 2]>(n)
    f = Flatten(t) m = Mul(f, kh) y = Add(m, ch) }"""
"""The Transpose keeps ONNX Runtime from computing on from the Flatten in single precision."""


@passes.register("halves-shift")
@passes.verify.tolerance(rtol=1.0, atol=1.0)
class HalvesShift(Transformation):
    """Add a little less: a fault that is small beside the largest element."""

    to: float = 0.98

    def call(self, model):
        value = model.graph.initializers["c"]
        value.const_value = ir.tensor(np.float32(self.to), name="c")
        return ir.passes.PassResult(model, modified=True)


def run_chain(*steps, **verify):
    model = ir.from_onnx_text(CHAIN)
    x = np.random.default_rng(0).standard_normal([2, 4, 90]).astype(np.float16)
    # On one level: others round at other places, and would count as noise.
    engines = [{"onnxruntime": {"optimization": "none", "prepacking": False}}]
    config = config_from_data(
        {"passes": list(steps), "verify": {"enabled": True} | verify, "engines": engines}
    )
    return run_pipeline(model, config, reference=ReferenceData([{"x": x}], None, "test"))


def test_a_node_that_ended_a_chain_of_half_precision_may_go():
    run = run_chain("eliminate-noop-transpose")
    assert run.error is None
    (check,) = run.report.final
    assert check.verdict is Verdict.PASSED
    assert [output.max_abs for output in check.outputs] == [0]
    assert from_json(to_json(run.report)).final == run.report.final


def test_it_keeps_the_tightest_limit_there_is():
    run = run_chain("eliminate-noop-transpose", drift={"rtol": 0.0, "atol": 0.0})
    assert run.error is None


def test_an_error_beyond_the_rounding_of_the_largest_element_is_a_fault():
    assert "y too far from the original" in str(run_chain("halves-shift").error)
    assert run_chain("halves-shift{to=0.999}").error is None


def test_a_limit_that_was_given_holds_for_half_precision():
    step = "halves-shift{to=0.999}"
    assert run_chain(step, drift={"rtol": 0.0, "atol": 1e-2}).error is None
    assert run_chain(step, drift={"rtol": 0.0, "atol": 1e-4}).error is not None
