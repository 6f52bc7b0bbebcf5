"""Planted forms fire passes, miss narrowly, and are the same for the same seed."""

from collections import Counter

import numpy as np
import pytest

from onnx_passes.certifying.models import planted, recipes
from onnx_passes.certifying.models.planted.plant import FormBuilder
from onnx_passes.certifying.models.scope import CannotAddNodeError, GraphScope
from onnx_passes.configs.pipeline_files import load_config
from onnx_passes.pipeline.run import run_pipeline

SEEDS = 12


def scope_of(step, seed, opset=23):
    scope = GraphScope(seed, opset)
    step(scope, scope.begin(1))
    return scope


def fits(step):
    for seed in range(SEEDS):
        try:
            yield scope_of(step, seed, 23 + seed % 2)  # Swish came with 24
        except CannotAddNodeError:
            continue


@pytest.mark.parametrize(
    "step",
    dict.fromkeys((*planted.STEPS, *planted.FORMS.values())),
    ids=lambda step: step.__name__,
)
def test_each_form_can_be_made_and_ends_in_a_value_that_may_be_returned(step):
    made = list(fits(step))
    assert made
    for scope in made:
        outputs = {name for node in scope.nodes for name in node.output}
        assert outputs & {value.name for value in (*scope.values, *scope.sealed)}


def test_exact_forms_deviate_in_nothing_and_others_do():
    plants = [
        FormBuilder(GraphScope(0, 23), np.random.default_rng(seed)) for seed in range(40)
    ]
    exact = [plant for plant in plants if plant.exact]
    assert 0 < len(exact) < len(plants)
    assert not any(plant.miss(1.0) for plant in exact)
    assert all(plant.miss(1.0) for plant in plants if not plant.exact)


def test_rewrite_rules_of_many_kinds_fire_in_few_models():
    settings = load_config("optimize", ["verify=false", "reproducers=false"])
    fired = Counter()
    for recipe in recipes(40, seed=12):
        run = run_pipeline(recipe.model(), settings)
        fired.update({r.rule for done in run.report.passes for r in done.rewrites})
    assert len(fired) > 60
    assert sum(name.startswith(("fuse", "merge")) for name in fired) > 20
