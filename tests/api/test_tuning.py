"""``onnx_passes.tune``."""

import json
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest

import onnx_passes

DIGITS = Path(__file__).parents[2] / "examples" / "digits"
PIPELINE = {
    "verify": {"metrics": {"kl_divergence": [0, 0.001]}},
    "tune": {"formats": ["float16", "int8-weights"], "objective": "size"},
}


@pytest.fixture(scope="module")
def samples():
    return {"image": np.load(DIGITS / "images.npy")}


@pytest.fixture(scope="module")
def result(samples):
    return onnx_passes.tune(DIGITS / "model.onnx", PIPELINE, inputs=samples)


def test_the_result_is_smaller_and_can_be_saved(result, tmp_path):
    path = result.save(tmp_path / "small.onnx")
    onnx.checker.check_model(str(path), full_check=True)
    assert path.stat().st_size < 0.4 * (DIGITS / "model.onnx").stat().st_size
    assert set(result.formats.values()) <= {"float32", "float16", "int8-weights"}
    assert "size:" in repr(result)
    assert "% less; " in str(result)
    json.dumps(result.data)


def test_a_model_in_memory_stays_as_it_is(samples):
    proto = onnx.load(DIGITS / "model.onnx")
    before = proto.SerializeToString(deterministic=True)
    told = []
    found = onnx_passes.tune(proto, PIPELINE, inputs=[samples], progress=told.append)
    assert proto.SerializeToString(deterministic=True) == before
    assert found.data["cost"]["chosen"] < found.data["cost"]["original"]
    assert told[0].endswith("recording the original")


def test_the_room_does_not_hide_the_function():
    import onnx_passes.tuning.budget_search

    assert callable(onnx_passes.tune)
    assert isinstance(ir.load(DIGITS / "model.onnx"), ir.Model)
