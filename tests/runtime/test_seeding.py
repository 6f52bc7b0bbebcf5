"""Random operators without seeds get such that stay where others are rewritten."""

import numpy as np
import onnx_ir as ir
import pytest

from onnx_passes.model.walk import all_nodes
from onnx_passes.runtime.ort import OnnxRuntimeEngine
from onnx_passes.runtime.reference import ReferenceEngine
from onnx_passes.runtime.seeding import with_seeds

HEAD = '<ir_version: 10, opset_import: ["" : 20]> g (float[64] x) => (float[64] y) '
TWO = "{ a = RandomNormalLike(x) b = RandomUniformLike(x) y = Add(a, b) }"


def model(body):
    return ir.from_onnx_text(HEAD + body)


def seeds(model):
    return {
        str(node.outputs[0].name): node.attributes["seed"].value
        for node in all_nodes(model)
        if "seed" in node.attributes
    }


def test_a_model_without_random_operators_is_not_copied():
    given = model("{ y = Neg(x) }")
    assert with_seeds(given, 0) is given


def test_a_seed_of_the_model_is_kept():
    given = model("{ y = RandomNormalLike<seed = 3.0>(x) }")
    assert with_seeds(given, 0) is given


def test_the_model_itself_is_not_changed():
    given = model(TWO)
    assert set(seeds(with_seeds(given, 0))) == {"a", "b"}
    assert seeds(given) == {}


def test_each_operator_has_its_own_and_keeps_it_whatever_is_rewritten_around_it():
    found = seeds(with_seeds(model(TWO), 0))
    assert found["a"] != found["b"]
    fewer = model("{ n = Neg(x) b = RandomUniformLike(n) y = Abs(b) }")
    assert seeds(with_seeds(fewer, 0)) == {"b": found["b"]}


def test_the_seed_of_the_engine_goes_into_all():
    one, other = (seeds(with_seeds(model(TWO), n)) for n in (0, 1))
    assert one["a"] != other["a"]
    assert one["b"] != other["b"]


def test_those_in_bodies_and_functions_get_one_too():
    given = ir.from_onnx_text(
        """<ir_version: 10, opset_import: ["" : 20, "my" : 1]>
        g (float[64] x, bool c) => (float[64] y) {
            f = my.noise(x)
            y = If(c) <
                then_branch = t () => (o) { o = RandomNormalLike(f) },
                else_branch = e () => (p) { p = Neg(f) }
            >
        }
        <domain: "my", opset_import: ["" : 20]>
        noise (v) => (w) { w = RandomUniformLike(v) }"""
    )
    assert set(seeds(with_seeds(given, 0))) == {"o", "w"}


@pytest.mark.parametrize("engine", [OnnxRuntimeEngine(), ReferenceEngine()], ids=str)
def test_two_models_draw_the_same_numbers_where_one_has_a_node_less(engine):
    longer = model(
        "{ z = RandomNormalLike(x) q = Abs(z) b = RandomUniformLike(x) y = Neg(b) }"
    )
    shorter = model("{ b = RandomUniformLike(x) y = Neg(b) }")
    feeds = {"x": np.zeros(64, np.float32)}
    found = []
    for one in (longer, shorter):
        with engine.prepare(one) as session:
            found.append(session.run(feeds)["y"])
    np.testing.assert_array_equal(*found)
    assert len(np.unique(found[0])) > 32
