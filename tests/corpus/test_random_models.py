"""The shipped pipelines on random models: nothing may differ, bit for bit where none fuses."""

import pytest

from onnx_passes.config.load import load_config, shipped_configs
from onnx_passes.config.resolve import resolve
from onnx_passes.contracts import Equality, Tolerance
from onnx_passes.pipeline.run import run_pipeline
from onnx_passes.verify.models import recipes
from onnx_passes.verify.models.trial import attempt

NIGHTLY = 1000
EXACT = ("cleanup", "simplify", "tensorrt")
"""Presets that compute every bit as it was, on one engine."""


def transform_by(settings):
    def transform(model):
        run = run_pipeline(model, settings)
        run.raise_for_failure()
        return run.model

    return transform


@pytest.mark.parametrize("config", shipped_configs())
@pytest.mark.parametrize(
    ("count", "seed"), [(100, 11), pytest.param(NIGHTLY, 12, marks=pytest.mark.slow)]
)
@pytest.mark.timeout(1800)
def test_a_shipped_pipeline_changes_no_result(config, count, seed):
    settings = load_config(config, ["verify=false"])
    transform = transform_by(settings)
    exact = config in EXACT
    held = {
        "contract": Equality() if exact else Tolerance(),
        "allowed": frozenset(
            part for step in resolve(settings).passes for part in step.cls.interface_changes
        ),
    }
    judged, faults = 0, []
    for recipe in recipes(count, seed=seed):
        trial = attempt(recipe, transform, negative_zero=exact, **held)
        judged += trial.judged
        if trial.fault is not None:
            small = recipe.shrunk(lambda r: attempt(r, transform, **held).fault is not None)
            faults.append(f"{small}: {trial.fault}")
    assert not faults
    assert judged >= 0.95 * count
