"""The inferred shape is what the engine computes."""

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest

from onnx_passes.passes.annotation.shape_inference import infer_shapes

WINDOWS = [
    ("kernel_shape = [2, 2], strides = [2, 2], pads = [0, 0, 1, 1]", (4, 5)),
    ("kernel_shape = [3, 3], strides = [2, 2], pads = [1, 1, 1, 1]", (6, 7)),
    ("kernel_shape = [2, 3], strides = [4, 3], pads = [1, 0, 1, 2]", (9, 11)),
    ("kernel_shape = [1, 2], strides = [3, 3], pads = [0, 1, 0, 1]", (8, 10)),
]


@pytest.mark.parametrize("opset", [21, 22])
@pytest.mark.parametrize("operator", ["AveragePool", "LpPool", "MaxPool"])
@pytest.mark.parametrize(("window", "size"), WINDOWS)
def test_the_shape_is_that_of_the_engine(operator, opset, window, size):
    text = (
        f'<ir_version: 10, opset_import: ["" : {opset}]> g '
        f"(float[1, 1, {size[0]}, {size[1]}] x) => (float[a, b, c, d] y) "
        f"{{ p = {operator}<ceil_mode = 1, {window}>(x) y = Neg(p) }}"
    )
    model = ir.from_onnx_text(text)
    infer_shapes(model)
    session = onnxruntime.InferenceSession(onnx.parser.parse_model(text).SerializeToString())
    (found,) = session.run(None, {"x": np.ones((1, 1, *size), np.float32)})
    assert tuple(model.graph[0].outputs[0].shape) == found.shape


def test_a_dynamic_size_and_a_body_are_capped_too():
    text = """<ir_version: 10, opset_import: ["" : 21]> g (float[1, 1, 4, 4] x, bool c) =>
        (float[a, b, k, d] y) { y = If(c) <
        then_branch = t () => (float[e, f, g, h] r) {
            p = MaxPool<ceil_mode = 1, kernel_shape = [2, 2], strides = [2, 2],
                        pads = [0, 0, 1, 1]>(x) r = Neg(p) },
        else_branch = e () => (float[i, j, l, m] s) { s = Exp(x) }> }"""
    model = ir.from_onnx_text(text)
    infer_shapes(model)
    body = model.graph[0].attributes["then_branch"].as_graph()
    assert list(body[0].outputs[0].shape) == [1, 1, 2, 2]


EMPTY = ["<int64[0] k = {}> {", "{ k = Constant<value = int64[0] {}>()"]


@pytest.mark.parametrize("start", EMPTY, ids=["an initializer", "a Constant"])
@pytest.mark.parametrize(("size", "expected"), [("2, 1, 3", [2, 3]), ("2, N, 3", None)])
def test_squeeze_with_an_empty_list_of_axes_removes_all_of_size_1(start, size, expected):
    text = (
        f'<ir_version: 10, opset_import: ["" : 20]> g (float[{size}] x) => (float[?] y) '
        f"{start} s = Squeeze(x, k) y = Neg(s) }}"
    )
    model = ir.from_onnx_text(text)
    infer_shapes(model)
    node = next(node for node in model.graph if node.op_type == "Squeeze")
    shape = node.outputs[0].shape
    assert (None if shape is None else list(shape)) == expected
    if expected:
        session = onnxruntime.InferenceSession(
            onnx.parser.parse_model(
                text.replace("float[?]", "float[a, b]")
            ).SerializeToString()
        )
        (found,) = session.run(None, {"x": np.ones((2, 1, 3), np.float32)})
        assert list(found.shape) == expected


def test_both_operands_of_prelu_are_repeated():
    text = (
        '<ir_version: 10, opset_import: ["" : 20]> g (float[1, N] x, float[2, 3, 1] w) '
        "=> (float[a, b, c] y) { p = PRelu(x, w) y = Neg(p) }"
    )
    model = ir.from_onnx_text(text)
    infer_shapes(model)
    assert list(map(str, model.graph.node(0).outputs[0].shape)) == ["2", "3", "N"]
    session = onnxruntime.InferenceSession(onnx.parser.parse_model(text).SerializeToString())
    feeds = {"x": np.ones((1, 4), np.float32), "w": np.ones((2, 3, 1), np.float32)}
    assert session.run(None, feeds)[0].shape == (2, 3, 4)
