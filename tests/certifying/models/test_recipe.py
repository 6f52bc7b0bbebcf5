from collections import Counter

import onnx
import onnx_ir as ir
import pytest

from onnx_passes.certifying.models import Recipe, network_recipes, recipes
from onnx_passes.certifying.models.fuzz_pass import fuzz_pass
from onnx_passes.certifying.models.recipe import FORMS, INTEGERS, NETWORK, recipes_on
from onnx_passes.passes.quantised.inject_ops import InjectOps
from onnx_passes.passes.streamline.round_thresholds import RoundThresholds
from onnx_passes.runtime.inputs import generate
from onnx_passes.runtime.ort import OnnxRuntimeEngine
from onnx_passes.verify.well_formed import check_structure
from tests.corpus.low_precision import PRECISIONS, low_recipe

RECIPES = list(network_recipes(20, seed=9))


def runs(model, seed=0):
    with OnnxRuntimeEngine(prepacking=False).prepare(model) as session:
        for feeds in generate(model, seed=seed, samples=1):
            session.run(feeds)


def test_networks_run_and_have_what_streamlining_is_about():
    kinds, regular = Counter(), 0
    for recipe in RECIPES:
        model = recipe.model()
        assert not check_structure(model), recipe
        runs(model, seed=1)
        kinds.update(node.op_type for node in model.graph)
        regular += INTEGERS in model.metadata_props
    wanted = {"Quant", "IntQuant", "BipolarQuant", "Conv", "MatMul", "BatchNormalization"}
    assert wanted | {"Add", "Concat", "Softmax", "Transpose", "Relu"} <= set(kinds)
    assert 5 <= regular < len(RECIPES)


@pytest.mark.parametrize("form", FORMS)
def test_every_second_layer_is_the_one_that_is_asked_for(form):
    made = 0
    for recipe in recipes_on([form], 8, seed=2):
        assert (recipe.precision, recipe.form) == (NETWORK, form)
        model = recipe.model()
        assert not check_structure(model), recipe
        runs(model, seed=1)
        kinds = {node.op_type for node in model.graph}
        made += bool(kinds & {"AveragePool", "ReduceMean", "GlobalAveragePool", "Transpose"})
    assert made == 8


@pytest.mark.parametrize("cls", [InjectOps, RoundThresholds])
def test_passes_over_quantised_networks_fire(cls):
    found = fuzz_pass(cls, seconds=600, models=8)
    assert found.verdict == "tested"
    assert found.changed


@pytest.fixture(scope="module")
def protos():
    return [recipe.proto() for recipe in recipes(300, seed=3)]


def nodes(graph):
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs):
                yield from nodes(inner)


def test_nearly_all_are_valid_and_run(protos):
    bad = 0
    for proto in protos:
        try:
            onnx.checker.check_model(proto, full_check=True)
            runs(ir.from_proto(onnx.ModelProto.FromString(proto.SerializeToString())))
        except Exception:
            bad += 1
    assert bad <= 6


def test_the_same_recipe_is_the_same_model():
    recipe = next(recipes(1, seed=5))
    assert recipe.proto() == recipe.proto()
    assert list(recipes(5, seed=5)) == list(recipes(5, seed=5))


def test_a_step_left_out_leaves_the_others_as_they_are():
    recipe = next(r for r in recipes(50, seed=8) if len(r.steps) > 6)
    whole = {node.name: node for node in recipe.proto().graph.node if node.name}
    less = Recipe(recipe.seed, recipe.steps[:-1])
    kept = [node for node in less.proto().graph.node if node.name]
    assert kept
    assert all(whole[node.name] == node for node in kept)


@pytest.mark.parametrize(("precision", "kind"), [(None, "Loop"), ("quantized", "QLinearConv")])
def test_a_recipe_shrinks_to_the_steps_that_matter(precision, kind):
    def has_it(recipe):
        return any(node.op_type == kind for node in recipe.proto().graph.node)

    found = recipes(100, seed=2)
    if precision is not None:
        found = (low_recipe(recipe, precision) for recipe in found)
    recipe = next(r for r in found if has_it(r) and len(r.steps) > 5)
    small = recipe.shrunk(has_it)
    assert has_it(small)
    assert len(small.steps) <= 2


QUANTIZED = {
    "QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear", "MatMulInteger",
    "ConvInteger", "QLinearMatMul", "QLinearConv",
}  # fmt: skip
LOW = {10, 16, 17, 19}
"""Numbers of the element types float16, bfloat16, float8e4m3fn and float8e5m2."""


def low_protos(kind, count=25):
    return [low_recipe(recipe, kind).proto() for recipe in recipes(count, seed=13)]


def low_types(proto):
    """Return the types below float32 of inputs, initializers and Casts."""
    found = {value.type.tensor_type.elem_type for value in proto.graph.input}
    found |= {tensor.data_type for tensor in proto.graph.initializer}
    for node in nodes(proto.graph):
        found |= {a.i for a in node.attribute if a.name == "to"}
        found |= {a.t.data_type for a in node.attribute if a.name == "value"}
    return found & LOW


@pytest.mark.parametrize("kind", PRECISIONS)
def test_models_of_low_precision_have_it_and_run(kind):
    bad = 0
    for proto in low_protos(kind):
        operators = {node.op_type for node in nodes(proto.graph)}
        assert operators & QUANTIZED if kind.startswith("quantized") else low_types(proto)
        try:
            runs(ir.from_proto(proto))
        except Exception:
            bad += 1
    assert bad <= 2


def test_quantized_models_are_of_many_kinds():
    protos = [proto for kind in ("quantized", "float8") for proto in low_protos(kind, 60)]
    operators = Counter(node.op_type for proto in protos for node in nodes(proto.graph))
    assert operators.keys() >= QUANTIZED
    dtypes = {tensor.data_type for proto in protos for tensor in proto.graph.initializer}
    proto_types = onnx.TensorProto
    assert dtypes >= {proto_types.INT8, proto_types.UINT8, proto_types.INT32}
    assert dtypes & {proto_types.INT4, proto_types.UINT4}
    assert dtypes & {proto_types.INT16, proto_types.UINT16}
    bodies = [
        node
        for proto in protos
        for outer in proto.graph.node
        for attribute in outer.attribute
        for node in nodes(attribute.g)
    ]
    assert any(node.op_type in QUANTIZED for node in bodies)
