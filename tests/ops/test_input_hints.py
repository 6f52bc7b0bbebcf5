from __future__ import annotations

import numpy as np

from onnx_passes.ops.input_hints import ValueHint, between, exactly


def test_both_hints_hold():
    both = between(0, 9) & between(3, None) & ValueHint(nonzero=True, distinct=1)
    assert (both.low, both.high, both.nonzero, both.distinct) == (3, 9, True, 1)


def test_of_two_that_contradict_the_first_holds():
    both = between(0, 1) & between(5, 9)
    assert (both.low, both.high) == (0, 1)
    assert (exactly(1) & exactly(2)).exact == 1


def test_bounds_may_be_one_for_each_column():
    both = between(0, np.array([3, 5])) & between(0, 4)
    np.testing.assert_array_equal(both.high, [3, 4])


def test_what_a_rearranged_value_must_keep():
    picked = between(np.array([0, 1]), np.array([3, 5])).without_layout()
    assert (picked.low, picked.high) == (1, 3)
    spread = exactly([2, 7]).without_layout()
    assert (spread.exact, spread.low, spread.high) == (None, 2, 7)
    assert ValueHint(distinct=0).without_layout().empty


def test_the_empty_hint_says_nothing():
    assert ValueHint().empty
    assert not any(
        hint.empty for hint in (between(0, None), exactly(0), ValueHint(filled=True))
    )


def test_a_number_is_admitted_inside_of_all_bounds():
    hint = between(0, np.array([3, 5]))
    assert [n for n in range(-1, 6) if hint.admits(n)] == [0, 1, 2, 3]
    assert not ValueHint(nonzero=True).admits(0)
    assert not exactly([0]).admits(0)
