"""What ONNX Runtime does without, so that models with large weights fit into memory."""

import numpy as np
import onnx
import onnx.parser
import pytest

from onnx_passes import run
from onnx_passes.model.load import load_model
from onnx_passes.model.ort_sessions import open_session
from onnx_passes.runtime import large_models, ort, weight_files
from onnx_passes.runtime.large_models import left_out_of
from onnx_passes.runtime.ort import OnnxRuntimeEngine

INTEGERS = """<ir_version: 10, opset_import: ["" : 21]> g (float[2,64] x) => (float[2,64] y)
    <int8[64,64] v, int8[64,64] w, float s = {0.5}, int8 z = {0}> {
    a = DequantizeLinear(v, s, z)
    b = MatMul(x, a)
    c = QuantizeLinear(b, s, z)
    d = DequantizeLinear(c, s, z)
    e = DequantizeLinear(w, s, z)
    y = MatMul(d, e) }"""

TEXT = """<ir_version: 10, opset_import: ["" : 20]> g (float[2,64] x) => (float[2,64] y)
    <float[64,64] w> { a = Identity(x) y = MatMul(a, w) }"""


def write(path, text, **weights):
    model = onnx.parser.parse_model(text)
    for name, array in weights.items():
        model.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
    onnx.save(model, path, save_as_external_data=True, location="w.bin", size_threshold=64)
    return path


@pytest.fixture
def in_files(tmp_path):
    return write(tmp_path / "model.onnx", TEXT, w=np.eye(64, dtype=np.float32))


@pytest.mark.parametrize(
    ("limit", "options", "told"),
    [
        (64, {"prepacking": False}, True),
        (64, {"prepacking": True}, False),
        (64, {"prepacking": False, "optimization": "none"}, False),
        (1 << 20, {"prepacking": False}, False),
    ],
)
def test_says_what_is_left_out_for_large_weights(in_files, monkeypatch, limit, options, told):
    monkeypatch.setattr(weight_files, "LARGE", limit)
    engine = OnnxRuntimeEngine(**{"optimization": "all"} | options)
    assert bool(left_out_of(engine, load_model(in_files).model)) == told


@pytest.mark.parametrize(("limit", "told"), [(0, True), (1, False)])
def test_says_that_many_constants_are_not_compared(in_files, monkeypatch, limit, told):
    monkeypatch.setattr(large_models, "MANY_CONSTANTS", limit)
    said = left_out_of(OnnxRuntimeEngine(optimization="all"), load_model(in_files).model)
    assert ["equal constants" in note for note in said] == [True] * told


def test_a_run_tells_of_it(in_files, monkeypatch):
    monkeypatch.setattr(weight_files, "LARGE", 64)
    report = run(in_files, ["eliminate-identity"]).report
    assert any("prepacking: true" in note for note in report.notes)


@pytest.mark.parametrize(("prepacking", "open_weights"), [(False, ["v"]), (True, [])])
def test_weights_beside_floats_keep_their_layout(
    tmp_path, monkeypatch, prepacking, open_weights
):
    monkeypatch.setattr(weight_files, "LARGE", 64)
    array = np.random.default_rng(0).integers(-8, 8, (64, 64), np.int8)
    path = write(tmp_path / "model.onnx", INTEGERS, v=array, w=array)
    opened = []
    monkeypatch.setattr(
        ort, "open_session", lambda *a: opened.append(open_session(*a)) or opened[0]
    )
    engine = OnnxRuntimeEngine(optimization="all", prepacking=prepacking)
    x = np.random.default_rng(1).integers(-2, 2, (2, 64)).astype(np.float32)
    with engine.prepare(load_model(path).model) as session:
        y = session.run({"x": x})["y"]
    assert [value.name for value in opened[0].get_overridable_initializers()] == open_weights
    levels = np.clip(np.rint(x @ (array * np.float32(0.5)) / 0.5), -128, 127)
    np.testing.assert_allclose(
        y, levels * 0.5 @ (array * 0.5), rtol=0.02 if prepacking else 1e-6
    )
