"""A region check never says what a run of the whole model would not: on random models."""

import numpy as np
import onnx_ir as ir
import pytest

from onnx_passes import passes
from onnx_passes.certifying.models import recipes
from onnx_passes.configs.pipeline_files import load_config
from onnx_passes.model.walk import all_graphs
from onnx_passes.passes.base import Transformation
from onnx_passes.pipeline.run import run_pipeline
from onnx_passes.verify.evidence import Verdict
from tests.tables import each_of

OTHER = {
    "Add": "Sub", "Sub": "Add", "Mul": "Add", "Max": "Min", "Min": "Max", "And": "Or",
    "Or": "And", "Abs": "Neg", "Neg": "Identity", "Relu": "Identity", "Sign": "Abs",
    "Less": "Greater", "Greater": "Less", "ReduceMax": "ReduceMin", "Floor": "Ceil",
    "ArgMax": "ArgMin", "Sin": "Cos", "Exp": "Tanh", "Sigmoid": "Tanh", "Sum": "Max",
}  # fmt: skip


@passes.register("spoil")
@passes.verify.equality
class Spoil(Transformation):
    """Change one thing that a wrong pass might change."""

    seed: int = 0

    def call(self, model):
        rng = np.random.default_rng(self.seed)
        edits = list(edits_of(model))
        if not edits:
            return ir.passes.PassResult(model, modified=False)
        edits[int(rng.integers(len(edits)))]()
        return ir.passes.PassResult(model, modified=True)


def edits_of(model):
    for graph in all_graphs(model):
        for node in list(graph):
            if node.op_type in OTHER and node.domain == "":
                yield lambda node=node: setattr(node, "op_type", OTHER[node.op_type])
            if node.op_type in ("Sub", "Div", "Where", "Pow") and len(node.inputs) >= 2:
                yield lambda node=node: swap(node)
            if "axis" in node.attributes and node.op_type in ("Softmax", "ArgMax", "CumSum"):
                yield lambda node=node: node.attributes.pop("axis")
            if node.op_type == "Constant":
                yield lambda node=node: nudge(node)
            if node.op_type == "Identity" and node.inputs[0].dtype == node.outputs[0].dtype:
                yield lambda node=node: None
        for value in list(graph.initializers.values()):
            tensor = value.const_value
            if tensor is not None and tensor.dtype == ir.DataType.FLOAT:
                yield lambda value=value, t=tensor: setattr(
                    value, "const_value", ir.tensor(t.numpy() + 1, name=value.name)
                )


def swap(node):
    a, b = node.inputs[-2], node.inputs[-1]
    node.replace_input_with(len(node.inputs) - 2, b)
    node.replace_input_with(len(node.inputs) - 1, a)


def nudge(node):
    attribute = node.attributes.get("value")
    if attribute is not None and attribute.value.dtype == ir.DataType.FLOAT:
        changed = ir.tensor(attribute.value.numpy() * np.float32(1.5))
        node.attributes["value"] = ir.AttrTensor("value", changed)
        node.outputs[0].const_value = None


def verdict(recipe, scope, seed):
    """Return what became of each pass, and whether a sample decided that regions ask for."""
    config = load_config(
        "cleanup", [f"passes=[{{spoil: {{seed: {seed}}}}}]", f"verify.scope={scope}"]
    )
    try:
        run = run_pipeline(recipe.model(), config)
    except Exception as error:
        return type(error).__name__, False
    # A fault of the result alone counts for neither: the pass was let through. What outputs
    # cannot see, a run of the whole model does not verify, and a region may.
    failed = [(p.name, p.verdict is Verdict.FAILED) for p in run.report.passes]
    return failed, "drawn in" in str(run.error)


@pytest.mark.usefixtures("random_models_are_kept")
@each_of("count", 15, pytest.param(1500, marks=[pytest.mark.slow, pytest.mark.timeout(1800)]))
def test_a_region_check_and_the_whole_model_agree(count):
    disagree = []
    for recipe in recipes(count, seed=count):
        for seed in range(2):
            (region, drawn), (whole, _) = (
                verdict(recipe, scope, seed) for scope in ("auto", "model")
            )
            if region != whole and not drawn:
                disagree.append((recipe, seed, region, whole))
    assert not disagree
