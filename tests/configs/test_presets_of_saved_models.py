"""Models that ONNX Runtime saved optimised go through every preset."""

import onnx_ir as ir

from onnx_passes.configs.pipeline_files import default_config, load_config
from onnx_passes.pipeline.run import run_pipeline
from onnx_passes.report import summary
from onnx_passes.verify.evidence import ENGINE, Verdict
from tests.tables import each_of

PRESETS = ("cleanup", "simplify", "optimize", "optimize-ort", "lower", "tensorrt")
SAVED = """<ir_version: 8, opset_import: ["" : 18]>
    m (float[2,3,4] x, int64[2] e) => (float[2,3,5] y, int64[2] s)
    <float[4,5] w = {1,2,3,4,5,6,7,8,9,10,1,2,3,4,5,6,7,8,9,10}, float[5] b = {1,2,3,4,5},
     int64[2] gemm_input_shape = {6,4}, int64[3] gemm_output_shape = {2,3,5}>
    { a = Neg(x) r = Reshape(a, gemm_input_shape) g = Gemm(r, w, b)
      o = Reshape(g, gemm_output_shape) y = Relu(o)
      s = Add(e, gemm_input_shape) }"""
"""Its MatMul and Add were joined; a pass parts them, and ONNX Runtime joins them again."""


def run(name, without=""):
    config = load_config(name)
    steps = [step for step in config.passes if getattr(step, "name", "") != without]
    # NVIDIA's compiler is an extra.
    engines = default_config().engines if name == "tensorrt" else config.engines
    config = config.model_copy(update={"passes": steps, "engines": engines})
    return run_pipeline(ir.from_onnx_text(SAVED), config).report


@each_of("name", *PRESETS)
def test_a_saved_model_goes_through(name):
    """5 of 12 failed at the end of ``optimize``: "Attempt to replace the existing tensor"."""
    report = run(name)
    assert report.exit_code == 0, report.error


def test_without_the_renaming_the_engine_is_named_and_the_way_round():
    report = run("optimize", without="rename-engine-names")
    assert report.exit_code == 1
    (failed,) = [c for c in report.final if c.verdict is Verdict.FAILED]
    assert failed.kind == ENGINE
    assert summary.outcome(report).head == f"FAILED on {failed.engine}"
    assert "rename-engine-names" in str(failed.reason)
    assert not report.blame
    assert report.reproducer is not None
