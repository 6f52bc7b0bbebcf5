"""Intervals hold what ONNX Runtime computes, and are only as wide as they need be."""

from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest

from onnx_passes.errors import OptionError
from onnx_passes.passes.analysis.value_ranges import ValueRanges, ranges_of
from onnx_passes.runtime.ort import OnnxRuntimeEngine
from onnx_passes.testing import assert_leaves_alone, parse
from tests.tables import each_of

DIGITS = Path(__file__).parents[3] / "examples" / "digits"
SIGNATURE = "(float[2,3] x) => (float[2,3] y) <float[3] c = {-1, 2, 4}>"


def bounds(body, low=-2.0, high=3.0):
    found = ranges_of(parse(f"{SIGNATURE} {{ {body} }}"), {"x": (low, high)}, {})
    return found.intervals["y"]


@each_of(
    "body, expected",
    ("y = Relu(x)", (0, 3)),
    ("y = Neg(x)", (-3, 2)),
    ("y = Abs(x)", (0, 3)),
    ("y = Mul(x, x)", (0, 9)),
    ("y = Add(x, c)", (-3, 7)),
    ("y = Sub(x, c)", (-6, 4)),
    ("y = Mul(x, c)", (-8, 12)),
    ("t = Max(x, c) y = Min(t, x)", (-2, 3)),
    ("t = Exp(x) y = Log(t)", (-2, 3)),
    ("y = Sigmoid(x)", (0.1192, 0.9526)),
    ("y = Softmax(x)", (0, 1)),
    ("t = Floor(x) y = LeakyRelu <alpha = 0.5> (t)", (-1, 3)),
    ("a = Greater(x, c) y = Where(a, x, c)", (-2, 4)),
    ("t = Transpose(x) y = Transpose(t)", (-2, 3)),
    ("t = Cast <to = 6> (x) y = Cast <to = 1> (t)", (-2, 3)),
    ("y = ReduceMean <keepdims = 0> (x) z = Exp(y)", (-2, 3)),
)
def test_bounds_of_operators(body, expected):
    if "ReduceMean" in body:
        model = parse("(float[2,3] x) => (float y) { y = ReduceMean <keepdims = 0> (x) }")
        found = ranges_of(model, {"x": (-2, 3)}, {}).intervals["y"]
    else:
        found = bounds(body)
    assert found == pytest.approx(expected, abs=1e-4)
    assert found[0] <= expected[0] + 1e-4


def test_a_divisor_that_may_be_0_and_operators_without_a_rule_give_nothing():
    assert bounds("y = Div(c, x)") == (-np.inf, np.inf)
    assert bounds("y = Div(c, x)", 1, 2) == pytest.approx((-1, 4), abs=1e-4)
    assert bounds("y = Tan(x)") == (-np.inf, np.inf)


def test_integers_that_may_overflow_can_be_anything():
    model = parse("(int8[2] x) => (int8[2] y) { y = Add(x, x) }")
    assert ranges_of(model, {"x": (-60, 60)}, {}).intervals["y"] == (-120, 120)
    assert ranges_of(model, {"x": (-70, 70)}, {}).intervals["y"] == (-128, 127)


def test_great_integers_are_no_doubles():
    model = parse("(int64[2] x, int64[2] z) => (int64[2] y) { y = Add(x, z) }")
    found = ranges_of(model, {"x": (2**31, 2**62), "z": (0, 2**62)}, {}).intervals["y"]
    assert found == (-(2.0**63), 2.0**63)
    text = "(int64[1] x) => (int64[1] y) <int64[1] c = {9007199254740993}> { y = Max(x, c) }"
    low, _ = ranges_of(parse(text), {}, {}).intervals["y"]
    assert low <= 9007199254740993


def test_both_branches_of_an_if():
    model = parse("""(bool c, float[2] x) => (float[2] y) { y = If(c) <
        then_branch = t () => (float[2] p) { p = Relu(x) },
        else_branch = e () => (float[2] q) { q = Neg(x) }> }""")
    assert ranges_of(model, {"x": (1, 3)}, {}).intervals["y"] == (-3, 3)


