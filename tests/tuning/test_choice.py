import itertools
import math

import numpy as np
import pytest

from onnx_passes.tuning.choice import (
    ChoiceTable,
    all_of,
    find_front,
    find_smallest_subset,
    holds_any,
    list_neighbours,
    solve,
)
from onnx_passes.tuning.format_scores import Score
from onnx_passes.tuning.groups import by_format
from onnx_passes.tuning.loss_budget import LossBudget


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
    found = solve(costs, losses, np.array([1.0]), without=[all_of((1, 1))])
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


@pytest.fixture
def table():
    """Groups that move one output by 1, 2, 4 ... and cost 10 less the more they move it."""

    def make(count=4, limit=5.0):
        outputs = [{"y": np.zeros(4, np.float32)}]
        rows = []
        for i in range(count):
            effect = [{"y": np.full(4, 2.0**i, np.float32)}]
            rows.append(
                [
                    Score(f"g{i}", "float32", cost=10.0 + i),
                    Score(f"g{i}", "low", "", 20.0, 0.0, effect),
                ]
            )
        budget = LossBudget({"max_abs_error": (0.0, limit)})
        budget.begin(outputs)
        return ChoiceTable(rows, outputs, budget)

    return make


def test_effects_add_up_with_their_signs(table):
    made = table(2, 10.0)
    made.rows[1][1].effect[0]["y"][:] = -1.0
    assert made.predict((1, 0)).total == pytest.approx(0.1)
    assert made.predict((1, 1)).total == 0.0


def test_the_cheapest_choice_within_the_budget(table):
    found, bound = table().best(1.0, math.inf, set())
    assert found == (1, 0, 1, 0)  # 1 + 4 = 5; the groups behind cost more in float32
    assert bound == table().cost(found)


@pytest.mark.parametrize("count", [2, 4, 6])
@pytest.mark.parametrize("limit", [0.5, 3.0, 5.0, 21.0, 63.0])
@pytest.mark.parametrize("sign", [1, -1], ids=["add up", "cancel"])
def test_the_program_finds_what_looking_at_all_does(table, count, limit, sign):
    made = table(count, limit)
    for row in made.rows[::2]:
        row[1].effect[0]["y"][:] *= sign
    every = itertools.product(range(2), repeat=count)
    best = min((made.cost(c) for c in every if made.predict(c).holds), default=None)
    found, bound = made.best(1.0, math.inf, set())
    assert made.predict(found).holds
    assert made.cost(found) <= best + (0 if sign > 0 else 10)
    assert bound <= made.cost(found)


def test_choices_that_were_rejected_are_not_proposed_again(table):
    made = table()
    first, _ = made.best(1.0, math.inf, set())
    second, _ = made.best(1.0, math.inf, {all_of(first)})
    assert second not in (None, first)
    part = frozenset({(0, first[0]), (2, first[2])})
    assert not holds_any(made.best(1.0, math.inf, {part})[0], {part})


def test_nothing_is_proposed_that_is_not_cheaper(table):
    made = table(2, 0.5)
    assert made.best(1.0, made.cost(made.start), set())[0] is None


def test_what_loses_the_most_and_the_least_is_named(table):
    made = table(3, 0.5)
    assert made.describe_worst((1, 0, 1)) == "g2 in low loses the most"
    least = "g0 in low loses the least: uses 2 of the budget (max_abs_error 1)"
    assert made.describe_least() == least
    made.rows = [row[:1] for row in made.rows]
    assert made.describe_least() == "no group can have another format"


def test_corrections_count(table):
    made = table(1, 1.0)
    assert made.expected((1,)) == 1.0
    made.factor = 2.0
    assert made.expected((1,)) == 2.0


def test_the_front_starts_in_float32(table):
    points = find_front(table(), (0.2, 0.6, 1.0))
    assert points[0][0] == (0, 0, 0, 0)
    losses, costs = [p[1] for p in points], [p[2] for p in points]
    assert losses == sorted(losses)
    assert costs == sorted(costs, reverse=True)


def test_nodes_by_format():
    groups = {"a": ["x", "y"], "b": ["z"]}
    assert by_format(groups, {"a": "low", "b": "low"}) == {"low": ["x", "y", "z"]}


@pytest.mark.parametrize("needed", [{3}, {0, 31}, {4, 5, 6}, {1, 9, 17, 30}, set(range(32))])
def test_exactly_the_needed_are_found_in_few_tests(needed):
    tests = []

    def holds(items):
        tests.append(items)
        return needed <= set(items)

    assert set(find_smallest_subset(list(range(32)), holds)) == needed
    assert len(tests) <= 3 * len(needed) * 6


def test_what_is_needed_only_without_others_goes():
    # {0} alone holds, but so do 1 and 2 together with anything.
    def holds(items):
        return 0 in items or {1, 2} <= set(items)

    found = set(find_smallest_subset([0, 1, 2, 3], holds))
    assert found in ({0}, {1, 2})


def test_one_item():
    assert find_smallest_subset(["a"], lambda items: bool(items)) == ["a"]
