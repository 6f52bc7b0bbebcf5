"""Types and shapes that a pass noted are held against values that were seen."""

import numpy as np
import onnx_ir as ir
import pytest

from onnx_passes.configs.pipeline_files import default_config
from onnx_passes.pipeline.run import run_pipeline
from onnx_passes.verify.annotations import find_wrong_annotations
from onnx_passes.verify.reference_data import ReferenceData

MODEL = """<ir_version: 10, opset_import: ["" : 20]>
g (float[N, 4] x) => (float[N, 4] y) {{ {a} a = Exp(x) y = Neg(a) }}"""
SAMPLES = [
    {"x": np.ones((n, 4), np.float32), "a": np.ones((n, 4), np.float32)} for n in (2, 3)
]


def noted(type_, shape):
    model = ir.from_onnx_text(MODEL.format(a=""))
    value = model.graph[0].outputs[0]
    value.type = ir.TensorType(type_)
    value.shape = ir.Shape(shape)
    return model


def wrong(type_, shape, samples=SAMPLES):
    return find_wrong_annotations(
        ir.from_onnx_text(MODEL.format(a="")), noted(type_, shape), samples
    )


@pytest.mark.parametrize("shape", [["N", 4], [None, 4], ["other", 4], [None, None]], ids=str)
def test_what_every_sample_shows_is_right(shape):
    assert wrong(ir.DataType.FLOAT, shape) == []


@pytest.mark.parametrize(
    ("shape", "told"),
    [
        ([2, 4], "a is noted to have shape [2, 4], and has [3, 4]"),
        (["N", 5], "a is noted to have shape [N, 5], and has [2, 4]"),
        ([None, "N"], "and has [2, 4]"),
        (["N"], "a is noted to have shape [N], and has [2, 4]"),
    ],
    ids=str,
)
def test_a_shape_that_a_sample_contradicts_is_told(shape, told):
    found = wrong(ir.DataType.FLOAT, shape)
    assert any(told in one for one in found)


def test_a_wrong_type_is_told():
    (found,) = wrong(ir.DataType.INT32, ["N", 4])
    assert found == "a is noted to be INT32, and is FLOAT"


def test_what_was_noted_before_is_not_charged_to_the_pass():
    model = noted(ir.DataType.FLOAT, [7, 7])
    assert find_wrong_annotations(model, noted(ir.DataType.FLOAT, [7, 7]), SAMPLES) == []


def test_a_value_that_was_not_recorded_is_not_judged():
    samples = [{"x": SAMPLES[0]["x"]}]
    assert wrong(ir.DataType.FLOAT, [9, 9], samples) == []


def test_what_the_engine_computes_against_the_standard_is_not_charged_to_the_pass():
    text = """<ir_version: 10, opset_import: ["" : 20]>
        g (float[2,N,K] x, bool b) => (float[?,?] y) <int64[1] a = {-1}> {
          m = If (b) <then_branch = t () => (float[?,?,?] u) { u = Relu(x) },
                      else_branch = e () => (float[?,?,?] v) { v = Neg(x) }>
          r = ReduceL1<keepdims = 0>(m, a) y = Abs(r) }"""
    feeds = [{"x": np.zeros((2, 4, n), np.float32), "b": np.array(True)} for n in (3, 0)]
    config = default_config(["reproducers=false"], ["shape-inference"])
    done = run_pipeline(
        ir.from_onnx_text(text), config, reference=ReferenceData(feeds, None, "test")
    )
    assert done.error is None


def test_a_shape_noted_behind_what_the_engine_computes_against_the_standard_is_not_charged():
    text = """<ir_version: 10, opset_import: ["" : 17]>
        g (float[N,3] x, bool b, float d) => (float[N,3] y) <float d = {-1}, int64[0] a = {}> {
          s = Squeeze(x, a)
          r = If (b) <then_branch = t () => (float[N,3] u) { u = Pow(s, d) },
                      else_branch = e () => (float[N,3] v) { v = Identity(s) }>
          y = Neg(r) }"""
    feeds = [
        {"x": np.ones((n, 3), np.float32), "b": np.array(b)}
        for n, b in ((2, True), (1, False))
    ]
    done = run_pipeline(
        ir.from_onnx_text(text),
        default_config(["reproducers=false"], ["shape-inference"]),
        reference=ReferenceData(feeds, None, "test"),
    )
    assert done.error is None, "the engine squeezes one row without being asked"


def test_a_shape_that_the_standard_contradicts_too_is_told_where_others_are_odd():
    text = """<ir_version: 10, opset_import: ["" : 17]>
        g (float[N,3] x) => (float[?,?] y) <int64[0] a = {}> {
          e = Exp(x) s = Squeeze(x, a) n = Neg(s) y = Abs(n) }"""
    before, after = ir.from_onnx_text(text), ir.from_onnx_text(text)
    for node, rank in zip(after.graph, (3, 2, 2, 2), strict=True):
        node.outputs[0].shape = ir.Shape([None] * rank)
    one = np.ones((1, 3), np.float32)
    values = {"x": one, "e": one, "s": one[0], "n": one[0], "y": one[0]}
    found = find_wrong_annotations(
        before, after, [values], lambda node, row: {node.outputs[0].name: one}
    )
    assert found == ["e is noted to have shape [None, None, None], and has [1, 3]"]


@pytest.mark.parametrize(
    "text",
    [
        """(float[N, 3] x) => (float[K, N, 3] y) {
            s = ReduceSum<keepdims = 0>(x) k = Constant<value = float {1e30}>()
            go = Greater(s, k) m = Constant<value = int64 {4}>()
            f, st = Loop(m, go, x) <body = b (int64 i, bool c, float[N, 3] v)
                => (bool d, float[N, 3] w, float[N, 3] z) {
                d = Identity(c) w = Neg(v) z = Abs(v) }>
            t = Relu(st) y = Neg(t) }""",
        """(float[N, 3] x) => (float[a, b, c] y) <float[N, 3] u> {
            k = Constant<value_ints = [1]>() u = Unsqueeze(x, k) t = Relu(u) y = Neg(t) }""",
    ],
)
def test_what_follows_from_a_wrong_note_or_a_loop_that_is_not_entered_is_no_fault(text):
    model = ir.from_onnx_text(f'<ir_version: 10, opset_import: ["" : 20]> g {text}')
    done = run_pipeline(model, default_config(["reproducers=false"], ["shape-inference"]))
    assert done.error is None


def test_dimensions_whose_names_are_empty_are_not_one():
    model = noted(ir.DataType.FLOAT, ["", 4])
    model.graph.inputs[0].shape = ir.Shape([ir.SymbolicDim(""), ir.SymbolicDim("")])
    assert find_wrong_annotations(ir.from_onnx_text(MODEL.format(a="")), model, SAMPLES) == []
