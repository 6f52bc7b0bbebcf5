"""With barriers, ONNX Runtime rounds each value below float32, whatever reads it."""

import numpy as np
import onnx_ir as ir
import onnxruntime as ort
import pytest

from onnx_passes.model.copy import copy_model
from onnx_passes.model.diff import canonical_lines
from onnx_passes.model.walk import all_nodes
from onnx_passes.runtime.inputs import generate
from onnx_passes.runtime.ort import OnnxRuntimeEngine
from onnx_passes.runtime.rounding_barriers import with_barriers
from onnx_passes.verify.models import recipes

CHAIN = """<ir_version: 9, opset_import: ["" : %d]>
    g (float16[4,50] x) => (float16[4,50] o) {
    a = Exp(x) r = Reshape(a, s) b = Sin(r) y = Mul(b, b) o = Exp(y) }"""
SHAPE = "=> (float16[4,50] o) <int64[2] s = {4, 50}>"


def chain(opset=18):
    return ir.from_onnx_text((CHAIN % opset).replace("=> (float16[4,50] o)", SHAPE))


def outputs_of(model, feeds):
    """Run a model on ONNX Runtime itself: our engine adds barriers."""
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.add_session_config_entry("session.disable_prepacking", "1")
    data = ir.to_proto(model).SerializeToString()
    session = ort.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, dict(feeds)), strict=True))


def engine_outputs_of(model, feeds):
    with OnnxRuntimeEngine(prepacking=False).prepare(model) as session:
        return session.run(feeds)


def with_output(model, name):
    copy = copy_model(model)
    values = [value for node in copy.graph for value in node.outputs]
    copy.graph.outputs.extend(value for value in values if value.name == name)
    return copy


def bytes_of(outputs, names):
    return {name: np.asarray(outputs[name]).tobytes() for name in names}


@pytest.mark.parametrize("opset", [12, 13, 14, 18, 21, 24])
def test_each_result_of_half_precision_is_rounded(opset):
    x = np.random.default_rng(0).standard_normal([4, 50]).astype(np.float16)
    a = np.exp(x.astype(np.float32)).astype(np.float16)
    b = np.sin(a.astype(np.float32)).astype(np.float16)
    y = (b.astype(np.float32) ** 2).astype(np.float16)
    model = chain(opset)
    shown = with_output(with_output(model, "b"), "y")
    assert (outputs_of(shown, {"x": x})["y"] != y).any()
    found = outputs_of(with_barriers(shown), {"x": x})
    np.testing.assert_array_equal(found["b"], b)
    np.testing.assert_array_equal(found["y"], y)
    alone = outputs_of(with_barriers(model), {"x": x})
    assert alone["o"].tobytes() == found["o"].tobytes()


def test_one_identity_is_no_barrier():
    # If this fails, one Identity is enough for this version of ONNX Runtime.
    model = chain()
    single = ir.from_onnx_text(
        (CHAIN % 18)
        .replace("=> (float16[4,50] o)", SHAPE)
        .replace("b = Sin(r) y = Mul(b, b)", "i = Identity(r) b = Sin(i) y = Mul(b, b)")
        .replace("Exp(y)", "Exp(z)")
        .replace("y = Mul(b, b)", "y = Mul(b, b) z = Identity(y)")
    )
    x = np.random.default_rng(0).standard_normal([4, 50]).astype(np.float16)
    rounded = outputs_of(with_barriers(model), {"x": x})["o"]
    assert (outputs_of(single, {"x": x})["o"] != rounded).any()


@pytest.mark.parametrize(("source", "middle"), [(1, 10), (1, 16), (11, 1)])
def test_a_cast_that_loses_digits_stays_before_another_cast(source, middle):
    model = ir.from_onnx_text(
        f"""<ir_version: 10, opset_import: ["" : 18]>
        g ({"float" if source == 1 else "double"}[8] x) => (int8[8] o) {{
        a = Cast<to={middle}>(x) o = Cast<to=3>(a) }}"""
    )
    kind = np.float32 if source == 1 else np.float64
    x = (np.arange(2, 10) - (2.0**-14 if source == 1 else 2.0**-40)).astype(kind)
    assert (outputs_of(model, {"x": x})["o"] == np.arange(1, 9)).all()
    found = outputs_of(with_barriers(model), {"x": x})["o"]
    np.testing.assert_array_equal(found, np.arange(2, 10))


def test_a_model_without_low_values_is_returned_itself():
    model = ir.from_onnx_text(
        """<ir_version: 9, opset_import: ["" : 18]> g (float[4] x) => (double[4] y)
        { a = Exp(x) i = Cast<to=7>(a) b = Cast<to=1>(i) c = Add(a, b)
        d = Cast<to=11>(c) y = Cast<to=11>(d) }"""
    )
    assert with_barriers(model) is model


