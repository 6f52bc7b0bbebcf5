import itertools

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import TensorProto

from onnx_passes.certifying.models import recipes
from onnx_passes.errors import EngineError
from onnx_passes.runtime.inputs import generate
from onnx_passes.runtime.ort import OnnxRuntimeEngine
from onnx_passes.testing import parse
from onnx_passes.verify.float64 import DoubleNode, convolve, evaluate, upcast_node
from tests.tables import each_of, each_row, outputs_of


def types(op_type, **attributes):
    node = upcast_node(onnx.helper.make_node(op_type, ["x"], ["y"], **attributes))
    return {attribute.name: attribute.i for attribute in node.attribute}


@each_of(
    "op_type, name", ("Cast", "to"), ("EyeLike", "dtype"), ("HannWindow", "output_datatype")
)
def test_an_attribute_that_names_a_narrow_float_names_a_double(op_type, name):
    assert types(op_type, **{name: TensorProto.FLOAT16}) == {name: TensorProto.DOUBLE}
    assert types(op_type, **{name: TensorProto.INT32}) == {name: TensorProto.INT32}


@each_row("""op_type | name
- RandomUniform | dtype
- SequenceEmpty | dtype
- MelWeightMatrix | output_datatype
""")
def test_what_is_float32_by_default_is_double(op_type, name):
    assert types(op_type) == {name: TensorProto.DOUBLE}


def test_a_bit_cast_keeps_its_bits():
    assert types("BitCast", to=TensorProto.FLOAT) == {"to": TensorProto.FLOAT}


RNG = np.random.default_rng(3)


def run(model, feeds):
    return outputs_of(OnnxRuntimeEngine(prepacking=False), model, feeds)


def test_a_perceptron_is_what_numpy_computes():
    model = parse(
        """(float[2,3] x) => (float[2,2] y)
        <float[3,2] w = {1, 2, 3, 4, 5, 6}, float b = {0.1}>
        { m = MatMul(x, w) a = Add(m, b) y = Tanh(a) }"""
    )
    x = RNG.standard_normal((2, 3)).astype(np.float32)
    y = evaluate(model, [{"x": x}]).outputs[0]["y"]
    w = np.arange(1, 7, dtype=np.float64).reshape(3, 2)
    assert y.dtype == np.float64
    np.testing.assert_allclose(y, np.tanh(x.astype(float) @ w + np.float32(0.1)), 1e-14)


def test_an_input_that_a_sample_leaves_out_has_its_default():
    model = parse(
        "(float[2] x, float[2] w) => (float[2] y) <float[2] w = {1, 2}> { y = Add(x, w) }"
    )
    x = np.zeros(2, np.float32)
    found = evaluate(model, [{"x": x}, {"x": x, "w": np.float32([5, 6])}])
    assert [list(one["y"]) for one in found.outputs] == [[1, 2], [5, 6]]


def test_a_text_among_weights_is_read_beside_numbers():
    model = parse("""(string[N] s, float[N] x) => (bool[N] e, float[N] y) <string[1] a = {"a"}>
        { e = Equal(s, a) y = Neg(x) }""")
    feeds = {"s": np.array(["a", "b"], object), "x": np.ones(2, np.float32)}
    assert evaluate(model, [feeds]).outputs[0]["e"].tolist() == [True, False]


@each_of("shape", "1,2,3", "1,2,3,2", "1,2,3,1,2")
def test_a_global_maximum_of_nothing_but_minus_infinity_is_minus_infinity(shape):
    """ONNX Runtime has a kernel for single precision only, which gives the lowest number."""
    ones = ",".join(["1", "2", *["1"] * (shape.count(",") - 1)])
    model = parse(f"(float[{shape}] x) => (float[{ones}] y) {{ y = GlobalMaxPool(x) }}")
    x = RNG.standard_normal([int(size) for size in shape.split(",")]).astype(np.float32)
    x[:, 1] = -np.inf
    found = evaluate(model, [{"x": x}])
    wanted = x.max(axis=tuple(range(2, x.ndim)), keepdims=True)
    np.testing.assert_array_equal(found.outputs[0]["y"], wanted)
    assert not found.single


