"""LogSoftmax of the reference engine."""

import numpy as np
import pytest

from onnx_passes import testing
from onnx_passes.runtime.engines import engine_from_config


@pytest.mark.parametrize("axis", [0, -1])
def test_what_is_small_is_not_lost(axis):
    head = '<ir_version: 10, opset_import: ["" : 21]> main '
    model = testing.parse(
        head + f"(float[2,3] x) => (float[2,3] y) {{ y = LogSoftmax<axis = {axis}>(x) }}"
    )
    x = np.float32([[-1000, 0, 500], [1, 2, 3]])
    found = {}
    for name in ("reference", "onnxruntime"):
        with engine_from_config(name, {}).prepare(model) as session:
            found[name] = session.run({"x": x})["y"]
    assert np.isfinite(found["reference"]).all()
    np.testing.assert_allclose(found["reference"], found["onnxruntime"], rtol=1e-6)


def test_nothing_stays_nothing():
    text = '<ir_version: 10, opset_import: ["" : 21]> main (float[0,3] x) => (float[0,3] y) '
    model = testing.parse(text + "{ y = LogSoftmax(x) }")
    with engine_from_config("reference", {}).prepare(model) as session:
        assert session.run({"x": np.zeros((0, 3), np.float32)})["y"].shape == (0, 3)