def test_the_model_stays_as_it_is_and_shares_its_tensors():
    model = ir.from_onnx_text(
        """<ir_version: 9, opset_import: ["" : 18]> g (float16[4] x) => (float16[4] y)
        <float16[4] w = {1, 2, 3, 4}> { a = Add(x, w) y = Exp(a) }"""
    )
    before = list(canonical_lines(model))
    copy = with_barriers(model)
    assert list(canonical_lines(model)) == before
    old, new = (m.graph.initializers["w"].const_value for m in (model, copy))
    assert old is new
    assert [value.name for value in copy.graph.outputs] == ["y"]
    assert [node.op_type for node in copy.graph] == ["Add", "Identity", "Identity", "Exp"]
    assert copy.graph[0].outputs[0].name == "a"


NESTED = """<ir_version: 9, opset_import: ["" : 18, "local" : 1]>
    g (float16[4] x, bool c) => (float16[4] o) { a = Exp(x) f = local.f(a)
    o = If (c) <then_branch = t () => (float16[4] p) { b = Sin(a) p = Mul(b, b) },
    else_branch = e () => (float16[4] q) { d = Cos(f) q = Mul(d, d) }> }
    <domain: "local", opset_import: ["" : 18]>
    f (u) => (w) { k = Constant<value_float = 2.0>() h = CastLike(k, u)
    v = Mul(u, h) n = Shape(v) w = Reshape(v, n) }"""


def test_bodies_and_functions_have_barriers():
    model = ir.from_onnx_text(NESTED)
    copy = with_barriers(model)
    readers = {
        node.op_type: node.inputs[0].name
        for node in all_nodes(copy)
        if node.inputs and node.op_type != "Identity"
    }
    assert readers["Sin"] == "a_barrier1"
    assert readers["Cos"] == "f_barrier1"
    assert readers["Mul"] in ("b_barrier1", "d_barrier1", "u")
    assert readers["Reshape"] == "v_barrier1"
    feeds = generate(model, seed=0, samples=2)
    for sample in feeds:
        assert outputs_of(copy, sample)["o"].shape == (4,)


def test_names_are_new():
    model = ir.from_onnx_text(
        """<ir_version: 9, opset_import: ["" : 18]> g (float16[4] x) => (float16[4] y)
        { a = Exp(x) a_barrier0 = Exp(a) y = Add(a_barrier0, a) }"""
    )
    copy = with_barriers(model)
    names = [value.name for node in copy.graph for value in node.outputs]
    assert len(names) == len(set(names))
    assert outputs_of(copy, {"x": np.zeros(4, np.float16)})


def test_sequences_of_half_precision_are_left_alone():
    model = ir.from_onnx_text(
        """<ir_version: 8, opset_import: ["" : 12]> g (float16[4] x) => (float16[4] y)
        <int64 k = {0}> { a = Exp(x) s = SequenceConstruct(a, a) y = SequenceAt(s, k) }"""
    )
    assert outputs_of(with_barriers(model), {"x": np.zeros(4, np.float16)})


def test_an_output_more_changes_no_other_value_of_random_models():
    changed = checked = 0
    for recipe in recipes(60, seed=3):
        model = recipe.model()
        if with_barriers(model) is model:
            continue
        names = [value.name for value in model.graph.outputs]
        feeds = generate(model, seed=1, samples=1)[0]
        expected = bytes_of(engine_outputs_of(model, feeds), names)
        inner = [v.name for node in model.graph for v in node.outputs if v.dtype is not None]
        for name in inner:
            if name not in names:
                found = engine_outputs_of(with_output(model, name), feeds)
                checked += 1
                changed += bytes_of(found, names) != expected
    assert (changed, checked > 5) == (0, True)


def test_no_barrier_stands_behind_constants():
    model = ir.from_onnx_text(
        """<ir_version: 9, opset_import: ["" : 18]> g (float16[4] x) => (float16[4] y)
        { k = Constant<value = float16 {2}>() y = Mul(x, k) }"""
    )
    assert not any(node.op_type == "Identity" for node in all_nodes(with_barriers(model)))


def test_quantized_values_in_functions_have_none():
    # ONNX Runtime has no Identity of int4.
    model = ir.from_onnx_text(
        """<ir_version: 10, opset_import: ["" : 21, "local" : 1]>
        g (float16[4] x) => (float16[4] y) { y = local.f(x) }
        <domain: "local", opset_import: ["" : 21]>
        f (u) => (w) { k = Constant<value_float = 0.5>() s = CastLike(k, u)
        q = QuantizeLinear<output_dtype = 22>(u, s) w = DequantizeLinear(q, s) }"""
    )
    x = np.float16([1, 1.25, -3, 9])
    np.testing.assert_array_equal(
        outputs_of(with_barriers(model), {"x": x})["y"], np.float16([1, 1, -3, 3.5])
    )
