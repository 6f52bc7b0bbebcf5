"""The shipped pipelines on random models: nothing may differ, bit for bit where none fuses."""

from itertools import islice

import pytest

from onnx_passes.certifying.models import recipes
from onnx_passes.configs.pipeline_files import shipped_configs
from tests.corpus.low_precision import mixed_recipes
from tests.corpus.random_models import findings_of
from tests.tables import each_of

pytestmark = pytest.mark.usefixtures("random_models_are_kept")
NIGHTLY = 2000
PARTS = 20
VERIFIED = 60
LOW = 60
"""Models; a third of them, all kinds of low precision among them, is tested by default."""


@each_of("config", *shipped_configs())
@pytest.mark.timeout(900)
def test_a_shipped_pipeline_changes_no_result(config):
    found = findings_of(config, recipes(40, seed=11))
    print(f"{config}: {found}")
    assert not found.faults, "\n".join(found.faults)
    assert found.judged >= 38


@each_of("config", *shipped_configs())
@pytest.mark.timeout(900)
def test_a_shipped_pipeline_changes_no_result_of_low_precision(config):
    low = (recipe for recipe in mixed_recipes(LOW, seed=11) if recipe.precision is not None)
    found = findings_of(config, low)
    print(f"{config}: {found}")
    assert not found.faults, "\n".join(found.faults)
    assert found.low_share >= 0.8


@pytest.mark.slow
@pytest.mark.timeout(1800)
@each_of("part", *range(PARTS))
@each_of("config", *shipped_configs())
def test_a_shipped_pipeline_changes_no_result_of_2000_models(config, part):
    models = islice(mixed_recipes(NIGHTLY, seed=12), part, None, PARTS)
    found = findings_of(config, models)
    print(f"{config}, part {part}: {found}")
    assert not found.faults, "\n".join(found.faults)
    assert found.judged >= 0.93 * NIGHTLY / PARTS
    assert found.low_share >= 0.8


@pytest.mark.slow
@pytest.mark.timeout(1800)
@each_of("config", *shipped_configs())
def test_the_gate_of_a_shipped_pipeline_refuses_nothing_that_is_right(config):
    found = findings_of(config, recipes(VERIFIED, seed=21), verify=True)
    print(f"{config}, verified: {found}")
    assert not found.faults, "\n".join(found.faults)
    assert found.judged >= 0.93 * VERIFIED