def exposed(model):
    """Make outputs of all inner values."""
    for node in model.graph:
        for value in node.outputs:
            if not value.is_graph_output() and value.type is not None:
                model.graph.outputs.append(value)
    return model


def assert_holds(model, ranges, samples):
    found = ranges_of(model, ranges, {})
    with OnnxRuntimeEngine().prepare(exposed(model)) as session:
        for feeds in samples:
            for name, array in session.run(feeds).items():
                low, high = found.intervals[name]
                numbers = np.asarray(array, np.float64)
                numbers = numbers[~np.isnan(numbers)]
                assert (numbers >= low).all(), name
                assert (numbers <= high).all(), name


CHAINS = [
    "a = Mul(x, c) b = Sub(a, x) d = Tanh(b) y = Div(d, w)",
    "a = Sigmoid(x) b = Log(a) d = Softmax(b) y = Sqrt(d)",
    "a = Abs(x) b = Pow(a, two) d = Erf(b) y = Add(d, b)",
    "a = MatMul(x, m) b = Relu(a) d = Clip(b, w) y = Exp(d)",
    "a = Gemm <transB = 1> (x, m, c) b = Round(a) y = Cos(b)",
    "a = Sum(x, c, x) b = Neg(a) d = Min(b, x) y = Max(d, c)",
]


@each_of("body", *CHAINS)
@each_of("scale", 1e-30, 1.0, 1e4)
def test_what_engines_compute_lies_inside(body, scale):
    model = parse(f"""(float[2,3] x) => (float[2,3] y)
        <float[3] c = {{-1, 2, 4}}, float w = {{0.7}},
        float two = {{2}}, float[3,3] m = {{1, -2, 0.3, 4, 0.1, -6, 7, -8.5, 9}}>
        {{ {body} }}""")
    for value in model.graph.all_nodes():
        for output in value.outputs:
            output.type = ir.TensorType(ir.DataType.FLOAT)
    random = np.random.default_rng(3)
    low, high = np.float32(-2 * scale), np.float32(3 * scale)
    samples = [random.uniform(low, high, (2, 3)).astype(np.float32) for _ in range(20)]
    corners = [random.choice([low, high], (2, 3)) for _ in range(20)]
    feeds = [{"x": np.clip(sample, low, high)} for sample in samples + corners]
    assert_holds(model, {"x": (float(low), float(high))}, feeds)


def test_the_error_of_sigmoid_is_relative_to_1_not_to_its_value():
    # ONNX Runtime computes it as a fraction to which it adds a half.
    model = parse("(float[400] x) => (float[400] y) { y = Sigmoid(x) }")
    for low in np.linspace(-9, 0, 40).astype(np.float32):
        high = low + np.float32(0.02)
        values = np.linspace(low, high, 400).astype(np.float32).clip(low, high)
        assert_holds(model, {"x": (float(low), float(high))}, [{"x": values}])


def test_a_real_model_on_real_images():
    model = ir.load(DIGITS / "model.onnx")
    images = np.load(DIGITS / "images.npy")
    low, high = ranges_of(model, {"image": (0, 1)}, {"batch": 1}).intervals["scores"]
    assert np.isfinite([low, high]).all()
    with OnnxRuntimeEngine().prepare(model) as session:
        scores = [session.run({"image": image[None]})["scores"] for image in images[:20]]
    assert low <= np.min(scores) < np.max(scores) <= high


def test_the_report_and_errors():
    pass_ = ValueRanges(inputs={"x": [0, 1]})
    assert_leaves_alone(pass_, parse(f"{SIGNATURE} {{ y = Neg(x) }}"))
    assert pass_.context.notes[1] == "y lies in [-1, -0]"
    model = parse(f"{SIGNATURE} {{ y = Neg(x) }}")
    with pytest.raises(OptionError, match="no input 'z'"):
        ranges_of(model, {"z": (0, 1)}, {})
    with pytest.raises(OptionError, match=r"\[1, 0\] is no range"):
        ranges_of(model, {"x": (1, 0)}, {})
