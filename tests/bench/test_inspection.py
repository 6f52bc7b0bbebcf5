import ml_dtypes
import numpy as np
import pytest

from onnx_passes.bench.inspection import statistics
from tests.tables import each_of


@each_of(
    "array",
    np.random.default_rng(0).normal(size=200_001),
    np.random.default_rng(1).normal(size=(100, 2001)).astype(np.float16),
    np.random.default_rng(2).integers(-9, 9, 150_000),
    np.repeat([1.0, 2.0, 3.0], 60_000),
    np.concatenate([np.zeros(99_999), [1e300, np.inf, np.nan], np.full(70_000, 1e-300)]),
    np.array([-1.7e308, 1.7e308, 5.0]),
    np.array([3, 1], np.uint8),
    np.array([True, False, True]),
)
def test_median_and_variance_are_numpys(array):
    known, finite = statistics(array), array[np.isfinite(array)].astype(np.float64)
    assert known["median"] == np.median(finite)
    with np.errstate(over="ignore"):
        assert known["variance"] == pytest.approx(finite.var(), nan_ok=True)


@each_of("name", "bfloat16", "float8_e4m3fn", "int4", ">f4", ">i8", "uint64")
def test_medians_and_ends_of_types_beside_numpys_own(name):
    dtype = np.dtype(getattr(ml_dtypes, name, name))
    array = np.random.default_rng(3).integers(-7, 7, 70_001).astype(np.int8).astype(dtype)
    known, wide = statistics(array), array.astype(np.float64)
    assert known["median"] == np.median(wide)
    assert (known["min"], known["max"]) == (
        array.astype(object).min(),
        array.astype(object).max(),
    )
