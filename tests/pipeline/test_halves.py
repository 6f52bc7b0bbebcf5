"""Outputs of a model in 16 bits are not taken from the run that records inner values.

ONNX Runtime's CPU computes such nodes in 32 bits and rounds in between only what is an output:
``Sqrt(Mul(x, x))`` of 1000 is 1000, and infinite where the product is recorded.
"""

import numpy as np
import onnx_ir as ir
import pytest

from onnx_passes.config.load import config_from_data
from onnx_passes.pipeline.run import run_pipeline
from onnx_passes.runtime.ort import OnnxRuntimeEngine
from onnx_passes.verify.recording import exposed
from onnx_passes.verify.reference import Reference

X = {"x": np.float16([1000, 2])}


@pytest.fixture
def model():
    return ir.from_onnx_text("""<ir_version: 10, opset_import: ["" : 20]>
    g (float16[2] x) => (float16[2] y)
    { m = Mul(x, x) i = Identity(m) s = Sqrt(i) y = Neg(s) }""")


def test_recording_changes_the_numbers(model):
    found = []
    for shown in (model, exposed(model)):
        with OnnxRuntimeEngine().prepare(shown) as session:
            found.append(float(session.run(X)["y"][0]))
    assert found == [-1000, -np.inf]


@pytest.mark.parametrize("scope", ["auto", "model"])
def test_no_pass_is_accused_of_that(model, scope):
    config = config_from_data({"passes": ["eliminate-identity"], "verify": {"scope": scope}})
    run = run_pipeline(model, config, reference=Reference([X], None, "test"))
    assert run.error is None
    assert run.report.passes[0].changed
    assert not run.report.not_verified
