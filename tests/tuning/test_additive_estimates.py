"""Sums of what groups cost and lose, and how far choices fall below them."""

import itertools

import numpy as np
import pytest

from onnx_passes.tuning.choice import ChoiceTable, bound_cancellation, sort_choices
from onnx_passes.tuning.format_scores import Score
from onnx_passes.tuning.loss_budget import LossBudget


def table(metric, groups=9, size=500):
    rng = np.random.default_rng(0)
    outputs = [{"y": rng.normal(size=(size, 4)).astype(np.float32)}]
    rows = [
        [
            Score(f"g{i}", "float32", cost=2.0),
            Score(
                f"g{i}",
                "int8",
                cost=1.0,
                effect=[{"y": rng.normal(size=(size, 4)).astype(np.float32) * 0.01}],
            ),
        ]
        for i in range(groups)
    ]
    budget = LossBudget({metric: (10.0, np.inf) if metric == "snr" else (0.0, 1.0)})
    budget.begin(outputs)
    return ChoiceTable(rows, outputs, budget)


def ratio(asked):
    sizes = [len(row) for row in asked.rows]
    return bound_cancellation(sizes, lambda choice: asked.predict_alone(choice).total)


def test_all_choices_are_sorted_by_cost():
    costs = [np.array([3.0, 1.0]), np.array([5.0, 4.0, 0.5])]
    losses = [np.array([0.0, 1.0]), np.array([0.0, 2.0, 4.0])]
    cost, loss, picks = sort_choices(costs, losses)
    assert sorted(map(tuple, picks)) == sorted(itertools.product(range(2), range(3)))
    assert (np.diff(cost) >= 0).all()
    for one, other, pick in zip(cost, loss, picks, strict=True):
        assert one == sum(row[i] for row, i in zip(costs, pick, strict=True))
        assert other == sum(row[i] for row, i in zip(losses, pick, strict=True))


@pytest.mark.parametrize(("metric", "low", "high"), [("snr", 1.3, 2.0), ("rmse", 3.0, 4.0)])
def test_squares_add_up_and_roots_do_not(metric, low, high):
    """Losses that are independent: of squares, a choice loses the sum of its groups."""
    assert low <= ratio(table(metric)) <= high


def test_no_choice_that_keeps_the_budget_is_beyond():
    asked = table("rmse")
    most = ratio(asked)
    for choice in itertools.product(range(2), repeat=9):
        alone = [asked.alone(i, pick) for i, pick in enumerate(choice)]
        total = sum(asked.predict_alone(one).total for one in alone)
        assert asked.predict_alone(choice).total * most >= total


def test_where_nothing_is_lost_little_is_told():
    asked = table("snr", groups=2)
    asked.rows = [[row[0]] for row in asked.rows]
    assert ratio(asked) == 4.0