def test_a_cast_to_fewer_bits_rounds_nothing():
    model = parse("(float[2] x) => (float[2] y) { h = Cast<to = 10>(x) y = Cast<to = 1>(h) }")
    x = np.float32([1 / 3, 70000])
    np.testing.assert_array_equal(evaluate(model, [{"x": x}]).outputs[0]["y"], x.astype(float))


@each_of(
    "body, declared",
    ("y = Add(x, c)", "<float16[2] c = {1, 2}>"),
    ("c = Constant<value_floats = [1.0, 2.0]>() y = Mul(x, c)", ""),
    ("n = Constant<value_ints = [2]>() c = ConstantOfShape(n) y = Add(x, c)", ""),
)
def test_constants_of_every_form_are_widened(body, declared):
    dtype = "float16" if "float16" in declared else "float"
    model = parse(f"({dtype}[2] x) => ({dtype}[2] y) {declared} {{ {body} }}")
    x = np.ones(2, np.float16 if dtype == "float16" else np.float32)
    found = evaluate(model, [{"x": x}])
    assert found.outputs[0]["y"].dtype == np.float64
    assert not found.single


def test_branches_loops_and_functions_are_in_double_precision():
    model = parse(
        """<ir_version: 10, opset_import: ["" : 20, "l" : 1]>
        m (bool c, float[2] x) => (float[2] y) { t = l.F(x) y = If(c) <
          then_branch = g () => (float[2] a)
            { k = Constant<value_float = 0.1>() a = Add(t, k) },
          else_branch = h () => (float[2] b) { b = Neg(t) }> }
        <domain: "l", opset_import: ["" : 20]> F (p) => (q) { q = Exp(p) }"""
    )
    x = np.float32([0.3, 2])
    y = evaluate(model, [{"c": np.array(True), "x": x}]).outputs[0]["y"]
    np.testing.assert_allclose(y, np.exp(x.astype(float)) + np.float32(0.1), 1e-14)


def test_quantisers_are_computed_in_double_precision():
    model = parse(
        """(float[2] x) => (float[2] y) <float s = {0.1}, uint8 z = {3}>
        { q = QuantizeLinear(x, s, z) y = DequantizeLinear(q, s, z) }"""
    )
    found = evaluate(model, [{"x": np.float32([0.31, 2])}])
    assert found.outputs[0]["y"].tolist() == [
        3 * float(np.float32(0.1)),
        20 * float(np.float32(0.1)),
    ]
    assert not found.notes()


def test_what_is_computed_in_single_precision_is_said():
    model = ir.from_onnx_text(
        """<ir_version: 10, opset_import: ["" : 20, "com.microsoft" : 1]>
        g (float[2] x) => (float[2] y) { y = com.microsoft.BiasGelu(x, x) }"""
    )
    x = np.float32([0.31, 2])
    found = evaluate(model, [{"x": x}])
    np.testing.assert_allclose(found.outputs[0]["y"], run(model, {"x": x})["y"], 1e-6)
    assert found.notes() == [
        "for the float64 reference, computed in single precision: 1 BiasGelu"
    ]


@each_of("scale", [1.0], [1.0] * 768)
def test_a_mean_far_from_zero_keeps_its_digits(scale):
    model = parse(f"""(float[8,768] x, float[{len(scale)}] s) => (float[8,768] y)
        {{ y = LayerNormalization(x, s) }}""")
    x = (np.random.default_rng(0).normal(size=(8, 768)) + 1e4).astype(np.float32)
    (found,) = evaluate(model, [{"x": x, "s": np.float32(scale)}]).outputs
    d = x.astype(float) - x.astype(float).mean(-1, keepdims=True)
    exact = d / np.sqrt((d * d).mean(-1, keepdims=True) + np.float64(np.float32(1e-5)))
    np.testing.assert_allclose(found["y"], exact, 1e-12)


def test_what_cannot_be_computed_is_an_error():
    model = parse("(float[2] x) => (float[2] y) { y = Neg(x) }")
    model.graph[0].domain = "nobody.knows"
    model.graph.opset_imports["nobody.knows"] = 1
    with pytest.raises(EngineError, match="Neg cannot be computed in float64"):
        evaluate(model, [{"x": np.ones(2, np.float32)}])


