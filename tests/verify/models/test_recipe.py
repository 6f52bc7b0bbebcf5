"""Random models are valid, odd, repeatable, and shrink."""

from collections import Counter

import onnx
import pytest

from onnx_passes.runtime.inputs import generate
from onnx_passes.runtime.ort import OnnxRuntimeEngine
from onnx_passes.verify.models import Recipe, recipes


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
            model = onnx.ModelProto.FromString(proto.SerializeToString())
            runs(model)
        except Exception:
            bad += 1
    assert bad <= 6


def runs(proto):
    import onnx_ir as ir

    model = ir.from_proto(proto)
    with OnnxRuntimeEngine(prepacking=False).prepare(model) as session:
        for feeds in generate(model, samples=1):
            session.run(feeds)


def test_they_are_of_many_kinds(protos):
    operators = Counter(node.op_type for proto in protos for node in nodes(proto.graph))
    assert len(operators) > 100
    assert {"If", "Loop", "Scan", "Conv", "Reshape", "Identity"} <= operators.keys()
    assert len({proto.opset_import[0].version for proto in protos}) > 6
    inputs = [value for proto in protos for value in proto.graph.input]
    dtypes = {value.type.tensor_type.elem_type for value in inputs}
    assert len(dtypes) > 8
    dims = [dim for value in inputs for dim in value.type.tensor_type.shape.dim]
    assert any(dim.dim_param for dim in dims)
    assert any(not dim.dim_param and dim.dim_value == 0 for dim in dims)
    assert any(not value.type.tensor_type.shape.dim for value in inputs)
    assert any(proto.functions for proto in protos)
    overridable = [
        tensor.name
        for proto in protos
        for tensor in proto.graph.initializer
        if tensor.name in {value.name for value in proto.graph.input}
    ]
    assert overridable


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


def test_a_recipe_shrinks_to_the_steps_that_matter():
    def has_loop(recipe):
        return any(node.op_type == "Loop" for node in recipe.proto().graph.node)

    recipe = next(r for r in recipes(100, seed=2) if has_loop(r) and len(r.steps) > 5)
    small = recipe.shrunk(has_loop)
    assert has_loop(small)
    assert len(small.steps) <= 2
