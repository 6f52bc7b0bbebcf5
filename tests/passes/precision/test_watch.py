import numpy as np
import onnx_ir as ir
import pytest

from onnx_passes.passes.context import PassContext
from onnx_passes.passes.precision._record import record
from onnx_passes.passes.precision.convert_float16 import ConvertFloat16

GROWS = """(int64 n, float[2] x) => (float[2] y) <float[1] ten = {10}> {
    y = Loop(n, , x) <body = b (int64 i, bool c, float[2] s) => (bool d, float[2] t)
        { d = Identity(c) t = Mul(s, ten) }> }"""
SCANS = """(float[3,2] x) => (float[3,2] y, float[3,2] z) {
    y, z = Scan <num_scan_inputs = 1, scan_output_directions = [1, 0],
        scan_output_axes = [0, 0], body = b (float[2] e) => (float[2] f, float[2] g)
        { f = Neg(e) h = Exp(f) g = Log(h) }> (x) }"""
BRANCHES = """(bool q, float[2] x) => (float[2] z) {
    z = If(q) <then_branch = p () => (float[2] v) { m = Exp(x) v = Log(m) },
               else_branch = r () => (float[2] w) { m = Neg(x) w = Abs(m) }> }"""


def ranges(model, feed, *names):
    (sample,) = record(model, [feed], names, "test", bodies=True)
    return {name: tuple(ends.tolist()) for name, ends in sample.items()}


@pytest.mark.parametrize("opset", [11, 13, 18, 21, 25])
def test_a_loop_gives_the_range_over_all_iterations(typed, opset):
    feed = {"n": np.int64(3), "x": np.array([-1, 2], np.float32)}
    model = typed(GROWS, opset)
    assert ranges(model, feed, "s", "t") == {"s": (-100.0, 200.0), "t": (-1000.0, 2000.0)}


def test_a_loop_without_iterations_gives_zeros(typed):
    feed = {"n": np.int64(0), "x": np.ones(2, np.float32)}
    assert ranges(typed(GROWS), feed, "t") == {"t": (0.0, 0.0)}


def test_a_scan_that_runs_backwards(typed):
    feed = {"x": np.array([[1, 2], [3, 4], [-5, 0]], np.float32)}
    assert ranges(typed(SCANS), feed, "e", "f") == {"e": (-5.0, 4.0), "f": (-4.0, 5.0)}


def test_what_is_not_finite_counts_for_nothing(typed):
    feed = {"x": np.array([[1, 2], [-200, 0], [0, 0]], np.float32)}
    assert ranges(typed(SCANS), feed, "h") == {"h": (0.0, 1.0)}


def test_values_of_one_name_in_two_branches(typed):
    for taken, ends in ((True, (0.0, np.exp(np.float32(1)))), (False, (-1.0, 0.0))):
        feed = {"q": np.array(taken), "x": np.array([0, 1], np.float32)}
        assert ranges(typed(BRANCHES), feed, "m")["m"] == pytest.approx(ends)


def test_the_model_is_not_changed(typed):
    model = typed(GROWS)
    before = ir.to_proto(model)
    ranges(model, {"n": np.int64(1), "x": np.ones(2, np.float32)}, "t")
    assert ir.to_proto(model) == before


@pytest.mark.parametrize(("turns", "stays"), [(3, False), (5, True)])
def test_what_overflows_in_a_late_iteration_stays_in_float32(typed, run, turns, stays):
    model, feed = typed(GROWS), {"n": np.int64(turns), "x": np.array([1, 2], np.float32)}
    pass_ = ConvertFloat16()
    pass_.context = PassContext(samples=[feed])
    assert pass_.call(model).modified is not stays
    assert any("overflow in float16: " in note for note in pass_.context.notes) is stays
    (result,) = run(model, feed)
    np.testing.assert_allclose(result, feed["x"] * 10.0**turns, rtol=1e-3)
