"""Trained networks in the bodies of If and Loop, and in functions."""

import contextlib

import numpy as np
import onnx_ir as ir
import pytest

from onnx_passes.cli.main import main
from onnx_passes.passes.annotation.shape_inference import ShapeInference
from onnx_passes.passes.precision._layers import layers_of, rows_of
from onnx_passes.passes.precision.convert_bfloat16 import ConvertBfloat16
from onnx_passes.passes.precision.convert_float8 import ConvertFloat8
from onnx_passes.passes.precision.convert_float16 import ConvertFloat16
from onnx_passes.passes.precision.correct_biases import CorrectBiases
from onnx_passes.passes.precision.equalize_layers import EqualizeLayers
from onnx_passes.passes.precision.place_qdq import PlaceQdq
from onnx_passes.passes.precision.quantize_dynamic import QuantizeDynamic
from onnx_passes.passes.precision.quantize_static import QuantizeStatic
from onnx_passes.passes.precision.quantize_weights import QuantizeWeights
from onnx_passes.passes.precision.quantize_weights_adaround import QuantizeWeightsAdaround
from onnx_passes.passes.precision.quantize_weights_gptq import QuantizeWeightsGptq
from onnx_passes.passes.precision.remove_qdq import RemoveQdq
from onnx_passes.passes.precision.smooth_activations import SmoothActivations
from tests.passes.precision.bodies import built, cascade, network, writer
from tests.passes.precision.samples import sampled
from tests.passes.test_in_bodies import in_a_function

HEAD = "digits (float[batch,1,8,8] image)"
DIGITS = network("digits-7")
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


@pytest.fixture(params=["cascade", "writer"], name="network")
def network_in_bodies(request, images):
    if request.param == "cascade":
        return cascade(), {"small/image": images[:100]}
    codes = [max(0, min(95, ord(letter) - 32)) for letter in LETTERS[:64]]
    return writer(), {"tokens": np.array([codes], np.int64)}


@pytest.mark.parametrize(("cls", "options", "least"), PASSES)
def test_networks_in_bodies_keep_what_they_compute(network, cls, options, least, run, kept):
    model, feed = network
    old = run(model, feed)
    assert sampled(cls(None, {}, **options), feed).call(model).modified
    level = "basic" if options == {"scaled": True} else "all"
    new = run(model, feed, level)
    if len(old) == 2:
        old, new = [old[1][0]], [new[1][0]]  # the first letter: what follows depends on it
    assert kept(old[0], new[0]) > least


def test_a_body_computes_in_half_and_has_no_casts_at_its_ends(run):
    model = cascade()
    ConvertFloat16().call(model)
    bodies = [graph for graph in model.graphs() if graph is not model.graph]
    for inner in bodies:
        assert {node.outputs[0].dtype for node in inner} == {ir.DataType.FLOAT16}
        assert "Cast" not in [node.op_type for node in inner]
    (choose,) = (node for node in model.graph if node.op_type == "If")
    assert choose.outputs[0].dtype is ir.DataType.FLOAT16
    assert model.graph.outputs[0].dtype is ir.DataType.FLOAT
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


@pytest.mark.parametrize(
    ("cls", "options", "least"), [*PASSES, (QuantizeWeightsGptq, {"weights": "int8"}, 35)]
)
def test_networks_in_functions(cls, options, least, images, run, kept):
    model, feed = digits_in_a_function(), {"image": images[:100]}
    (old,) = run(model, feed)
    pass_ = sampled(cls(None, {}, **options), feed)
    assert pass_.call(model).modified
    assert "calls of functions are replaced by their bodies" in pass_.context.notes
    (new,) = run(model, feed, "basic" if options == {"scaled": True} else "all")
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


def unequal():
    """Return a Loop that runs two layers whose channels are out of balance."""
    rng = np.random.default_rng(0)
    w, v = (rng.standard_normal((4, 4)).astype(np.float32) for _ in "wv")
    w *= np.array([1, 64, 0.01, 1], np.float32)
    v = (v / 8 / np.array([[1], [64], [0.01], [1]], np.float32)).astype(np.float32)
    numbers = [", ".join(map(repr, array.ravel().tolist())) for array in (w, v)]
    return built(f"""g (float[batch,4] x) => (float[batch,4] y)
      <float[4,4] w = {{{numbers[0]}}}, float[4,4] v = {{{numbers[1]}}}> {{
      turns = Constant<value = int64 {{3}}>()
      y = Loop(turns, "", x) <body = body (int64 count, bool going, float[batch,4] state)
        => (bool goes_on, float[batch,4] next) {{ [first] a = MatMul(state, w) b = Relu(a)
        [second] next = MatMul(b, v) goes_on = Identity(going) }}> }}""")


def test_layers_of_a_loop_are_equalised(run, kept):
    x = np.random.default_rng(1).standard_normal((50, 4)).astype(np.float32)
    model, plain = unequal(), unequal()
    (old,) = run(model, {"x": x})
    assert EqualizeLayers().call(model).modified
    assert np.array_equal(run(model, {"x": x})[0], old), "powers of two change no rounding"
    for each in (model, plain):
        ShapeInference().call(each)
        steps(each, {"x": x}, STATIC)
    assert kept(old, run(model, {"x": x})[0]) > kept(old, run(plain, {"x": x})[0]) + 6


def test_the_state_of_a_loop_is_smoothed_by_a_node(run):
    model = unequal()
    x = np.random.default_rng(1).standard_normal((50, 4)).astype(np.float32)
    (old,) = run(model, {"x": x})
    steps(model, {"x": x}, (SmoothActivations, {}))
    assert "Mul" in body_kinds(model), "nothing before a state can scale it"
    assert np.array_equal(run(model, {"x": x})[0], old)


