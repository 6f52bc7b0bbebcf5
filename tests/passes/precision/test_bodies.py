"""Trained networks in the bodies of If and Loop, and in functions."""

import contextlib

import numpy as np
import onnx_ir as ir
import pytest

from onnx_passes.cli.main import main
from onnx_passes.passes.annotation.shape_inference import ShapeInference
from onnx_passes.passes.precision.convert_bfloat16 import ConvertBfloat16
from onnx_passes.passes.precision.convert_float16 import ConvertFloat16
from onnx_passes.passes.precision.correct_biases import CorrectBiases
from onnx_passes.passes.precision.place_qdq import PlaceQdq
from onnx_passes.passes.precision.quantize_dynamic import QuantizeDynamic
from onnx_passes.passes.precision.quantize_static import QuantizeStatic
from onnx_passes.passes.precision.quantize_weights import QuantizeWeights
from onnx_passes.passes.precision.quantize_weights_gptq import QuantizeWeightsGptq
from onnx_passes.passes.precision.remove_qdq import RemoveQdq
from onnx_passes.passes.precision.smooth_activations import SmoothActivations
from tests.passes.precision.bodies import built, cascade, network, writer
from tests.passes.precision.samples import sampled
from tests.passes.test_in_bodies import in_a_function
from tests.tables import each_of

HEAD = "digits (float[batch,1,8,8] image)"
DIGITS = network("digits-7")
LETTERS = "usage: python [option] ... [-c cmd | -m mod | file | -] [arg] ...\n"
PASSES = [
    (ConvertFloat16, {}, 45),
    (ConvertBfloat16, {"missing": "round"}, 25),
    (QuantizeStatic, {}, 18),
    (QuantizeStatic, {"calibration": "percentile"}, 12),
    (QuantizeDynamic, {}, 25),
    (QuantizeWeights, {}, 30),
]


@pytest.fixture(params=["cascade", "writer"], name="network")
def network_in_bodies(request, images):
    if request.param == "cascade":
        return cascade(), {"small/image": images[:100]}
    codes = [max(0, min(95, ord(letter) - 32)) for letter in LETTERS[:64]]
    return writer(), {"tokens": np.array([codes], np.int64)}


@each_of("cls, options, least", *PASSES)
def test_networks_in_bodies_keep_what_they_compute(network, cls, options, least, run, kept):
    model, feed = network
    old = run(model, feed)
    assert sampled(cls(None, {}, **options), feed).call(model).modified
    new = run(model, feed)
    if len(old) == 2:
        old, new = [old[1][0]], [new[1][0]]  # the first letter: what follows depends on it
    assert kept(old[0], new[0]) > least


def test_a_body_computes_in_half_between_its_ends():
    model = cascade()
    ConvertFloat16().call(model)
    bodies = [graph for graph in model.graphs() if graph is not model.graph]
    for inner in bodies:
        computed = [node for node in inner if node.op_type != "Cast"]
        assert {node.outputs[0].dtype for node in computed} == {ir.DataType.FLOAT16}
    (choose,) = (node for node in model.graph if node.op_type == "If")
    assert choose.outputs[0].dtype is model.graph.outputs[0].dtype is ir.DataType.FLOAT
    assert not ConvertFloat16().call(model).modified


def test_layers_of_a_branch_that_is_not_taken_stay(images, run):
    model, feed = cascade(limit=-1e6), {"small/image": images[:20]}
    pass_ = sampled(QuantizeStatic(), feed)
    assert pass_.call(model).modified
    kinds = [[node.op_type for node in graph] for graph in model.graphs()]
    assert [("QuantizeLinear" in found) for found in kinds] == [True, False, False]
    assert any("does not run on the data" in note for note in pass_.context.notes)
    run(model, feed)


def digits_in_a_function():
    model = in_a_function(built(HEAD + " => (float[batch,10] scores) {}", digits=DIGITS))
    ShapeInference().call(model)
    return model


@each_of("cls, options, least", *PASSES, (QuantizeWeightsGptq, {"weights": "int8"}, 35))
def test_networks_in_functions(cls, options, least, images, run, kept):
    model, feed = digits_in_a_function(), {"image": images[:100]}
    (old,) = run(model, feed)
    pass_ = sampled(cls(None, {}, **options), feed)
    assert pass_.call(model).modified
    assert "calls of functions are replaced by their bodies" in pass_.context.notes
    (new,) = run(model, feed)
    assert kept(old, new) > least
    assert not pass_.call(model).modified or options == {"missing": "round"}


INT4 = {"weights": "int4", "block": 32, "least": 1}
STATIC = (QuantizeStatic, {"per_channel": False})


