"""The shipped pipelines on random models: nothing may differ, bit for bit."""

import pytest

from onnx_passes.config.load import load_config
from onnx_passes.pipeline.run import run_pipeline
from onnx_passes.verify.models import recipes
from onnx_passes.verify.models.trial import attempt

NIGHTLY = 1000


def transform_by(config):
    settings = load_config(config, ["verify=false"])

    def transform(model):
        run = run_pipeline(model, settings)
        run.raise_for_failure()
        return run.model

    return transform


@pytest.mark.parametrize("config", ["cleanup", "optimize"])
@pytest.mark.parametrize(
    ("count", "seed"), [(100, 11), pytest.param(NIGHTLY, 12, marks=pytest.mark.slow)]
)
@pytest.mark.timeout(900)
def test_a_shipped_pipeline_changes_no_result(config, count, seed):
    transform = transform_by(config)
    judged, faults = 0, []
    for recipe in recipes(count, seed=seed):
        trial = attempt(recipe, transform, negative_zero=True)
        judged += trial.judged
        if trial.fault is not None:
            small = recipe.shrunk(lambda r: attempt(r, transform).fault is not None)
            faults.append(f"{small}: {trial.fault}")
    assert not faults
    assert judged >= 0.95 * count
