"""Drawn values take a share of the time that the pipeline sets."""

import onnx_ir as ir
import pytest

from onnx_passes.configs.pipeline_files import default_config
from onnx_passes.errors import ConfigError
from onnx_passes.pipeline.allowance import LEAST, Allowance
from onnx_passes.pipeline.run import run_pipeline

TEXT = """<ir_version: 10, opset_import: ["" : 20]> g (float[4,3] x) => (float[4,3] y)
    { i = Identity(x) r = Relu(i) n = Sigmoid(r) y = Exp(n) }"""


def test_a_share_is_granted_beyond_what_is_free():
    time = Allowance(0.5)
    time.spent = LEAST + 1
    assert not time.grants()
    time.begun -= 4 * LEAST + 4
    assert time.grants()
    assert time.refused == 1


def test_a_short_run_has_time_for_all():
    assert Allowance(1e-9).grants()


def run(*given):
    config = default_config(["reproducers=false", *given], ["lower-sigmoid"])
    return run_pipeline(ir.from_onnx_text(TEXT), config)


def test_none_is_noted():
    done = run("verify.drawn_share=0")
    assert done.error is None
    told = "1 part was not run on values that samples may lack: verify.drawn_share is 0"
    assert told in done.report.notes


def test_all_is_not():
    assert not any("samples may lack" in note for note in run().report.notes)


@pytest.mark.parametrize("share", ["-0.1", "1.5", ".nan", "much"])
def test_what_is_no_share_is_refused(share):
    with pytest.raises(ConfigError, match="drawn_share"):
        run(f"verify.drawn_share={share}")
