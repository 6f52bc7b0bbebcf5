import itertools
import math

import numpy as np
import pytest

from onnx_passes.tuning import choice
from onnx_passes.tuning.budget_search import TuningSearch
from onnx_passes.tuning.format_scores import Score
from onnx_passes.tuning.loss_budget import LossBudget
from onnx_passes.tuning.search_record import lines, to_json
from tests.tables import each_of


@each_of("seed", *range(30))
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
    found = choice.solve(costs, losses, limits)
    assert (found is None) == (best is None)
    if found is not None:
        assert found.cost == pytest.approx(best)
        assert found.bound <= best + 1e-9
        assert found.gap < 1e-6


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
        return choice.ChoiceTable(rows, outputs, budget)

    return make


def test_effects_add_up_with_their_signs(table):
    made = table(2, 10.0)
    made.rows[1][1].effect[0]["y"][:] = -1.0
    assert made.predict((1, 0)).total == pytest.approx(0.1)
    assert made.predict((1, 1)).total == 0.0


@each_of("count", 2, 4, 6)
@each_of("limit", 0.5, 3.0, 5.0, 21.0, 63.0)
@each_of("sign", 1, -1, ids=["add up", "cancel"])
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
    second, _ = made.best(1.0, math.inf, {choice.all_of(first)})
    assert second not in (None, first)
    part = frozenset({(0, first[0]), (2, first[2])})
    assert not choice.holds_any(made.best(1.0, math.inf, {part})[0], {part})


def test_what_loses_the_most_and_the_least_is_named(table):
    made = table(3, 0.5)
    assert made.describe_worst((1, 0, 1)) == "g2 in low loses the most"
    least = "g0 in low loses the least: uses 2 of the budget (max_abs_error 1)"
    assert made.describe_least() == least
    made.rows = [row[:1] for row in made.rows]
    assert made.describe_least() == "no group can have another format"


def test_the_front_starts_in_float32(table):
    points = choice.find_front(table(), (0.2, 0.6, 1.0))
    assert points[0][0] == (0, 0, 0, 0)
    losses, costs = [p[1] for p in points], [p[2] for p in points]
    assert losses == sorted(losses)
    assert costs == sorted(costs, reverse=True)


@each_of("needed", {3}, {0, 31}, {4, 5, 6}, {1, 9, 17, 30}, set(range(32)))
def test_exactly_the_needed_are_found_in_few_tests(needed):
    tests = []

    def holds(items):
        tests.append(items)
        return needed <= set(items)

    assert set(choice.find_smallest_subset(list(range(32)), holds)) == needed
    assert len(tests) <= 3 * len(needed) * 6


# The cheapest of all choices is tried first, where it may keep the budget.


def run(task, report=lambda text: None):
    return TuningSearch(task, report).run()


@each_of("name", "float16", "int8-weights")
def test_a_cheapest_choice_within_the_budget_ends_the_search(task, name):
    given = {"formats": (name,), "limits": {"snr": (20.0, math.inf)}}
    full, early = run(task(**given)), run(task(**given, score_all=False))
    assert early.best.cost <= full.best.cost
    assert early.start == full.start
    assert (early.ended, early.gap) == ("optimal", 0.0)
    assert early.work["whole model"] == 2.0
    assert all(np.isnan(score.snr) for score in early.scores), "no group was run"
    assert set(early.best.names.values()) == {name}


def test_a_group_that_was_not_run_says_so(task):
    result = run(task(formats=("float16",), score_all=False))
    data = to_json(result)
    assert all(group["snr"] == "nan" for group in data["groups"])
    assert "not run" in "\n".join(lines(data))
    assert [point["cost"] for point in data["front"]] == [result.start, result.best.cost]


@each_of("hopeless", 1.5, math.inf)
def test_a_cheapest_choice_beyond_the_budget_leads_to_scores(task, monkeypatch, hopeless):
    monkeypatch.setattr("onnx_passes.tuning.budget_search._HOPELESS", hopeless)
    said = []
    limits = {"snr": (45.0, math.inf)}
    formats = ("int8-static", "int8-weights")
    early = run(task(formats, limits, score_all=False), said.append)
    is_told = any("the cheapest choice is rejected" in text for text in said)
    assert is_told == (hopeless == math.inf)
    assert early.best.names == run(task(formats, limits)).best.names
    assert early.tried[0].accepted != is_told
    assert all(not np.isnan(score.snr) for score in early.scores if not score.refused)


def test_a_hopeless_choice_is_not_run_on_all_samples(task):
    result = run(task(("int4-weights",), {"snr": (70.0, math.inf)}, score_all=False))
    assert result.work["whole model"] == 1.0
    assert not any(tried.spent for tried in result.tried)


def test_time_is_measured_before_anything_is_chosen(task):
    result = run(task(("float16",), objective="time", score_all=False))
    assert all(not np.isnan(score.snr) for score in result.scores if not score.refused)