@each_of("group", 1, 2)
@each_of(
    "auto_pad, strides, dilations",
    *itertools.product(
        ["NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"], [[1, 1], [2, 1]], [[1, 1]]
    ),
    # Beside SAME padding ONNX Runtime refuses dilations.
    *itertools.product(["NOTSET", "VALID"], [[1, 1]], [[2, 1]]),
)
def test_a_convolution_is_that_of_the_engine(group, auto_pad, strides, dilations):
    pads = {"pads": [1, 0, 2, 1]} if auto_pad == "NOTSET" else {}
    node = onnx.helper.make_node(
        "Conv", ["x", "w", "b"], ["y"], group=group, auto_pad=auto_pad, strides=strides,
        dilations=dilations, **pads,
    )  # fmt: skip
    fed = {
        "x": RNG.standard_normal((2, 4, 7, 6)),
        "w": RNG.standard_normal((6, 4 // group, 3, 2)),
        "b": RNG.standard_normal(6),
    }
    single = {name: array.astype(np.float32) for name, array in fed.items()}
    inputs = [
        onnx.helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, a.shape)
        for n, a in single.items()
    ]
    output = onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [None] * 4)
    graph = onnx.helper.make_graph([node], "g", inputs, [output])
    model = ir.from_proto(
        onnx.helper.make_model(
            graph, opset_imports=[onnx.helper.make_opsetid("", 20)], ir_version=10
        )
    )
    np.testing.assert_allclose(convolve(node, fed), run(model, single)["y"], 1e-4, 1e-5)


def test_a_window_larger_than_its_image_has_no_result():
    """ONNX Runtime makes one element of it where a stride is larger than what is missing."""
    node = onnx.helper.make_node("Conv", ["x", "w"], ["y"], dilations=[2], strides=[2])
    with pytest.raises(EngineError, match="larger than what it slides over"):
        convolve(node, {"x": np.ones((1, 1, 4)), "w": np.ones((1, 1, 3))})


def test_a_result_of_another_shape_is_not_believed(monkeypatch):
    """As onnx's reference evaluator gives for global pools of three dimensions."""
    monkeypatch.setattr(DoubleNode, "_evaluator", lambda self, fed: [np.zeros(2)])
    monkeypatch.setattr(DoubleNode, "_own", lambda self, fed: None)
    model = parse(
        """(float[1,3,2,2] x) => (float[1,3,4,4] y) <float[4] s = {1, 1, 2, 2}>
        { y = Resize(x, , s) }"""
    )
    x = RNG.standard_normal((1, 3, 2, 2)).astype(np.float32)
    found = evaluate(model, [{"x": x}])
    np.testing.assert_array_equal(found.outputs[0]["y"], run(model, {"x": x})["y"])
    assert found.single["Resize"] == 1


def test_random_models_agree_with_single_precision():
    agreed = judged = 0
    for recipe in recipes(60, seed=9):
        model = recipe.model()
        samples = generate(model, samples=1)
        try:
            old = run(model, samples[0])
        except EngineError:
            continue
        judged += 1
        new = evaluate(model, samples).outputs[0]
        agreed += all(near(old[name], new[name]) for name in old)
    # Rounding decides comparisons, and overflow what is infinite: a few may differ.
    assert judged > 50
    assert agreed >= 0.9 * judged


def near(old, new):
    if not isinstance(old, np.ndarray) or old.dtype.kind not in "fiub":
        return True
    with np.errstate(all="ignore"):
        tolerance = 0.02 if old.dtype == np.float16 else 1e-3
        return np.allclose(
            old.astype(float),
            np.asarray(new).astype(float),
            tolerance,
            tolerance,
            equal_nan=True,
        )


@each_of("most, stops", (1 << 20, False), (100, True))
def test_what_takes_too_many_operations_is_not_evaluated_to_its_end(most, stops):
    text = """<ir_version: 10, opset_import: ["" : 20]> g (float[8,16] x) => (float[8,4] y)
        <float[16,4] w> { m = MatMul(x, w) y = Relu(m) }"""
    model = ir.from_onnx_text(text.replace("w>", "w = {{{}}}>".format(",".join(["1"] * 64))))
    feeds = [{"x": np.ones((8, 16), np.float32)}]
    if stops:
        with pytest.raises(EngineError, match="too many operations"):
            evaluate(model, feeds, most=most)
    else:
        assert evaluate(model, feeds, most=most).outputs[0]["y"][0, 0] == 16
