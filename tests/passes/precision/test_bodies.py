"""Trained networks in the bodies of If and Loop, and in functions."""

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import helper

from onnx_passes.passes.annotation.shape_inference import ShapeInference
from onnx_passes.passes.context import PassContext
from onnx_passes.passes.precision.convert_bfloat16 import ConvertBfloat16
from onnx_passes.passes.precision.convert_float8 import ConvertFloat8
from onnx_passes.passes.precision.convert_float16 import ConvertFloat16
from onnx_passes.passes.precision.quantize_dynamic import QuantizeDynamic
from onnx_passes.passes.precision.quantize_static import QuantizeStatic
from onnx_passes.passes.precision.quantize_weights import QuantizeWeights
from onnx_passes.passes.precision.quantize_weights_gptq import QuantizeWeightsGptq

from .bodies import FOLDER, cascade, writer

LETTERS = "usage: python [option] ... [-c cmd | -m mod | file | -] [arg] ...\n"
PASSES = [
    (ConvertFloat16, {}, 45),
    (ConvertBfloat16, {"missing": "round"}, 25),
    (ConvertFloat8, {}, 12),
    (ConvertFloat8, {"scaled": True}, 12),
    (QuantizeStatic, {}, 18),
    (QuantizeStatic, {"calibration": "percentile"}, 12),
    (QuantizeDynamic, {}, 25),
    (QuantizeWeights, {}, 30),
]


@pytest.fixture(params=["cascade", "writer"])
def network(request, images):
    if request.param == "cascade":
        return cascade(), {"small/image": images[:100]}
    codes = [max(0, min(95, ord(letter) - 32)) for letter in LETTERS[:64]]
    return writer(), {"tokens": np.array([codes], np.int64)}


@pytest.mark.parametrize(("cls", "options", "least"), PASSES)
def test_networks_in_bodies_keep_what_they_compute(network, cls, options, least, run, kept):
    model, feed = network
    old = run(model, feed)
    pass_ = cls(None, {}, **options)
    pass_.context = PassContext(samples=[feed])
    assert pass_.call(model).modified
    level = "basic" if options == {"scaled": True} else "all"
    new = run(model, feed, level)
    if len(old) == 2:
        old, new = [old[1][0]], [new[1][0]]  # the first letter: what follows depends on it
    assert kept(old[0], new[0]) > least


def test_a_body_computes_in_half_and_has_no_casts_at_its_ends(run):
    model = cascade()
    ConvertFloat16().call(model)
    bodies = [graph for graph in model.graphs() if graph is not model.graph]
    for body in bodies:
        assert {node.outputs[0].dtype for node in body} == {ir.DataType.FLOAT16}
        assert "Cast" not in [node.op_type for node in body]
    (choose,) = (node for node in model.graph if node.op_type == "If")
    assert choose.outputs[0].dtype is ir.DataType.FLOAT16
    assert model.graph.outputs[0].dtype is ir.DataType.FLOAT
    assert not ConvertFloat16().call(model).modified


def test_layers_of_a_branch_that_is_not_taken_stay(images, run):
    model, feed = cascade(limit=-1e6), {"small/image": images[:20]}
    pass_ = QuantizeStatic()
    pass_.context = PassContext(samples=[feed])
    assert pass_.call(model).modified
    kinds = [[node.op_type for node in graph] for graph in model.graphs()]
    assert [("QuantizeLinear" in found) for found in kinds] == [True, False, False]
    assert any("does not run on the data" in note for note in pass_.context.notes)
    run(model, feed)


def in_a_function():
    graph = onnx.load(FOLDER / "digits-7.onnx").graph
    weights = [helper.make_node("Constant", [], [w.name], value=w) for w in graph.initializer]
    opset, own = helper.make_opsetid("", 21), helper.make_opsetid("local", 1)
    function = helper.make_function(
        "local", "Net", ["image"], ["scores"], [*weights, *graph.node], [opset]
    )
    call = helper.make_node("Net", ["image"], ["scores"], domain="local")
    main = helper.make_graph([call], "g", list(graph.input), list(graph.output))
    proto = helper.make_model(
        main, functions=[function], opset_imports=[opset, own], ir_version=10
    )
    model = ir.from_proto(proto)
    ShapeInference().call(model)
    return model


@pytest.mark.parametrize(
    ("cls", "options", "least"), [*PASSES, (QuantizeWeightsGptq, {"weights": "int8"}, 35)]
)
def test_networks_in_functions(cls, options, least, images, run, kept):
    model, feed = in_a_function(), {"image": images[:100]}
    (old,) = run(model, feed)
    pass_ = cls(None, {}, **options)
    pass_.context = PassContext(samples=[feed])
    assert pass_.call(model).modified
    assert "calls of functions are replaced by their bodies" in pass_.context.notes
    (new,) = run(model, feed, "basic" if options == {"scaled": True} else "all")
    assert kept(old, new) > least
    assert not pass_.call(model).modified or options == {"missing": "round"}
