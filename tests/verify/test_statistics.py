import numpy as np
import pytest

from onnx_passes.verify.statistics import histogram, statistics


def test_statistics_are_numpys_over_several_blocks():
    array = np.random.default_rng(0).normal(1e4, 1, (300, 500)).astype(np.float32)
    array[7, 3], array[9, 1] = np.nan, -np.inf
    known, finite = statistics(array), array[np.isfinite(array)].astype(np.float64)
    assert known["mean"] == pytest.approx(finite.mean())
    assert known["std"] == pytest.approx(finite.std())
    assert (known["nan"], known["inf"]) == (1, 1)
    assert array[tuple(known["max_at"])] == known["max"] == finite.max()
    assert array[tuple(known["min_at"])] == known["min"] == finite.min()
    assert sum(count for *_, count in histogram(array)) == finite.size


@pytest.mark.parametrize("array", [np.zeros(0), np.array([np.nan]), np.array(["a"])])
def test_nothing_finite_has_no_mean(array):
    assert statistics(array)["mean"] is None
    assert histogram(array) == []