def in_a_branch():
    """Return the network of 7 layers in a branch of an If."""
    zeros = ", ".join("0" * 10)
    text = f"""g (float[batch,1,8,8] image) => (float[?,10] out) {{
      yes = Constant<value = bool {{1}}>() out = If(yes) <
      then_branch = digits () => (float[batch,10] scores) {{ }}, else_branch = idle ()
      => (float[1,10] none) {{ none = Constant<value = float[1,10] {{{zeros}}}>() }}> }}"""
    return built(text, digits=DIGITS)


@pytest.mark.parametrize(
    "listed",
    [
        [(QuantizeWeights, INT4), (CorrectBiases, {})],
        [STATIC, (CorrectBiases, {})],
        [(SmoothActivations, {}), STATIC, (CorrectBiases, {})],
        [(EqualizeLayers, {}), STATIC],
        [(QuantizeWeightsGptq, INT4)],
        [(QuantizeWeightsAdaround, INT4)],
        [STATIC, (PlaceQdq, {})],
    ],
    ids=lambda listed: " ".join(cls.name for cls, _ in listed),
)
def test_a_layer_in_a_branch_is_treated_as_one_of_the_main_graph(
    deep, images, run, kept, listed
):
    inner, outer = in_a_branch(), deep(7)
    feed, held = {"image": images[:100]}, {"image": images[100:]}
    assert np.array_equal(run(inner, held)[0], run(outer, held)[0])
    steps(inner, feed, *listed)
    steps(outer, feed, *listed)
    assert kept(run(outer, held)[0], run(inner, held)[0]) > 40


@pytest.mark.parametrize(
    ("text", "shape", "extra"),
    [
        ("Gemm(e, w, c)", "float[2,3]", "float[3,4] w"),
        ("MatMul(e, w)", "float[2,3]", "float[3,4] w"),
        ("Conv <pads = [1, 0, 1, 0], strides = [2, 1]> (e, w)", "float[1,2,3,4]", "f"),
    ],
)
@pytest.mark.parametrize("opset", [12, 13, 21])
def test_moments_of_a_scan_are_those_of_all_iterations(typed, text, shape, extra, opset):
    """A body's rows are the same as if its layer stood in the main graph."""
    conv = "Conv" in text
    weight = "float[2,2,2,3] w" if conv else "float[3,4] w"
    count = 24 if conv else 12
    numbers = ", ".join(str(i % 5 - 1) for i in range(count))
    made = "float[1,2,2,2] f" if conv else "float[2,4] f"
    sizes = shape[6:-1]
    model = typed(
        f"(float[5,{sizes}] x) => (float[5,{made[6:].partition(']')[0]}] y) "
        f"<{weight} = {{{numbers}}}, float[4] c = {{1, 2, 3, 4}}> {{"
        f" y = Scan <num_scan_inputs = 1, body = b ({shape} e) => ({made}) {{ f = {text} }}>"
        "(x) }",
        opset,
    )
    x = np.random.default_rng(0).standard_normal((5, *map(int, sizes.split(","))))
    x = x.astype(np.float32)
    (layer,) = layers_of(model.graph.all_nodes())[0]
    pass_ = sampled(QuantizeWeightsGptq(), {"x": x}, {"x": x[:5] * 2})
    found = pass_.moments(model, [layer], "test", gram=True)[layer.node]
    rows = [rows_of(layer, e, (2, 3) if conv else ()) for e in (*x, *(x * 2))]
    every = np.concatenate(rows).astype(np.float64)
    assert found.count == len(every)
    np.testing.assert_allclose(found.total, every.sum(0), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(found.gram, every.T @ every, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("cls", [QuantizeWeightsGptq, QuantizeWeightsAdaround])
def test_weights_in_bodies_are_rounded_by_what_their_layers_read(images, run, kept, cls):
    feed, held = {"small/image": images[:100]}, {"small/image": images[100:]}
    original, plain, learned = cascade(), cascade(), cascade()
    steps(plain, feed, (QuantizeWeights, INT4 | {"nodes": ["large/*"]}))
    pass_ = steps(learned, feed, (cls, INT4 | {"nodes": ["large/*"]}))
    assert not any("nearest" in note for note in pass_.context.notes)
    old = run(original, held)[0]
    assert kept(old, run(learned, held)[0]) > kept(old, run(plain, held)[0]) + 2


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


def test_a_branch_that_does_not_run_is_not_scaled_or_corrected(images, run):
    model, feed = cascade(limit=-1e6), {"small/image": images[:20]}
    steps(model, feed, (SmoothActivations, {}))
    assert not any("smoothed" in name or "_scaled" in name for name in inner_names(model))
    steps(model, feed, (QuantizeWeights, INT4), (CorrectBiases, {}))
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
passes: [equalize-layers, smooth-activations, quantize-static, correct-biases, place-qdq]
reference: {inputs: {tokens: tokens.npy}}
verify: {metrics: {snr: [-20, .inf]}}
"""
    (tmp_path / "pipeline.yaml").write_text(text)
    out = tmp_path / "out.onnx"
    with contextlib.chdir(tmp_path), pytest.raises(SystemExit) as end:
        main(["run", "writer.onnx", "-c", "pipeline.yaml", "-o", str(out)])
    assert end.value.code in (None, 0)
    found = body_kinds(ir.load(out))
    assert {"QuantizeLinear", "DequantizeLinear"} <= {*found}
