"""A transformation that is wrong on some model is found; a right one is not accused."""

import onnx_ir as ir
import pytest

from onnx_passes.graph.walk import all_graphs, topological_order
from onnx_passes.passes.cleanup.topological_sort import TopologicalSort
from onnx_passes.passes.eliminate.eliminate_identity import EliminateIdentity
from onnx_passes.verify.models import recipes
from onnx_passes.verify.models.fuzz_pass import fuzz_pass
from onnx_passes.verify.models.trial import attempt


def right(model):
    return EliminateIdentity()(model).model


def product_is_sum(model):
    for node in model.graph:
        if node.op_type == "Mul":
            node.op_type = "Add"
    return model


def loses_an_output(model):
    model.graph.outputs.pop()
    return model


def raises(model):
    raise KeyError("lost")


def dangling(model):
    for node in model.graph:
        if node.op_type not in ("Constant", "If", "Loop", "Scan"):
            node.replace_input_with(0, ir.Value(name="nowhere"))
    return model


def faults(transform, count):
    trials = [attempt(recipe, transform) for recipe in recipes(count, seed=4)]
    return [trial for trial in trials if trial.fault is not None]


def test_a_right_pass_is_not_accused():
    assert not faults(right, 40)


def test_one_model_in_eight_has_its_nodes_out_of_order():
    seen = []

    def order(model):
        late = any(topological_order(graph) != list(graph) for graph in all_graphs(model))
        seen.append(late)
        return TopologicalSort()(model).model

    for recipe in recipes(60, seed=4):
        before = len(seen)
        trial = attempt(recipe, order, disorder=True)
        assert trial.fault is None
        if len(seen) > before and recipe.seed % 8:
            assert not seen[-1]
    assert any(seen)
    assert fuzz_pass(TopologicalSort, seconds=60, models=40).changed


@pytest.mark.parametrize(
    ("transform", "told"),
    [
        (product_is_sum, "differ"),
        (loses_an_output, "v"),
        (raises, "it raised KeyError"),
        (dangling, "nowhere"),
    ],
)
def test_a_wrong_pass_is_found(transform, told):
    found = faults(transform, 120)
    assert found
    assert any(told in trial.fault for trial in found)
    assert all(trial.before for trial in found)


def test_what_changed_is_told():
    trials = [attempt(recipe, right) for recipe in recipes(40, seed=4)]
    assert any(trial.judged and trial.changed for trial in trials)
    assert any(trial.judged and not trial.changed for trial in trials)
