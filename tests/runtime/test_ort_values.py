from __future__ import annotations

import ml_dtypes
import numpy as np
import onnx_ir as ir
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onnx_passes.errors import UnsupportedModelError
from onnx_passes.runtime import ort_values

KINDS = ["int4", "uint4", "float4_e2m1fn", "int2", "uint2"]


@given(st.sampled_from(KINDS), st.lists(st.integers(0, 15), max_size=9))
def test_packing_is_undone_by_unpacking(kind, codes):
    dtype = ir.DataType.from_numpy(np.dtype(getattr(ml_dtypes, kind)))
    array = np.uint8(codes).astype(dtype.numpy()) if codes else np.empty(0, dtype.numpy())
    packed = ort_values.pack(array, dtype.bitwidth)
    assert packed.size == -(-array.size * dtype.bitwidth // 8)
    again = ort_values.unpack(packed, dtype.bitwidth, array.dtype, array.shape)
    np.testing.assert_array_equal(again.astype(np.float32), array.astype(np.float32))


@pytest.mark.parametrize("kind", KINDS)
def test_packing_is_that_of_onnx(kind):
    array = (np.arange(12) % 4).astype(getattr(ml_dtypes, kind))
    dtype = ir.DataType.from_numpy(array.dtype)
    assert ort_values.pack(array, dtype.bitwidth).tobytes() == ir.tensor(array).tobytes()


@pytest.mark.parametrize("layout", ["strided", "big-endian", "unaligned"])
def test_memory_that_cannot_be_shared_is_copied(layout):
    array = np.arange(6, dtype=np.float32)
    given_array = {
        "strided": np.repeat(array, 2)[::2],
        "big-endian": array.astype(">f4"),
        "unaligned": np.frombuffer(b"?" + array.tobytes(), np.float32, offset=1),
    }[layout]
    np.testing.assert_array_equal(ort_values.of_array(given_array).numpy(), array)


def test_contiguous_memory_is_shared():
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert ort_values.of_array(array).data_ptr() == array.ctypes.data


def test_an_element_type_that_it_lacks_is_unsupported():
    with pytest.raises(UnsupportedModelError, match="complex64"):
        ort_values.of_array(np.ones(2, np.complex64))
