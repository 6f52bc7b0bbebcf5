"""As many parts are run on drawn values as the pipeline says."""

import onnx_ir as ir
import pytest

from onnx_passes.configs.pipeline_files import default_config
from onnx_passes.errors import ConfigError
from onnx_passes.pipeline.random_values import Allowance
from onnx_passes.pipeline.run import run_pipeline
from tests.tables import each_of

TEXT = """<ir_version: 10, opset_import: ["" : 20]> g (float[4,3] x) => (float[4,3] y)
    { i = Identity(x) r = Relu(i) n = Sigmoid(r) y = Exp(n) }"""


def test_parts_are_counted():
    allowance = Allowance(2)
    assert [allowance.grants() for _ in range(4)] == [True, True, False, False]
    assert (allowance.left, allowance.refused) == (0, 2)


def run(*given):
    config = default_config(["reproducers=false", *given], ["lower-sigmoid"])
    return run_pipeline(ir.from_onnx_text(TEXT), config)


def test_none_is_noted():
    done = run("verify.drawn_parts=0")
    assert done.error is None
    told = "1 part was not run on values that samples may lack: verify.drawn_parts is 0"
    assert told in done.report.notes


@each_of("count", "-1", "1.5", ".nan", "much")
def test_what_is_no_count_is_refused(count):
    with pytest.raises(ConfigError, match="drawn_parts"):
        run(f"verify.drawn_parts={count}")
