from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from onnx_passes.runtime.inputs import describe_feeds


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (np.float32([[-3.125, 2.875]]), "float32[1,2] in [-3.12, 2.88]"),
        (np.int64([3, 100000]), "int64[2] in [3, 1e+05]"),
        (np.float32([np.nan, 1, np.inf]), "float32[3] in [1, 1]"),
        (np.float32([np.nan]), "float32[1]"),
        (np.zeros((0, 2), np.float16), "float16[0,2]"),
        (np.array([True, False]), "bool[2] in [0, 1]"),
        (np.array([1, -2], ml_dtypes.int4), "int4[2] in [-2, 1]"),
        (np.array([1, -2], ml_dtypes.bfloat16), "bfloat16[2] in [-2, 1]"),
        (np.array(["a", "b"], object), "string[2]"),
        (np.ones(2, np.complex64), "complex64[2]"),
        (None, "empty optional"),
        ([], "sequence of 0"),
        ([np.ones(2), np.ones(2), np.ones(3)], "sequence of 3: float64[2], float64[3]"),
    ],
)
def test_feeds_in_words(data, text):
    assert describe_feeds({"x": data}) == {"x": text}
