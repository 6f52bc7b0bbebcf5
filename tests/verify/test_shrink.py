import warnings

import numpy as np
import pytest

from onnx_passes.verify.shrink import _error_share, first_above, first_of, first_true
from tests.tables import each_of


@each_of("first", *range(1, 9))
def test_the_first_score_above_a_threshold_is_found_with_neighbours(first: int) -> None:
    asked: list[int] = []

    def measure(n: int) -> float:
        asked.append(n)
        return 10.0 + n if n >= first else 0.1 * n

    found, good, bad = first_above(8, measure, final=18.0, threshold=1.0)
    assert (found, good, bad) == (first, pytest.approx(0.1 * (first - 1)), 10.0 + first)
    assert len(asked) <= 3


@each_of("first", *range(1, 9))
def test_the_first_number_is_found_in_a_logarithm_of_questions(first):
    asked = []
    assert first_true(8, lambda n: asked.append(n) or n >= first) == first
    assert len(asked) <= 3


@each_of("width", 1, 2, 3, 7, 100)
@each_of("low", -1, 0, 5)
def test_some_numbers_at_a_time_find_the_same(low, width):
    for first in range(low + 1, 25):
        asked = []

        def hold(points, first=first, asked=asked):
            assert list(points) == sorted(set(points))
            assert len(points) <= width
            asked.extend(points)
            return [point >= first for point in points]

        assert first_of(low, 24, hold, width) == first
        assert len(set(asked)) == len(asked)
        assert not {low, 24} & {*asked}


def test_a_loss_beside_infinities_is_measured_without_a_warning():
    sides = (np.float32([1, np.inf]), np.float16([1.5, np.inf]))
    with warnings.catch_warnings(action="error"):
        assert _error_share(*sides) == 0.5
