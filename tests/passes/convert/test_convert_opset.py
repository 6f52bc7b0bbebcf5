import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime as ort
import pytest

from onnx_passes import testing
from onnx_passes.errors import OptionError, PassError
from onnx_passes.model.walk import all_nodes
from onnx_passes.passes.annotation.shape_inference import ShapeInference
from onnx_passes.passes.convert.convert_opset import ConvertOpset
from onnx_passes.runtime.ort import OnnxRuntimeEngine
from onnx_passes.verify.snapshot import Snapshot
from tests.tables import cases, each_of, each_row, outputs_of


def text(opset, graph, functions="", ir_version=8):
    imports = f'"" : {opset}' + (', "l" : 1' if functions else "")
    return f"<ir_version: {ir_version}, opset_import: [{imports}]> m {graph} {functions}"


def convert(source, version):
    """Convert, and check the result on ONNX Runtime."""
    model = ir.from_onnx_text(source)
    ShapeInference()(model)
    original = Snapshot(model)
    pass_ = ConvertOpset(version=version)
    assert pass_(model).modified
    assert not pass_(model).modified
    onnx.checker.check_model(ir.to_proto(model), full_check=True)
    testing.assert_verified(pass_, original, model)
    return model


def nodes(model):
    return [node.op_type for node in all_nodes(model) if node.op_type != "Constant"]


CHANGES = cases("""
upsample-scales: =7 | =9 | (float[1,2,2,2] x) => (float[1,2,4,4] y) { y = Upsample<mode =
  "nearest", scales = [1.0, 1.0, 2.0, 2.0]>(x) } | =['Upsample']
upsample-to-resize: =9 | =11 | (float[1,2,2,2] x) => (float[1,2,4,4] y) <float[4] s = {1, 1, 2,
  2}> { y = Upsample<mode = "nearest">(x, s) } | =['Resize']
resize-that-reduces: =10 | =13 | (float[1,1,4,4] x) => (float[1,1,2,2] y) <float[4] s = {1, 1,
  0.5, 0.5}> { y = Resize<mode = "nearest">(x, s) } | =['Resize']
slice: =9 | =13 | (float[4,5] x) => (float[2,5] y) { y = Slice<starts = [1], ends = [3], axes =
  [0]>(x) } | =['Slice']
topk: =9 | =11 | (float[4] x) => (float[2] v, int64[2] i) { v, i = TopK<k = 2>(x) } | =['TopK']
clip: =10 | =13 | (float[4] x) => (float[4] y) { y = Clip<min = -0.5, max = 0.5>(x) } |
  =['Clip']
pad: =10 | =13 | (float[2,3] x) => (float[3,4] y) { y = Pad<mode = "constant", pads = [1, 0, 0,
  1], value = 2.5>(x) } | =['Pad']
softmax-of-the-last-axis: =11 | =13 | (float[2,3] x) => (float[2,3] y) { y = Softmax<axis =
  1>(x) } | =['Softmax']
softmax-over-two-axes-as-one: =11 | =13 | (float[2,3,4] x) => (float[2,3,4] y) { y =
  Softmax<axis = 1>(x) } | =['Flatten', 'Softmax', 'Reshape']
softmax-of-unknown-sizes: =11 | =13 | (float[M,N,4] x) => (float[M,N,4] y) { y = Softmax(x) } |
  =['Flatten', 'Softmax', 'Shape', 'Reshape']
hardmax-of-a-batch-that-may-be-empty: =11 | =13 | (float[N,3,4] x) => (float[N,3,4] y) { y =
  Hardmax<axis = 0>(x) } | =['Flatten', 'Hardmax', 'Reshape']
softmax-before-axes-of-size-one: =11 | =13 | (float[2,3,1,1] x) => (float[2,3,1,1] y) { y =
  Softmax(x) } | =['Softmax']
axes-and-sizes: =11 | =13 | (float[1,4] x) => (float[2] y, float[2] z) { a = Squeeze<axes =
  [0]>(x) y, z = Split<split = [2, 2]>(a) } | =['Squeeze', 'Split']
reduce-sum: =12 | =13 | (float[2,3] x) => (float[2] y) { y = ReduceSum<axes = [1], keepdims =
  0>(x) } | =['ReduceSum']
reduce-max: =13 | =18 | (float[2,3] x) => (float[2] y) { y = ReduceMax<axes = [1], keepdims =
  0>(x) } | =['ReduceMax']
split: =13 | =18 | (float[4] x) => (float[2] y, float[2] z) { y, z = Split(x) } | =['Split']
roi-align-keeps-its-coordinates: =13 | =16 | (float[1,1,6,6] x, float[1,4] r) =>
  (float[1,1,2,2] y) <int64[1] i = {0}> { y = RoiAlign<output_height = 2, output_width = 2>(x,
  r, i) } | =['RoiAlign']
dft: =17 | =20 | (float[1,4,4,1] x) => (float[1,4,4,2] y) { y = DFT<axis = 2>(x) } | =['DFT']
grid-sample: =16 | =20 | (float[1,1,4,4] x, float[1,2,2,2] g) => (float[1,1,2,2] y) { y =
  GridSample<mode = "bicubic">(x, g) } | =['GridSample']
""")


