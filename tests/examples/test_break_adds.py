"""The BreakAdds example: its model is what its script writes, and what its README says."""

import runpy
from pathlib import Path

import numpy as np
import onnx
import onnxruntime

HERE = Path(__file__).parents[2] / "examples" / "break_adds"


def test_model_is_what_its_script_writes():
    text = runpy.run_path(str(HERE / "make_model.py"))["TEXT"]
    assert onnx.load(HERE / "model.onnx") == onnx.parser.parse_model(text)


def test_model_is_the_relu_of_a_sum():
    a, b = np.float32([[1, -2, 3, -4]]), np.float32([[1, 1, -9, 9]])
    session = onnxruntime.InferenceSession(HERE / "model.onnx")
    assert np.array_equal(session.run(None, {"a": a, "b": b})[0], [[2, 0, 0, 5]])
