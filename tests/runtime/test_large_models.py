"""What ONNX Runtime does without, so that models with large weights fit into memory."""

import numpy as np
import onnx
import onnx.parser
import pytest

from onnx_passes import run
from onnx_passes.model.load import load_model
from onnx_passes.runtime import weight_files
from onnx_passes.runtime.large_models import left_out_of
from onnx_passes.runtime.ort import OnnxRuntimeEngine

TEXT = """<ir_version: 10, opset_import: ["" : 20]> g (float[2,64] x) => (float[2,64] y)
    <float[64,64] w> { a = Identity(x) y = MatMul(a, w) }"""


@pytest.fixture
def in_files(tmp_path):
    model = onnx.parser.parse_model(TEXT)
    weight = onnx.numpy_helper.from_array(np.eye(64, dtype=np.float32), "w")
    model.graph.initializer.append(weight)
    path = tmp_path / "model.onnx"
    onnx.save(model, path, save_as_external_data=True, location="w.bin", size_threshold=1)
    return path


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
    said = left_out_of(engine, load_model(in_files).model)
    assert (said is not None) == told


def test_a_run_tells_of_it(in_files, monkeypatch):
    monkeypatch.setattr(weight_files, "LARGE", 64)
    report = run(in_files, ["eliminate-identity"]).report
    assert any("prepacking: true" in note for note in report.notes)
