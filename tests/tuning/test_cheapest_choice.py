"""The cheapest of all choices is tried first, where it may keep the budget."""

import math

import numpy as np

from onnx_passes.tuning.budget_search import TuningSearch
from onnx_passes.tuning.search_record import lines, to_json
from tests.tables import each_of


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
    limits = {"snr": (70.0, math.inf)}
    result = run(task(("int4-weights",), limits, score_all=False))
    assert result.work["whole model"] == 1.0
    assert not any(tried.spent for tried in result.tried)


def test_time_is_measured_before_anything_is_chosen(task):
    result = run(task(("float16",), objective="time", score_all=False))
    assert all(not np.isnan(score.snr) for score in result.scores if not score.refused)