@each_of("source, target, graph, want", *CHANGES)
def test_up(source, target, graph, want):
    assert nodes(convert(text(source, graph), target)) == want


@each_of("operator", "Hardmax", "LogSoftmax", "Softmax")
@each_of("axis, dims", (0, "[N,3,4]"), (1, "[2,3,N]"), (2, "[2,N,3,4]"))
def test_a_matrix_of_nothing_gets_its_shape_back(operator, axis, dims):
    graph = f"(float{dims} x) => (float{dims} y) {{ y = {operator}<axis = {axis}>(x) }}"
    model = convert(text(11, graph), 13)
    sizes = [0 if dim == "N" else int(dim) for dim in dims.strip("[]").split(",")]
    feeds = {"x": np.zeros(sizes, np.float32)}
    assert outputs_of(OnnxRuntimeEngine(), model, feeds)["y"].shape == (*sizes,)


def test_scales_of_groups_become_scales_of_channels():
    """No engine knows GroupNormalization of opset 18, so that numpy computes it."""
    model = ir.from_onnx_text(
        text(
            18,
            """(float[1,4,3] x) => (float[1,4,3] y) <float[2] s = {2, 3}, float[2] b = {5, 7}>
            { y = GroupNormalization<num_groups = 2, epsilon = 0.0>(x, s, b) }""",
        )
    )
    ConvertOpset(version=21)(model)
    onnx.checker.check_model(ir.to_proto(model), full_check=True)
    x = np.random.default_rng(0).standard_normal((1, 4, 3)).astype(np.float32)
    groups = x.reshape(2, 6)
    normal = (groups - groups.mean(1, keepdims=True)) / groups.std(1, keepdims=True)
    expected = normal * [[2], [3]] + [[5], [7]]
    session = ort.InferenceSession(ir.to_proto(model).SerializeToString())
    (produced,) = session.run(None, {"x": x})
    np.testing.assert_allclose(produced.reshape(2, 6), expected, rtol=1e-5, atol=1e-5)


