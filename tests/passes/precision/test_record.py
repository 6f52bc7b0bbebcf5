"""Values are recorded of models whose weights are in files, in memory, or in bodies."""

import numpy as np
import onnx_ir as ir
import pytest

from onnx_passes.model.load import load_model
from onnx_passes.model.save import save_model
from onnx_passes.passes.annotation.shape_inference import ShapeInference
from onnx_passes.passes.precision._record import record
from onnx_passes.passes.registry import lookup
from onnx_passes.testing import parse

SIZE = 64


def model_of(weight):
    model = parse(
        f"""<ir_version: 10, opset_import: ["" : 21]>
        g (float[n,{SIZE}] x) => (float[n,{SIZE}] y)
        <float[1] w = {{0}}> {{ h = MatMul(x, w) y = Relu(h) }}"""
    )
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


@pytest.mark.parametrize("in_file", [False, True])
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


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("convert-float16", {}),
        ("convert-float8", {"scaled": True}),
        ("quantize-static", {}),
        ("quantize-weights-gptq", {"least": 1}),
        ("quantize-weights-adaround", {"least": 1}),
    ],
)
def test_passes_read_data_beside_weights_in_a_file(weight, tmp_path, name, options):
    model = apart(model_of(weight), tmp_path / "m.onnx")
    path = tmp_path / "x.npz"
    x = np.random.default_rng(1).standard_normal((50, SIZE)).astype(np.float32)
    np.savez(path, x=x)
    (cls,) = lookup(name)
    assert cls(data=[str(path)], **options).call(model).modified
    save_model(model, tmp_path / "out.onnx")
