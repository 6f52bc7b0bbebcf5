import ml_dtypes
import numpy as np
import pytest

from onnx_passes.contracts.elements import blocks, dtype_name, kind_of, widen


@pytest.mark.parametrize(
    ("dtype", "kind"),
    [
        (np.float16, "float"),
        (ml_dtypes.bfloat16, "float"),
        (ml_dtypes.float8_e4m3fn, "float"),
        (ml_dtypes.float8_e5m2, "float"),
        (ml_dtypes.float4_e2m1fn, "float"),
        (ml_dtypes.int4, "int"),
        (ml_dtypes.uint2, "int"),
        (np.uint64, "int"),
        (np.complex64, "complex"),
        (bool, "bool"),
        (object, "string"),
        ("<U3", "string"),
        ("datetime64[s]", "other"),
        ([("a", int)], "other"),
    ],
)
def test_kind(dtype, kind):
    assert kind_of(np.dtype(dtype)) == kind


def test_names_leave_byte_order_and_text_width_out():
    assert dtype_name(np.dtype(">f4")) == "float32"
    assert dtype_name(np.dtype("<U3")) == dtype_name(np.dtype(object)) == "string"


@pytest.mark.parametrize("shape", [(), (0,), (3, 0), (7,), (3, 5, 2)])
def test_blocks_cover_every_element_in_order(shape):
    array = np.arange(np.prod(shape, dtype=int)).reshape(shape)
    for layout in (array, np.asfortranarray(array), array.T.copy().T):
        parts = list(blocks(layout, array, size=4))
        seen = [x for _, (part, _) in parts for x in part]
        assert seen == list(range(array.size))
        assert [start for start, _ in parts] == list(range(0, array.size, 4))
        assert all(np.array_equal(a, b) for _, (a, b) in parts)


def test_widening_is_exact():
    block = np.array([0.1, 448], ml_dtypes.float8_e4m3fn)
    assert np.array_equal(widen(block).astype(block.dtype), block)
    assert widen(np.ones(1, np.complex64)).dtype == np.complex128
