from onnx_passes import testing
from onnx_passes.configs.pipeline_files import load_config
from onnx_passes.pipeline.run import run_pipeline
from tests.tables import pass_cases

test_cases = pass_cases("""
chain: (float[N] x) => (float[N] y) { a = Exp(x) b = Neg(a) y = Abs(x) }
  | (float[N] x) => (float[N] y) { y = Abs(x) }
in-a-branch-then-outside: (bool c, float[N] x) => (float[N] y) { o = Exp(x) y = If(c) <
  then_branch = g () => (float[N] t) { u = Neg(o) t = Abs(x) }, else_branch = h ()
  => (float[N] e) { e = Neg(x) }> }
  | (bool c, float[N] x) => (float[N] y) { y = If(c) < then_branch = g () => (float[N] t) {
    t = Abs(x) }, else_branch = h () => (float[N] e) { e = Neg(x) }> }
captured-only-by-an-unused-if-which-onnx-ir-keeps: (bool c, float[N] x) => (float[N] y) {
  o = Exp(x) u = If(c) < then_branch = g () => (float[N] t) { t = Neg(o) },
  else_branch = h () => (float[N] e) { e = Neg(x) }> y = Abs(x) }
  | (bool c, float[N] x) => (float[N] y) { y = Abs(x) }
(float[N] x) => (float[N] y, float[N] z) { y = Exp(x) z = Neg(x) }
captured: (bool c, float[N] x) => (float[N] y) { o = Exp(x) y = If(c) < then_branch = g () =>
  (float[N] t) { t = Neg(o) }, else_branch = h () => (float[N] e) { e = Neg(x) }> }
one-of-two-outputs: (float[1,1,4] x) => (float[1,1,2] i) { i, m = MaxPool<kernel_shape =
  [3]>(x) }
""")


def test_what_only_removed_nodes_read_goes_in_the_same_run():
    """`cleanup`, which runs once, left initializers that a second run removed."""
    model = testing.parse(
        "(float[2] x) => (float[2] y) <float[2] w = {1, 2}> { t = Add(x, w) y = Neg(x) }"
    )
    run = run_pipeline(model, load_config("cleanup", ["verify=false"]))
    run.raise_for_failure()
    assert not run.model.graph.initializers
