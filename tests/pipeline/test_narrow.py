"""Integers below 8 bits, which ONNX Runtime's own rewrites give to nodes without kernels."""

import onnx_ir as ir

from onnx_passes.configs.pipeline_files import default_config
from onnx_passes.pipeline.baseline import find_fallback_engine
from onnx_passes.pipeline.run import run_pipeline
from onnx_passes.runtime.ort import OnnxRuntimeEngine
from tests.tables import each_of

ALL = OnnxRuntimeEngine(optimization="all")
GENTLE = OnnxRuntimeEngine(optimization="all", fuse_qdq=False)
POOLED = """<ir_version: 10, opset_import: ["" : 21, "qonnx.custom_op.general" : 1]>
g (float[1,2,4,4] x) => (float[1,2,2,2] y)
<float s = {{0.5}}, float z = {{0}}, float b = {{{bits}}}> {{
d = qonnx.custom_op.general.Quant<signed = 1, narrow = 0>(x, s, z, b)
m = MaxPool<kernel_shape = [2, 2], strides = [2, 2]>(d)
f = qonnx.custom_op.general.Quant<signed = 1, narrow = 0>(m, s, z, b) y = Relu(f) }}"""


@each_of("bits, version, is_noted", (2, 25, True), (4, 21, True), (8, 21, False))
def test_what_the_highest_level_breaks_is_verified_without_rewrites(bits, version, is_noted):
    model = ir.from_onnx_text(POOLED.format(bits=bits))
    steps = [f"raise-opset{{version={version}}}", "convert-to-qcdq{narrow_types=true}"]
    done = run_pipeline(model, default_config(["reproducers=false"], steps))
    assert done.error is None, done.error
    assert [node.op_type for node in done.model.graph].count("QuantizeLinear") == 2
    noted = [note for note in done.report.notes if "fuse_qdq=off" in note]
    assert len(noted) == is_noted
    assert all("session.disable_quant_qdq" in note for note in noted)
    assert all(check.verdict.value == "passed" for check in done.report.final)


@each_of(
    "engine, bits, body",
    (OnnxRuntimeEngine(), "int4", "q = QuantizeLinear(x, s, z)"),
    (OnnxRuntimeEngine(optimization="all", fuse_qdq=False), "int4", "q = Cast<to = 22>(x)"),
    (ALL, "int8", "q = QuantizeLinear(x, s, z)"),
    (ALL, "int8", "q = Relu(x)"),
)
def test_no_other_engine_is_asked_where_it_would_do_the_same(engine, bits, body):
    head = (
        f'<ir_version: 10, opset_import: ["" : 21]> g (float[4] x, {bits} z) => (float[4] y)'
    )
    model = ir.from_onnx_text(f"{head} <float s = {{1}}> {{ {body} y = Relu(x) }}")
    assert find_fallback_engine(engine, model) is None


def test_the_engine_says_that_it_keeps_quantisers():
    gentle = find_fallback_engine(ALL, ir.from_onnx_text(NARROW))
    assert gentle == GENTLE
    assert gentle.name == "onnxruntime[optimization=all, fuse_qdq=off]"
    assert gentle.describe()["fuse_qdq"] is False


NARROW = """<ir_version: 10, opset_import: ["" : 21]> g (float[4] x, float s) => (int4[4] y)
{ y = QuantizeLinear<output_dtype = 22>(x, s) }"""
