from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime as ort

from onnx_passes.certifying.models import recipes
from onnx_passes.model.copy import copy_model
from onnx_passes.model.diff import canonical_lines
from onnx_passes.model.walk import all_nodes
from onnx_passes.runtime.engine_models import assign_seeds, insert_barriers, split_weights
from onnx_passes.runtime.inputs import generate
from onnx_passes.runtime.ort import OnnxRuntimeEngine
from onnx_passes.runtime.reference import ReferenceEngine
from tests.tables import each_of

LARGE = np.arange(4096, dtype=np.float32)
ADD = "g (float[4096] x, float[4096] w) => (float[4096] y) { y = Add(x, w) }"


def test_large_tensors_stay_outside_the_protobuf(parse):
    model = parse(ADD, w=LARGE)
    split = split_weights(model)
    assert split.weights == {"w": model.graph.initializers["w"].const_value}
    assert len(split.proto.SerializeToString()) < 400
    assert split.proto.graph.initializer[0].data_location == onnx.TensorProto.EXTERNAL


def constant(name: str, array: np.ndarray) -> ir.Node:
    value = ir.Value(name=name, type=ir.TensorType(ir.DataType.FLOAT))
    attributes = {"value": ir.AttrTensor("value", ir.tensor(array))}
    return ir.node("Constant", [], attributes, outputs=[value])


def test_large_constants_become_weights(parse):
    model = parse("g (float[4096] x) => (float[4096] y) { y = Relu(x) }")
    node = constant("c", LARGE)
    model.graph.insert_before(model.graph.node(0), node)
    model.graph.node(1).op_type = "Add"
    model.graph.node(1).resize_inputs(2)
    model.graph.node(1).replace_input_with(1, node.outputs[0])
    split = split_weights(model)
    assert list(split.weights) == ["c"]
    assert [node.op_type for node in split.proto.graph.node] == ["Add"]


@each_of("position", "inner", "output")
def test_constants_of_branches_move_unless_they_are_its_output(parse, position):
    text = """g (bool c, float[4096] x) => (float[4096] y) {
        y = If (c) <then_branch = t () => (float[4096] a) { a = Relu(x) },
                    else_branch = e () => (float[4096] b) { b = Relu(x) }> }"""
    model = parse(text)
    branch = model.graph.node(0).attributes["then_branch"].as_graph()
    node = constant("k", LARGE)
    branch.insert_before(branch.node(0), node)
    if position == "output":
        branch.outputs[0] = node.outputs[0]
    else:
        branch.node(1).replace_input_with(0, node.outputs[0])
    split = split_weights(model)
    onnx.shape_inference.infer_shapes(split.proto, strict_mode=True)
    assert list(split.weights) == (["k"] if position == "inner" else [])


def test_an_unused_default_of_an_input_is_kept(parse):
    # Without it, the input would have to be fed.
    model = parse("g (float[2] x, float[4096] w) => (float[2] y) { y = Relu(x) }")
    model.graph.inputs[1].const_value = ir.tensor(LARGE)
    model.graph.register_initializer(model.graph.inputs[1])
    split = split_weights(model)
    assert [tensor.name for tensor in split.proto.graph.initializer] == ["w"]
    assert not split.weights


def test_everything_but_the_weights_survives(parse):
    text = """g (float[N, 4] x, float[4] w) => (float[N, 4] y, float[N, 4] z) {
        a = my.f<alpha = 2.0>(x)  [node] y = Clip(a, , w)  z, = Dropout(y) }
        <domain: "my", opset_import: ["" : 21]> f <alpha> (p) => (q) {
            q = LeakyRelu<alpha: float = @alpha>(p) }"""
    model = parse(text, w=LARGE[:4])
    again = ir.to_proto(ir.from_proto(split_weights(model).proto))
    expected = ir.to_proto(model)
    assert list(again.graph.node) == list(expected.graph.node)
    assert list(again.graph.input) == list(expected.graph.input)
    assert list(again.graph.output) == list(expected.graph.output)
    assert list(again.functions) == list(expected.functions)
    assert {o.domain: o.version for o in again.opset_import} == {"": 21, "my": 1}


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


@each_of("opset", 12, 13, 14, 18, 21, 24)
def test_each_result_of_half_precision_is_rounded(opset):
    x = np.random.default_rng(0).standard_normal([4, 50]).astype(np.float16)
    a = np.exp(x.astype(np.float32)).astype(np.float16)
    b = np.sin(a.astype(np.float32)).astype(np.float16)
    y = (b.astype(np.float32) ** 2).astype(np.float16)
    model = chain(opset)
    shown = with_output(with_output(model, "b"), "y")
    assert (outputs_of(shown, {"x": x})["y"] != y).any()
    found = outputs_of(insert_barriers(shown), {"x": x})
    np.testing.assert_array_equal(found["b"], b)
    np.testing.assert_array_equal(found["y"], y)
    alone = outputs_of(insert_barriers(model), {"x": x})
    assert alone["o"].tobytes() == found["o"].tobytes()


@each_of("source, middle", (1, 10), (1, 16), (11, 1))
def test_a_cast_that_loses_digits_stays_before_another_cast(source, middle):
    model = ir.from_onnx_text(
        f"""<ir_version: 10, opset_import: ["" : 18]>
        g ({"float" if source == 1 else "double"}[8] x) => (int8[8] o) {{
        a = Cast<to={middle}>(x) o = Cast<to=3>(a) }}"""
    )
    kind = np.float32 if source == 1 else np.float64
    x = (np.arange(2, 10) - (2.0**-14 if source == 1 else 2.0**-40)).astype(kind)
    assert (outputs_of(model, {"x": x})["o"] == np.arange(1, 9)).all()
    found = outputs_of(insert_barriers(model), {"x": x})["o"]
    np.testing.assert_array_equal(found, np.arange(2, 10))


NESTED = """<ir_version: 9, opset_import: ["" : 18, "local" : 1]>
    g (float16[4] x, bool c) => (float16[4] o) { a = Exp(x) f = local.f(a)
    o = If (c) <then_branch = t () => (float16[4] p) { b = Sin(a) p = Mul(b, b) },
    else_branch = e () => (float16[4] q) { d = Cos(f) q = Mul(d, d) }> }
    <domain: "local", opset_import: ["" : 18]>
    f (u) => (w) { k = Constant<value_float = 2.0>() h = CastLike(k, u)
    v = Mul(u, h) n = Shape(v) w = Reshape(v, n) }"""


def test_bodies_and_functions_have_barriers():
    model = ir.from_onnx_text(NESTED)
    before = list(canonical_lines(model))
    copy = insert_barriers(model)
    assert list(canonical_lines(model)) == before
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


def test_an_output_more_changes_no_other_value_of_random_models():
    changed = checked = 0
    for recipe in recipes(60, seed=3):
        model = recipe.model()
        if insert_barriers(model) is model:
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
        outputs_of(insert_barriers(model), {"x": x})["y"], np.float16([1, 1, -3, 3.5])
    )


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


def test_each_operator_has_its_own_and_keeps_it_whatever_is_rewritten_around_it():
    given = model(TWO)
    found, other = (seeds(assign_seeds(given, seed)) for seed in (0, 1))
    assert seeds(given) == {}
    assert len({*found.values(), *other.values()}) == 4
    fewer = model("{ n = Neg(x) b = RandomUniformLike(n) y = Abs(b) }")
    assert seeds(assign_seeds(fewer, 0)) == {"b": found["b"]}


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
    assert set(seeds(assign_seeds(given, 0))) == {"o", "w"}


@each_of("engine", OnnxRuntimeEngine(), ReferenceEngine(), ids=str)
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
