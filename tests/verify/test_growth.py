import numpy as np
import pytest

from onnx_passes.verify.growth import error_growth

TRUTH = {"y": np.linspace(1, 2, 1000)}
OLD = {"y": TRUTH["y"].astype(np.float32)}


def check(new, old=OLD, limit=2.0):
    (found,) = error_growth(old, {"y": new}, TRUTH, limit)
    return found


def test_the_same_result_has_grown_by_nothing():
    found = check(OLD["y"])
    assert found.passed
    assert found.rmse_new == found.rmse_old
    assert found.share == pytest.approx(0.5)


def test_rounding_in_another_way_is_no_fault():
    other = np.nextafter(OLD["y"], np.float32(0))
    other[::2] = OLD["y"][::2]
    assert check(other, limit=4.0).passed


def test_a_small_systematic_error_is_a_fault():
    found = check(OLD["y"] * np.float32(1.00001))
    assert not found.passed
    assert "times what it was" in found.reason
    assert found.share > 10


def test_a_better_result_passes():
    noisy = {"y": OLD["y"] * np.float32(1.0001)}
    assert check(OLD["y"], old=noisy).passed


def test_an_old_result_that_is_exact_by_luck_does_not_condemn_the_last_bit():
    truth = {"y": np.float64([1, 2, 4])}
    old = {"y": np.float32([1, 2, 4])}
    new = {
        "y": np.float32([1, 2, np.nextafter(np.float32(4), np.float32(5), dtype=np.float32)])
    }
    (found,) = error_growth(old, new, truth, 50.0)
    assert found.passed


def test_nan_infinity_shapes_and_integers_are_compared_as_always():
    for old, new in (
        (np.float32([1, np.nan]), np.float32([1, 1])),
        (np.float32([1, np.inf]), np.float32([1, -np.inf])),
        (np.float32([1, 2]), np.float32([[1, 2]])),
        (np.int64([1, 2]), np.int64([1, 3])),
    ):
        (found,) = error_growth({"y": old}, {"y": new}, {"y": old.astype(float)}, 1e9)
        assert not found.passed


@pytest.mark.parametrize(
    ("truth", "new", "right"),
    [
        ([1, -np.inf, np.inf], [1, -np.inf, np.inf], True),
        ([1, -np.inf, np.inf], [1, -np.inf, -np.inf], False),
        ([1, -np.inf, np.inf], [1, np.inf, np.inf], False),
        ([1, -3e38, np.inf], [1, -np.inf, np.inf], False),
    ],
)
def test_an_infinity_that_the_truth_has_too_is_right(truth, new, right):
    """Of nothing but -inf, ONNX Runtime's MaxPool gives the lowest number."""
    old = np.float32([1, np.finfo(np.float32).min, np.inf])
    exact = {"y": np.float64(truth)}
    (found,) = error_growth({"y": old}, {"y": np.float32(new)}, exact, 1e9)
    assert found.passed == right


def test_two_results_that_are_alike_have_errors_that_are_alike_below_the_floor_too():
    exact = {"y": np.full(1000, 0.5)}
    near = exact["y"].astype(np.float32)
    near[0] = np.nextafter(near[0], np.float32(1))
    (found,) = error_growth({"y": near}, {"y": near}, exact, 2.0)
    assert found.passed
    assert found.rmse_old == found.rmse_new > 0
