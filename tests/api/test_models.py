"""Samples in the forms that callers hold them in."""

import numpy as np
import pytest

import onnx_passes
from onnx_passes.errors import ReferenceDataError
from onnx_passes.testing import parse
from tests.tables import each_of

MODEL = parse("""(float[N,2] x, bool b) => (float[N,2] y) { z = Identity(x) w = Where(b, z, x)
    y = Neg(w) }""")


@each_of("b", True, np.bool_(True), np.array(True))
@each_of("x", [[1, 2.5]], np.float32([[1, 2.5]]), ids=["list", "array"])
def test_numbers_and_lists_are_arrays_of_the_declared_type(x, b):
    done = onnx_passes.run(MODEL, "cleanup", inputs={"x": x, "b": b})
    done.raise_for_verdict()
    assert onnx_passes.compare(MODEL, done.model, inputs=[{"x": x, "b": b}]).passed


@each_of("x", [[1, 2], [3]], [["a", "b"]], ids=["ragged", "text"])
def test_lists_of_no_array_are_refused(x):
    with pytest.raises(ReferenceDataError, match="input 'x' is not an array"):
        onnx_passes.run(MODEL, "cleanup", inputs={"x": x, "b": True})
