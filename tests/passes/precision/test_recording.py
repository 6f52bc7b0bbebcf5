import numpy as np
import onnx_ir as ir
import pytest

from onnx_passes.model.load import load_model
from onnx_passes.model.save import save_model
from onnx_passes.passes.annotation.shape_inference import ShapeInference
from onnx_passes.passes.precision._recording import record
from onnx_passes.passes.precision.convert_float16 import ConvertFloat16
from onnx_passes.passes.registry import lookup
from onnx_passes.testing import parse
from tests.passes.precision.samples import sampled
from tests.tables import each_of

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


@each_of("opset", 11, 13, 18, 21, 25)
def test_a_loop_gives_the_range_over_all_iterations(typed, opset):
    feed = {"n": np.int64(3), "x": np.array([-1, 2], np.float32)}
    model = typed(GROWS, opset)
    assert ranges(model, feed, "s", "t") == {"s": (-100.0, 200.0), "t": (-1000.0, 2000.0)}


def test_a_loop_without_iterations_gives_zeros(typed):
    feed = {"n": np.int64(0), "x": np.ones(2, np.float32)}
    assert ranges(typed(GROWS), feed, "t") == {"t": (0.0, 0.0)}


def test_what_is_not_finite_counts_for_nothing(typed):
    feed = {"x": np.array([[1, 2], [-200, 0], [0, 0]], np.float32)}
    assert ranges(typed(SCANS), feed, "h") == {"h": (0.0, 1.0)}


def test_values_of_one_name_in_two_branches(typed):
    for taken, ends in ((True, (0.0, np.exp(np.float32(1)))), (False, (-1.0, 0.0))):
        feed = {"q": np.array(taken), "x": np.array([0, 1], np.float32)}
        assert ranges(typed(BRANCHES), feed, "m")["m"] == pytest.approx(ends)


@each_of("turns, stays", (3, False), (5, True))
def test_what_overflows_in_a_late_iteration_stays_in_float32(typed, run, turns, stays):
    model, feed = typed(GROWS), {"n": np.int64(turns), "x": np.array([1, 2], np.float32)}
    pass_ = sampled(ConvertFloat16(), feed)
    assert pass_.call(model).modified is not stays
    assert any("overflow in float16: " in note for note in pass_.context.notes) is stays
    (result,) = run(model, feed)
    np.testing.assert_allclose(result, feed["x"] * 10.0**turns, rtol=1e-3)


SIZE = 64


def model_of(weight):
    model = parse(f"""<ir_version: 10, opset_import: ["" : 21]>
        g (float[n,{SIZE}] x) => (float[n,{SIZE}] y)
        <float[1] w = {{0}}> {{ h = MatMul(x, w) y = Relu(h) }}""")
    value = model.graph.initializers["w"]
    value.const_value = ir.tensor(weight, name="w")
    value.shape = ir.Shape(weight.shape)
    ShapeInference().call(model)
    return model


@pytest.fixture
def weight():
    return np.random.default_rng(0).standard_normal((SIZE, SIZE)).astype(np.float32)


def apart(model, path):
    """Return the model as it is read from a file with its weights beside it."""
    ir.save(model, path, external_data="weights.bin", size_threshold_bytes=0)
    return load_model(path).model


@each_of("in_file", False, True)
def test_weights_stay_where_they_are(weight, tmp_path, monkeypatch, in_file):
    model = model_of(weight)
    if in_file:
        (tmp_path / "deep").mkdir()
        model = apart(model, tmp_path / "deep" / "m.onnx")
    monkeypatch.chdir(tmp_path)
    before = ir.to_proto(model).SerializeToString()
    x = np.random.default_rng(1).standard_normal((3, SIZE)).astype(np.float32)
    (found,) = record(model, [{"x": x}], {"x", "h"}, "a pass")
    np.testing.assert_allclose(found["h"], x @ weight, rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(found["x"], x)
    assert ir.to_proto(model).SerializeToString() == before


@each_of(
    "name, options",
    ("convert-float16", {}),
    ("quantize-static", {}),
    ("quantize-weights-gptq", {"least": 1}),
)
def test_passes_read_data_beside_weights_in_a_file(weight, tmp_path, name, options):
    model = apart(model_of(weight), tmp_path / "m.onnx")
    path = tmp_path / "x.npz"
    x = np.random.default_rng(1).standard_normal((50, SIZE)).astype(np.float32)
    np.savez(path, x=x)
    (cls,) = lookup(name)
    assert cls(data=[str(path)], **options).call(model).modified
    save_model(model, tmp_path / "out.onnx")
