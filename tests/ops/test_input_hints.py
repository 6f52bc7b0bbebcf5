from __future__ import annotations

import numpy as np

from onnx_passes.ops.input_hints import ValueHint, between, exactly


def test_of_two_that_contradict_the_first_holds():
    both = between(0, 1) & between(5, 9)
    assert (both.low, both.high) == (0, 1)
    assert (exactly(1) & exactly(2)).exact == 1


def test_what_a_rearranged_value_must_keep():
    picked = between(np.array([0, 1]), np.array([3, 5])).without_layout()
    assert (picked.low, picked.high) == (1, 3)
    spread = exactly([2, 7]).without_layout()
    assert (spread.exact, spread.low, spread.high) == (None, 2, 7)
    assert ValueHint(distinct=0).without_layout().empty


def test_a_number_is_admitted_inside_of_all_bounds():
    hint = between(0, np.array([3, 5]))
    assert [n for n in range(-1, 6) if hint.admits(n)] == [0, 1, 2, 3]
    assert not ValueHint(nonzero=True).admits(0)
    assert not exactly([0]).admits(0)
