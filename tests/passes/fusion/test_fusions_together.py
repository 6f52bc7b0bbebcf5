"""The fusions on one network, in a pipeline that verifies each of them."""

import numpy as np

from onnx_passes.configs.pipeline_files import load_config
from onnx_passes.pipeline.run import run_pipeline
from onnx_passes.testing import parse
from onnx_passes.verify.evidence import Verdict

PASSES = (
    *("lift-constants", "shape-inference", "fuse-hard-sigmoid", "fuse-hard-swish"),
    *("merge-clips", "fuse-pad", "fuse-conv-affine", "fuse-reduce-squeeze"),
    *("fuse-matmul-scale", "fuse-matmul-add", "merge-constant-arithmetic"),
)

NETWORK = """(float[N,2,6,6] x) => (float[N,3] y) <
  int64[8] p = {0, 0, 1, 1, 0, 0, 1, 1}, float[2,2,3,3] w = {WEIGHTS},
  float[2] b = {1, -1}, float[1,2,1,1] s = {0.5, 2}, float[1,2,1,1] c = {-1, 1},
  float zero = {0}, float three = {3}, float six = {6}, int64[2] a = {2, 3},
  float[2,3] m = {1, 2, 3, 4, 5, 6}, float[3] r = {1, 2, 3}> {
  padded = Pad(x, p) conv = Conv(padded, w, b) scaled = Mul(conv, s) moved = Add(scaled, c)
  sum = Add(moved, three) part = Clip(sum, zero, six) gate = Div(part, six)
  active = Mul(moved, gate) low = Relu(active) clipped = Clip(low, zero, six)
  mean = ReduceMean<keepdims = 1>(clipped, a) flat = Squeeze(mean, a)
  product = MatMul(flat, m) dense = Add(product, r) half = Div(dense, six)
  y = Mul(half, three) }"""


def test_a_network_is_fused_and_verified(tmp_path):
    path = tmp_path / "pipeline.yaml"
    path.write_text("passes:\n" + "".join(f"  - {name}\n" for name in PASSES))
    numbers = np.random.default_rng(0).standard_normal(36).round(3)
    model = parse(NETWORK.replace("WEIGHTS", ", ".join(map(str, numbers))))
    run = run_pipeline(model, load_config(path))
    kinds = [n.op_type for n in run.model.graph if n.op_type != "Constant"]
    run.raise_for_failure()
    assert not run.report.not_verified
    assert {check.verdict for check in run.report.final} == {Verdict.PASSED}
    assert kinds == ["Conv", "HardSwish", "Clip", "ReduceMean", "Gemm"]
