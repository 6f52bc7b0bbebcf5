"""Samples at once lose what they lose one by one."""

import math

import numpy as np
import pytest

from onnx_passes.tuning import sample_sensitivity as module
from onnx_passes.tuning.loss_budget import Flips, LossBudget
from onnx_passes.tuning.sample_sensitivity import sensitivity

LIMITS = [
    {"kl_divergence": (0.0, 1e-3)},
    {"snr": (25.0, math.inf)},
    {"rmse": (0.0, 0.2)},
    {"max_abs_error": (0.0, 0.3), "kl_divergence": (0.0, 1.0)},
]


def outputs(count=20):
    rng = np.random.default_rng(3)
    return [{"y": rng.normal(size=(1, 10)).astype(np.float32) * 3} for _ in range(count)]


@pytest.mark.parametrize("limits", LIMITS, ids=str)
def test_all_at_once_is_one_by_one(limits, monkeypatch):
    samples, budget = outputs(), LossBudget(limits)
    budget.begin(samples)
    quick = sensitivity(samples, budget)
    monkeypatch.setattr(module, "_stack", lambda samples, budget: None)
    np.testing.assert_allclose(quick, sensitivity(samples, budget), rtol=1e-9)


@pytest.mark.parametrize(
    ("limits", "flips", "rows"),
    [
        ({"cosine": (0.9, 1.0)}, None, 1),
        ({"rmse": (0.0, 0.2)}, Flips(0.5), 1),
        ({"rmse": (0.0, 0.2)}, None, 2),
    ],
)
def test_what_is_no_row_of_scores_is_measured_one_by_one(limits, flips, rows):
    samples = [{"y": np.repeat(sample["y"], rows, 0)} for sample in outputs()]
    budget = LossBudget(limits, flips)
    assert module._stack(samples, budget) is None
    budget.begin(samples)
    assert sensitivity(samples, budget).shape == (20,)


def test_numbers_that_are_not_finite_are_measured_one_by_one():
    samples = outputs()
    samples[3]["y"][0, 2] = np.inf
    assert module._stack(samples, LossBudget({"rmse": (0.0, 1.0)})) is None
