import math

import numpy as np
import pytest

from onnx_passes.contracts import metrics
from onnx_passes.errors import ConfigError, UnknownMetricError, VerificationError
from tests.tables import each_of


@pytest.fixture(autouse=True)
def _own_registry(monkeypatch):
    monkeypatch.setattr(metrics, "_METRICS", dict(metrics._METRICS))


def test_registers_bare_called_and_named():
    @metrics.register
    def bare(produced, expected):
        return 1

    @metrics.register()
    def called(produced, expected):
        return 2

    @metrics.register("with-a-name", expects="labels", samples="sum")
    def named(produced, expected):
        return 3

    assert metrics.lookup("bare").function is bare
    assert metrics.lookup("called").expects == "either"
    assert metrics.lookup("with_a-name").function is named
    assert metrics.lookup("with-a-name").expects == "labels"
    assert {"bare", "called", "with_a_name"} <= metrics.registered().keys()


def test_refuses_two_metrics_of_one_name():
    metrics.register("mine")(lambda p, e: 1.0)
    with pytest.raises(ConfigError, match=r"two metrics are named 'mine': .*test_metrics"):
        metrics.register("mine")(lambda p, e: 2.0)


def test_a_users_metric_takes_the_place_of_a_built_in_one():
    @metrics.register()
    def accuracy(produced, expected):
        return 42

    assert metrics.lookup("accuracy").measure([[]], [[]]) == 42


@each_of("name", "top_0_accuracy", "top_k_accuracy", "", "top_03_accuracy")
def test_knows_no_other_pattern(name):
    with pytest.raises(UnknownMetricError):
        metrics.lookup(name)


@each_of("samples, value", ("mean", 2.5), ("max", 4), ("min", 1), ("sum", 5))
def test_combines_samples(samples, value):
    metrics.register("first", samples=samples)(lambda p, e: p[0][0])
    # Two samples of one row each; they weigh the same.
    got = metrics.lookup("first").measure(
        [[np.array([1])], [np.array([4])]], [[np.ones(1)]] * 2
    )
    assert got == value


def test_the_mean_weighs_a_batch_by_its_rows():
    scores = [[np.eye(2)[[0, 0, 0]]], [np.eye(2)[[0]]]]
    labels = [[np.array([0, 0, 0])], [np.array([1])]]
    assert metrics.lookup("accuracy").measure(scores, labels) == 0.75


def test_concatenates_samples():
    metrics.register("spread", samples="concatenate")(lambda p, e: float(np.ptp(p[0])))
    spread = metrics.lookup("spread")
    assert spread.measure([[np.array([1])], [np.array([5, 6])]], [[np.ones(1)]] * 2) == 5
    with pytest.raises(VerificationError, match="'spread' needs all samples in one batch"):
        spread.measure([[np.ones((1, 2))], [np.ones((1, 3))]], [[np.ones(1)]] * 2)


@each_of("samples", "mean", "max", "min", "sum")
def test_nan_of_one_sample_is_not_lost(samples):
    metrics.register("first", samples=samples)(lambda p, e: p[0][0])
    values = [[np.array([1.0])], [np.array([math.nan])], [np.array([2.0])]]
    assert math.isnan(metrics.lookup("first").measure(values, [[np.ones(1)]] * 3))