def steps(model, feed, *listed):
    """Apply passes one after the other; return the last one."""
    state: dict = {}
    for cls, options in listed:
        pass_ = sampled(cls(None, state, **options), feed)
        assert pass_.call(model).modified
        ShapeInference().call(model)
    return pass_


def body_kinds(model):
    inner = [graph for graph in model.graphs() if graph is not model.graph]
    return [node.op_type for graph in inner for node in graph]


def in_a_branch():
    """Return the network of 7 layers in a branch of an If."""
    zeros = ", ".join("0" * 10)
    text = f"""g (float[batch,1,8,8] image) => (float[?,10] out) {{
      yes = Constant<value = bool {{1}}>() out = If(yes) <
      then_branch = digits () => (float[batch,10] scores) {{ }}, else_branch = idle ()
      => (float[1,10] none) {{ none = Constant<value = float[1,10] {{{zeros}}}>() }}> }}"""
    return built(text, digits=DIGITS)


@each_of("listed", [STATIC, (PlaceQdq, {})])
def test_a_layer_in_a_branch_is_treated_as_in_the_main_graph(deep, images, run, kept, listed):
    inner, outer = in_a_branch(), deep(7)
    feed, held = {"image": images[:100]}, {"image": images[100:]}
    assert np.array_equal(run(inner, held)[0], run(outer, held)[0])
    steps(inner, feed, *listed)
    steps(outer, feed, *listed)
    assert kept(run(outer, held)[0], run(inner, held)[0]) > 40


def test_quantisers_in_bodies_are_placed_and_removed(network, run, kept):
    model, feed = network
    old = run(model, feed)[-1][:1]
    steps(model, feed, (QuantizeStatic, {}))
    count = body_kinds(model).count("QuantizeLinear")
    steps(model, feed, (PlaceQdq, {}))
    assert 0 < body_kinds(model).count("QuantizeLinear") <= count
    for graph in model.graphs():
        for inner in graph:
            if inner.op_type in ("QuantizeLinear", "DequantizeLinear"):
                assert inner.inputs[2].const_value.dtype is ir.DataType.INT8
    assert kept(old, run(model, feed)[-1][:1]) > 10
    assert not PlaceQdq().call(model).modified
    steps(model, feed, (RemoveQdq, {"weights": True}))
    assert not {"QuantizeLinear", "DequantizeLinear"} & {*body_kinds(model)}
    assert kept(old, run(model, feed)[-1][:1]) > 25


def test_layers_in_functions_are_scaled(images, run):
    model, feed = digits_in_a_function(), {"image": images[:100]}
    (old,) = run(model, feed)
    steps(model, feed, (SmoothActivations, {}))
    np.testing.assert_allclose(run(model, feed)[0], old, rtol=1e-3, atol=1e-3)


def test_functions_without_quantisers_stay(images):
    for cls in (PlaceQdq, RemoveQdq):
        model = digits_in_a_function()
        assert not cls().call(model).modified
        assert len(model.functions) == 1


def test_what_a_body_computes_is_neither_scaled_nor_corrected(images, run):
    model, feed = cascade(), {"small/image": images[:100]}
    pass_ = sampled(SmoothActivations(), feed)
    pass_.call(model)
    assert not any("smoothed" in name or "_scaled" in name for name in inner_names(model))
    pass_ = steps(model, feed, (QuantizeWeightsGptq, INT4))
    assert any("or in bodies" in note for note in pass_.context.notes)
    state: dict = {}
    QuantizeWeights(None, state, **INT4).call(model)
    sampled(CorrectBiases(None, state), feed).call(model)
    assert not any("corrected" in name or "shift" in name for name in inner_names(model))
    run(model, feed)


def inner_names(model):
    inner = [graph for graph in model.graphs() if graph is not model.graph]
    return [v.name for graph in inner for n in graph for v in n.outputs]


def test_the_command_line_runs_them_on_a_loop(tmp_path):
    ir.save(writer(), tmp_path / "writer.onnx")
    codes = [max(0, min(95, ord(letter) - 32)) for letter in LETTERS[:64]]
    np.save(tmp_path / "tokens.npy", np.array([codes], np.int64))
    text = """
passes: [smooth-activations, quantize-static, correct-biases, place-qdq]
reference: {inputs: {tokens: tokens.npy}}
verify: {metrics: {snr: [-20, .inf]}}
"""
    (tmp_path / "pipeline.yaml").write_text(text)
    out = tmp_path / "out.onnx"
    with contextlib.chdir(tmp_path), pytest.raises(SystemExit) as end:
        main(["run", "writer.onnx", "-c", "pipeline.yaml", "-o", str(out)])
    assert end.value.code in (None, 0)
    assert {"QuantizeLinear", "DequantizeLinear"} <= {*body_kinds(ir.load(out))}