DOWN = cases("""
axes-become-an-attribute: =20 | =11 | (float[2,3] x) => (float[2] y) <int64[1] a = {-1}> { y =
  ReduceMax<keepdims = 0>(x, a) } | =['ReduceMax']
axes-are-counted-from-the-front: =20 | =9 | (float[2,3] x) => (float[2,3] y, float[1,2,3] z)
  <int64[1] a = {-3}> { y = Softmax(x) z = Unsqueeze(x, a) } | =['Softmax', 'Unsqueeze']
softmax-of-a-middle-axis: =20 | =12 | (float[2,3,4] x) => (float[2,3,4] y) { y = Softmax<axis =
  1>(x) } | =['Transpose', 'Softmax', 'Transpose']
split-into-unequal-parts: =20 | =11 | (float[5] x) => (float[3] y, float[2] z) { y, z =
  Split<num_outputs = 2>(x) } | =['Split']
shape-with-a-start: =20 | =11 | (float[2,3,5] x) => (int64[2] y) { y = Shape<start = 1>(x) } |
  =['Shape', 'Slice']
pad-of-one-axis: =20 | =11 | (float[2,3] x) => (float[2,5] y) <int64[2] p = {1, 1}, int64[1] a
  = {1}> { y = Pad(x, p, , a) } | =['Pad']
bounds-become-attributes: =20 | =9 | (float[4] x) => (float[4] y, float[2] z) <float lo = {-1},
  float hi = {1}, int64[1] s = {1}, int64[1] e = {3}> { y = Clip(x, lo, hi) z = Slice(x, s, e)
  } | =['Clip', 'Slice']
bounds-left-out-are-the-extremes-of-float32: =13 | =9 | (float[4] x) => (float[4] y, float[4]
  z, float[4] v) <float one = {1}> { y = Clip(x, one) z = Clip(x, , one) v = Clip(x) } |
  =['Clip', 'Clip', 'Clip']
gelu-is-a-function: =20 | =16 | (float[2,3] x) => (float[2,3] y) { y = Gelu(x) } | =None
rms-normalization-is-a-function: =23 | =15 | (float[2,4] x) => (float[2,4] y) <float[4] s = {1,
  2, 3, 4}> { y = RMSNormalization(x, s) } | =None
constants-hold-tensors: =20 | =11 | (float[2] x) => (float[2] y) { a = Constant<value_floats =
  [1.0, 2.0]>() y = Add(x, a) } | =['Add']
gemm-gets-a-zero: =20 | =9 | (float[2,3] a, float[3,2] b) => (float[2,2] y) { y = Gemm(a, b) }
  | =['Gemm']
""")


@each_of("source, target, graph, want", *DOWN)
def test_down(source, target, graph, want):
    model = convert(text(source, graph, ir_version=10), target)
    if want is not None:
        assert nodes(model) == want
    assert model.opset_imports[""] == target


def test_axes_that_the_model_computes_from_constants_become_an_attribute():
    source = """(float[2,3,4] x) => (float[?] y) <int64 i = {1}, int64 e = {3}, int64 d = {1}>
    { a = Range(i, e, d) y = ReduceMax<keepdims = 0>(x, a) }"""
    model = convert(text(18, source), 13)
    assert model.graph[-1].attributes["axes"].as_ints() == (1, 2)


def test_there_and_back():
    source = """(float[2,3] x) => (float[2] y) <int64[1] a = {1}>
    { t = ReduceMean<keepdims = 0>(x, a) y = Relu(t) }"""
    model = convert(text(18, source), 13)
    ConvertOpset(version=18)(model)
    assert nodes(model) == ["ReduceMean", "Relu"]


def test_looks_into_subgraphs_and_functions():
    model = convert(
        text(
            12,
            """(bool c, float[1,3] x) => (float[3] y) { t = l.F(x) y = If(c) <
            then_branch = g () => (float[3] p) { p = Squeeze<axes = [0]>(t) },
            else_branch = h () => (float[3] e)
              { e = ReduceSum<axes = [0], keepdims = 0>(x) }> }""",
            '<domain: "l", opset_import: ["" : 12]> F (a) => (b) '
            "{ c = Squeeze<axes = [0]>(a) b = Unsqueeze<axes = [0]>(c) }",
        ),
        13,
    )
    (function,) = model.functions.values()
    assert function.opset_imports[""] == 13
    assert all("axes" not in node.attributes for node in all_nodes(model))


