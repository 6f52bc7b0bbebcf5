"""Random quantised networks become integers between thresholds, and compute what they did."""

import logging
from collections import Counter
from dataclasses import asdict
from itertools import islice

import pytest

from onnx_passes.certifying.models import Recipe, network_recipes
from onnx_passes.certifying.models.recipe import NETWORK
from onnx_passes.configs.pipeline_files import load_config
from onnx_passes.passes.streamline.annotate_integers import KEY
from onnx_passes.pipeline.run import run_pipeline
from onnx_passes.runtime.inputs import generate
from tests.corpus.quantised_networks import outcome
from tests.corpus.settled import quiet
from tests.tables import each_of

NIGHTLY, PARTS = 400, 8
PRODUCTS = ("MatMul", "Conv")


@pytest.fixture(autouse=True)
def quiet_loggers():
    logging.getLogger("onnx_ir").setLevel(logging.ERROR)


def annotation(value):
    return (value.meta.get("quant_parameter_tensor_names") or {}).get(KEY)


def check(recipes, at_least):
    config = quiet("streamline")
    total, regular = Counter(), 0
    for recipe in recipes:
        original = recipe.model()
        feeds = generate(original, seed=recipe.seed % 1000, samples=3)
        found = outcome(original, config, feeds)
        assert not found.ties.unexplained, f"{recipe}: {found.ties}"
        total.update(asdict(found.ties))
        if found.is_regular:
            regular += 1
            assert not found.quantisers, recipe
            assert not found.floats, f"{recipe}: {[str(node) for node in found.floats]}"
            for node in found.model.graph:
                if node.op_type in PRODUCTS:
                    assert all(map(annotation, [*node.inputs, *node.outputs])), (recipe, node)
    print(f"{dict(total)}, {regular} networks of integers alone")
    assert regular >= at_least
    assert total["found"] > total["steps"] * 0.9
    assert total["undecided"] < total["decisions"] / 10


def test_networks_become_integers_and_compute_the_same():
    check(network_recipes(12, seed=3), at_least=6)


def test_the_gate_tells_an_undecided_element_from_a_fault():
    """Where a sum moves past a tie by rounding, the original does as well."""
    network = Recipe(128397116, (0, 1, 2, 3, 4), NETWORK).model()
    run = run_pipeline(network, load_config("streamline", ["reproducers=false"]))
    run.raise_for_failure()
    reasons = [check.reason or "" for p in run.report.passes for check in p.checks]
    told = ("rounds to steps", "each change agrees by itself", "within rounding of a step")
    assert any(one in reason for reason in reasons for one in told)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@each_of("part", *range(PARTS))
def test_many_networks_become_integers_and_compute_the_same(part):
    check(islice(network_recipes(NIGHTLY, seed=4), part, None, PARTS), at_least=20)
