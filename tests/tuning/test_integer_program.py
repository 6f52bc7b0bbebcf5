import itertools

import numpy as np
import pytest

from onnx_passes.tuning.integer_program import list_neighbours, solve


@pytest.mark.parametrize("seed", range(30))
def test_the_optimum_is_that_of_all_choices(seed):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 4, 6)
    costs = [rng.random(n) for n in sizes]
    losses = [rng.random((n, 2)) for n in sizes]
    limits = rng.random(2) * 4
    best = min(
        (
            sum(c[i] for c, i in zip(costs, picks, strict=True))
            for picks in itertools.product(*map(range, sizes))
            if (sum(x[i] for x, i in zip(losses, picks, strict=True)) <= limits).all()
        ),
        default=None,
    )
    found = solve(costs, losses, limits)
    assert (found is None) == (best is None)
    if found is not None:
        assert found.cost == pytest.approx(best)
        assert found.bound <= best + 1e-9
        assert found.gap < 1e-6


def test_an_infinite_loss_is_never_chosen():
    found = solve([np.array([1.0, 0.0])], [np.array([[0.0], [np.inf]])], np.array([9.0]))
    assert found.picks == (0,)


def test_choices_that_are_not_wanted_are_left_out():
    costs, losses = [np.array([1.0, 0.0])] * 2, [np.zeros((2, 1))] * 2
    found = solve(costs, losses, np.array([1.0]), without=[(1, 1)])
    assert found.cost == 1.0


def test_no_choice_within_the_limits():
    assert solve([np.array([1.0])], [np.array([[2.0]])], np.array([1.0])) is None


def test_near_a_choice_are_those_that_differ_in_one_or_two_groups():
    found = list(list_neighbours((1, 0, 0), [2, 3, 2]))
    every = list(itertools.product(range(2), range(3), range(2)))
    far = {pick: sum(a != b for a, b in zip(pick, (1, 0, 0), strict=True)) for pick in every}
    assert sorted(found) == sorted(pick for pick, count in far.items() if count in (1, 2))
    many = list(list_neighbours((0,) * 40, [3] * 40))
    assert len(many) == 80
