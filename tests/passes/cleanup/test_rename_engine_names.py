"""Names that ONNX Runtime gives to tensors without asking whether they are taken."""

import onnx_ir as ir
import onnxruntime
import pytest

from onnx_passes.errors import EngineError
from onnx_passes.model.walk import all_graphs
from onnx_passes.passes.cleanup.rename_engine_names import RenameEngineNames
from onnx_passes.passes.common.graph_edits import name_counts
from onnx_passes.runtime.ort import OnnxRuntimeEngine
from tests.tables import each_of, each_row

HEAD = '<ir_version: 8, opset_import: ["" : 18]> '
FUSIONS = {
    "MatMulAddFusion": """m (float[2,3,4] x, int64[2] e) => (float[2,3,5] y, int64[2] s)
        <float[4,5] w = {1,2,3,4,5,6,7,8,9,10,1,2,3,4,5,6,7,8,9,10}, float[5] b = {1,2,3,4,5},
         int64[2] NAME = {6,4}>
        { a = Neg(x) p = MatMul(a, w) c = Add(p, b) y = Relu(c) s = Add(e, NAME) }""",
    "GatherToSliceFusion": """m (float[9] x, int64 n, int64[2] e) => (float[k] y, int64[2] s)
        <int64 z = {0}, int64 t = {1}, int64[2] NAME = {6,4}>
        { r = Range(z, n, t) y = Gather(x, r) s = Add(e, NAME) }""",
    "GatherSliceToSplitFusion": """m (float[2,3,2] x, int64[2] e) => (float[2,3] y, int64[2] s)
        <int64 i = {0}, int64 j = {1}, int64[2] NAME = {6,4}>
        { a = Neg(x) b = Gather<axis = 2>(a, i) c = Gather<axis = 2>(a, j) y = Sub(b, c)
          s = Add(e, NAME) }""",
    "ReshapeFusion": """m (float[2,3,4] x, int64[2] e) => (float[4,6] y, int64[2] s)
        <int64[2] t = {6,4}, int64[2] u = {4,6}, int64[2] NAME = {6,4}>
        { a = Neg(x) [first] b = Reshape(a, t) [second] c = Reshape(b, u) y = Exp(c)
          s = Add(e, NAME) }""",
}
NAMES = [
    ("MatMulAddFusion", "gemm_input_shape"),
    ("MatMulAddFusion", "gemm_output_shape"),
    ("GatherToSliceFusion", "UnsqueezeAxesInitializer"),
    ("GatherToSliceFusion", "SliceAxesInitializer"),
    ("GatherSliceToSplitFusion", "squeeze_axes"),
    ("GatherSliceToSplitFusion", "squeeze_axes_token_1"),
    ("ReshapeFusion", "first_new_shape"),
]


def model_of(text):
    return ir.from_onnx_text(HEAD + text)


@each_of("fusion, name", *NAMES)
def test_a_model_loads_optimised_once_the_name_is_free(fusion, name):
    model = model_of(FUSIONS[fusion].replace("NAME", name))
    with pytest.raises(EngineError, match="Attempt to replace the existing tensor"):
        load(model)
    assert RenameEngineNames()(model).modified
    assert name not in model.graph.initializers
    load(model)
    assert not RenameEngineNames()(model).modified


def load(model):
    with OnnxRuntimeEngine(optimization="all").prepare(model):
        pass


def test_what_onnx_runtime_saves_has_such_names(tmp_path):
    """Of 12 networks that ONNX Runtime had saved, 5 failed at the end of ``optimize``."""
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "saved.onnx")
    model = model_of(FUSIONS["MatMulAddFusion"].replace("NAME", "kept"))
    onnxruntime.InferenceSession(ir.to_proto(model).SerializeToString(), options)
    saved = ir.load(tmp_path / "saved.onnx")
    assert "gemm_input_shape" in saved.graph.initializers
    RenameEngineNames()(saved)
    assert {n for n in saved.graph.initializers if n.startswith("gemm")} == {
        "gemm_input_shape_saved",
        "gemm_output_shape_saved",
    }


@each_row("""name
- gemm_input_shape_token_12
- gemm_output_reshape_token_3_new_shape
- _inlfunc_Mish_X
""")
def test_numbered_names_are_renamed(name):
    model = model_of("m (int64[2] e) => (int64[2] s) <int64[2] n = {1,2}> { s = Add(e, n) }")
    model.graph.initializers["n"].name = name
    assert RenameEngineNames()(model).modified
    assert [v.name for v in model.graph.initializers.values()] == [f"{name.lstrip('_')}_saved"]


@each_of("name", "shape", "my_gemm_input_shape", "gemm_input_shape_saved", "other_new_shape")
def test_other_names_stay(name):
    model = model_of("m (int64[2] e) => (int64[2] s) <int64[2] n = {1,2}> { s = Add(e, n) }")
    model.graph.initializers["n"].name = name
    assert not RenameEngineNames()(model).modified


def test_names_of_other_engines_can_be_given():
    model = model_of("m (int64[2] e) => (int64[2] s) { t = Neg(e) s = Neg(t) }")
    assert RenameEngineNames(also=["t", "s"])(model).modified
    assert set(name_counts(model)) == {"e", "t_saved", "s"}


def test_inputs_and_outputs_keep_their_names():
    model = model_of("""m (float[2] gemm_input_shape) => (float[2] squeeze_axes)
        { squeeze_axes = Neg(gemm_input_shape) }""")
    assert not RenameEngineNames()(model).modified


def test_a_name_that_is_taken_gets_a_number():
    model = model_of("""m (int64[2] e) => (int64[2] s) <int64[2] squeeze_axes = {1,2}>
        { squeeze_axes_saved = Add(e, squeeze_axes) s = Neg(squeeze_axes_saved) }""")
    RenameEngineNames()(model)
    assert set(name_counts(model)) == {"e", "s", "squeeze_axes_saved", "squeeze_axes_saved_1"}


def test_values_in_bodies_and_functions_are_renamed(rewrites):
    model = rewrites("""<ir_version: 10, opset_import: ["" : 20, "l" : 1]>
        m (bool c, float[N] x) => (float[N] y) { z = l.F(x) y = If(c) <
          then_branch = g () => (float[N] r) { squeeze_axes = Exp(z) r = Neg(squeeze_axes) },
          else_branch = h () => (float[N] q) { q = Neg(z) }> }
        <domain: "l", opset_import: ["" : 20]> F (a) => (b) {
          gemm_input_shape = Exp(a) b = Neg(gemm_input_shape) }""")
    names = {v.name for g in all_graphs(model) for n in g for v in n.outputs}
    assert {"squeeze_axes_saved", "gemm_input_shape_saved"} <= names
