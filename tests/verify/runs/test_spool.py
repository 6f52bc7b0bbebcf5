import errno

import ml_dtypes
import numpy as np
import pytest

from onnx_passes.errors import UsageError
from onnx_passes.verify.runs.spool import Spool


@pytest.mark.parametrize("dtype", [np.float32, np.bool_, ml_dtypes.bfloat16, np.complex64])
def test_what_does_not_fit_in_memory_comes_back_the_same(dtype):
    spool = Spool(0)
    value = np.arange(6).reshape(2, 3).astype(dtype)
    spool.put(0, {"a": value.T, "none": None, "text": np.array(["x"], object), "b": value[:0]})
    spool.put(1, {"a": value})
    assert spool.on_disk == 2 * value.nbytes
    assert spool.get(0, "a").tolist() == value.T.tolist()
    assert spool.get(1, "a").dtype == value.dtype
    assert spool.names(0) == ["a", "none", "text", "b"]
    assert spool.get(0, "b").shape == (0, 3)


def test_a_full_temporary_folder_is_one_sentence(monkeypatch):
    def full():
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("onnx_passes.verify.runs.spool._scratch", full)
    with pytest.raises(UsageError, match="temporary folder: No space left"):
        Spool(0).put(0, {"a": np.ones(3)})


def test_a_small_value_does_not_keep_what_it_is_a_view_of():
    large = np.zeros(1 << 20)
    spool = Spool(1 << 10)
    spool.put(0, {"a": large[:1]})
    assert spool.get(0, "a").base is None
