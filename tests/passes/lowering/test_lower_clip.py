import numpy as np
import onnx_ir as ir

from onnx_passes import testing
from tests.tables import each_of

FEEDS = [{"x": np.array([-np.inf, -5, -0.0, 0.5, 3, np.inf, np.nan], np.float32)}]


@each_of(
    "bounds, expected",
    ("l, h", ["Max", "Min"]),
    ("l", ["Max", "Min"]),
    (", h", ["Max", "Min"]),
    ("h, l", ["Max", "Min"]),
)
@each_of("opset", 11, 12, 13)
def test_fires(bounds, expected, opset, lowers):
    text = f"""<ir_version: 8, opset_import: ["" : {opset}]> g (float[N] x) => (float[N] y)
    <float l = {{-1}}, float h = {{1}}> {{ y = Clip(x, {bounds}) }}"""
    assert lowers(text, feeds=FEEDS) == expected


@each_of("attributes", "", "<min = -1.0>", "<min=0.0, max=1.0>")
def test_bounds_may_be_attributes(attributes, lowers):
    text = '<ir_version: 8, opset_import: ["" : 8]> g (float[N] x) => (float[N] y)'
    lowers(text + f" {{ y = Clip{attributes}(x) }}", feeds=FEEDS)


@each_of("dtype", "int8", "uint8", "int32", "int64", "uint64", "double")
def test_fires_on_types(dtype, lowers):
    text = f"""({dtype}[N] x) => ({dtype}[N] y) <{dtype} l = {{2}}, {dtype} h = {{5}}> {{
    y = Clip(x, l, h) }}"""
    lowers(text)


def test_bounds_may_be_computed(lowers):
    lowers("(float[N] x, float h) => (float[N] y) { y = Clip(x, , h) }")


def test_integers_without_bounds_stay_as_they_are(lowers):
    assert lowers("(int8[N] x) => (int8[N] y) { y = Clip(x) }") == ["Identity"]


@each_of("dtype", "float", "double", "float16")
def test_floats_without_bounds_become_finite(dtype, lowers):
    numbers = np.array([-np.inf, 1, np.inf], {"float": "f4", "double": "f8"}.get(dtype, "f2"))
    lowers(f"({dtype}[N] x) => ({dtype}[N] y) {{ y = Clip(x) }}", feeds=[{"x": numbers}])


@each_of("call", "n", ", n", "n, h")
def test_bounds_that_are_nan_are_left_alone(call, leaves_alone):
    """ONNX Runtime takes them for none, and Min and Max make NaN of all."""
    model = testing.parse(f"""(float[N] x, float h) => (float[N] y)
    <float n = {{0}}> {{ y = Clip(x, {call}) }}""")
    model.graph.initializers["n"].const_value = ir.tensor(np.array(np.nan, np.float32))
    leaves_alone(model)


def test_attributes_that_are_nan_are_left_alone(leaves_alone):
    text = '<ir_version: 8, opset_import: ["" : 8]> g (float[N] x) => (float[N] y)'
    model = testing.parse(text + " { y = Clip<min = 0.0>(x) }")
    model.graph[0].attributes["min"] = ir.AttrFloat32("min", float("nan"))
    leaves_alone(model)
