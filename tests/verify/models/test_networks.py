"""Random quantised networks: valid, run by an engine, odd, and the same for the same seed."""

from collections import Counter

import pytest

from onnx_passes.passes.quantised.inject_ops import InjectOps
from onnx_passes.passes.streamline.round_thresholds import RoundThresholds
from onnx_passes.runtime.inputs import generate
from onnx_passes.runtime.ort import OnnxRuntimeEngine
from onnx_passes.verify.models import Recipe, network_recipes
from onnx_passes.verify.models.fuzz_pass import fuzz_pass
from onnx_passes.verify.models.networks import FORMS, INTEGERS
from onnx_passes.verify.models.recipe import NETWORK, recipes_on
from onnx_passes.verify.well_formed import check_structure

RECIPES = list(network_recipes(20, seed=9))


def test_the_same_recipe_gives_the_same_network():
    for recipe in RECIPES[:5]:
        assert recipe.proto() == recipe.proto()
    assert RECIPES[0].proto() != RECIPES[1].proto()


def test_networks_run_and_have_what_streamlining_is_about():
    kinds, regular = Counter(), 0
    for recipe in RECIPES:
        model = recipe.model()
        assert not check_structure(model), recipe
        with OnnxRuntimeEngine(prepacking=False).prepare(model) as session:
            session.run(generate(model, seed=1, samples=1)[0])
        kinds.update(node.op_type for node in model.graph)
        regular += INTEGERS in model.metadata_props
    wanted = {"Quant", "IntQuant", "BipolarQuant", "Conv", "MatMul", "BatchNormalization"}
    assert wanted | {"Add", "Concat", "Softmax", "Transpose", "Relu"} <= set(kinds)
    assert 5 <= regular < len(RECIPES)


def test_layers_may_be_left_out():
    recipe = Recipe(3, (0, 1, 2, 3), NETWORK)
    small = recipe.shrunk(lambda r: any(n.op_type == "Concat" for n in r.model().graph))
    assert len(small.steps) <= len(recipe.steps)
    assert not check_structure(Recipe(3, (), NETWORK).model())


@pytest.mark.parametrize("form", FORMS)
def test_every_second_layer_is_the_one_that_is_asked_for(form):
    made = 0
    for recipe in recipes_on([form], 8, seed=2):
        assert (recipe.precision, recipe.form) == (NETWORK, form)
        model = recipe.model()
        assert not check_structure(model), recipe
        with OnnxRuntimeEngine(prepacking=False).prepare(model) as session:
            session.run(generate(model, seed=1, samples=1)[0])
        kinds = {node.op_type for node in model.graph}
        made += bool(kinds & {"AveragePool", "ReduceMean", "GlobalAveragePool", "Transpose"})
    assert made == 8


@pytest.mark.parametrize("cls", [InjectOps, RoundThresholds])
def test_passes_over_quantised_networks_fire(cls):
    found = fuzz_pass(cls, seconds=600, models=8)
    assert found.verdict == "tested"
    assert found.changed