def test_names_metadata_and_weights_stay():
    model = ir.from_onnx_text(
        text(
            12,
            """(float[1,2] x) => (float[2] y) <float[2] w = {1, 2}>
            { [first] t = Squeeze<axes = [0]>(x) [second] y = Add(t, w) }""",
        )
    )
    model.graph[0].metadata_props["layer"] = "7"
    weight = model.graph.initializers["w"].const_value
    ConvertOpset(version=13)(model)
    assert [node.name for node in model.graph][1:] == ["first", "second"]
    assert model.graph[1].metadata_props == {"layer": "7"}
    assert model.graph.initializers["w"].const_value is weight


def test_the_ir_version_is_raised_as_the_opset_demands():
    model = ir.from_onnx_text(text(13, "(float[2] x) => (float[2] y) { y = Exp(x) }"))
    ConvertOpset(version=21)(model)
    assert model.ir_version == 10


@each_row("""source | target | graph | reason
1: =20 | =13 | (float[1,1,4,4] x) => (float[1,1,4,4] y) <int64[8] p = {0,0,1,1,0,0,1,1}> { a =
  Pad<mode = "wrap">(x, p) y = Exp(a) } | its mode is wrap
2: =20 | =12 | (float[2,3] x, int64[1] a) => (float[?,?] y) { y = ReduceSum(x, a) } | its axes
  are computed
3: =20 | =13 | (float[2] x, int32[2] i) => (int32[2] y) { y = Relu(i) } | tensor(int32)
4: =20 | =13 | (int64[4] x) => (int64[4] y) { y = BitwiseNot(x) } | no such operator
5: =13 | =9 | (double[4] x) => (double[4] y) { y = Clip(x) } | a bound is left out
6: =8 | =9 | (float[1,2] x) => (float[1,2] y) { s = Constant<value = float[2] {1, 1}>() y =
  BatchNormalization<spatial = 0>(x, s, s, s, s) } | spatial=0
7: =17 | =16 | (float[2,3,4] x, float[1,4] s) => (float[2,3,4] y) { y = LayerNormalization<axis
  = 1>(x, s) } | no such operator
""")
def test_what_has_no_equivalent_is_an_error_that_says_why(source, target, graph, reason):
    model = ir.from_onnx_text(text(source, graph))
    before = ir.to_onnx_text(model)
    with pytest.raises(PassError, match=f"in opset {target}") as caught:
        ConvertOpset(version=target)(model)
    assert reason in str(caught.value)
    assert ir.to_onnx_text(model) == before, "the model is half converted"


def test_an_attribute_of_a_function_cannot_become_an_input():
    model = ir.from_onnx_text(
        text(
            12,
            "(float[1,2] x) => (float[2] y) { y = l.F<k = [0]>(x) }",
            '<domain: "l", opset_import: ["" : 12]> F<k>(a) => (b) '
            "{ b = Squeeze<axes : ints = @k>(a) }",
        )
    )
    with pytest.raises(PassError, match="attribute of the function"):
        ConvertOpset(version=13)(model)


def test_versions_that_do_not_exist():
    model = ir.from_onnx_text(text(13, "(float[2] x) => (float[2] y) { y = Exp(x) }"))
    with pytest.raises(PassError, match="there is no opset 99"):
        ConvertOpset(version=99)(model)
    with pytest.raises(OptionError):
        ConvertOpset(version="new")


def test_leaves_alone(leaves_alone):
    leaves_alone(
        ConvertOpset(version=13), text(13, "(float[2] x) => (float[2] y) { y = Exp(x) }")
    )


def test_what_onnx_runtime_no_longer_loads_is_noted():
    """It computes Relu of int64 by its function, which ends with opset 18."""
    model = ir.from_onnx_text("""<ir_version: 8, opset_import: ["" : 18]> m (int64[2] x) =>
        (int64[2] y) { y = Relu(x) }""")
    pass_ = ConvertOpset(version=21)
    assert pass_(model).modified
    (note,) = pass_.context.notes
    assert note.startswith("ONNX Runtime no longer loads the model: ")
    assert "Relu" in note
