import onnx
import onnx.shape_inference
import onnx_ir as ir
import pytest

from onnx_passes.model.inference import annotate, infer
from tests.tables import each_of

HEAD = '<ir_version: 10, opset_import: ["" : 20]> g (float[N] x) => (float[M] y) '
LONG = "<int64[1] n = {1099511627776}> { v = ConstantOfShape(n) s = Size(v) y = Expand(x, s) }"
SHORT = "<int64[1] n = {3}> { s = Shape(x) k = Mul(s, n) y = Expand(x, k) }"
LATE = """<bool c = {0}> {
    y = If (c) <
        then_branch = t () => (float[K] a) {
            n = Constant<value = int64[1] {1099511627776}>()
            v = ConstantOfShape(n) a = Add(v, v)
        },
        else_branch = e () => (float[L] b) { b = Relu(x) }
    >
}"""


@each_of("text, followed", (LONG, False), (LATE, False), (SHORT, True))
def test_values_of_long_vectors_are_not_followed(text, followed, monkeypatch):
    asked, original = [], onnx.shape_inference.infer_shapes

    def told(model, check_type=False, strict_mode=False, data_prop=False):
        asked.append(data_prop)
        return original(model, check_type, strict_mode) if data_prop else original(model)

    monkeypatch.setattr(onnx.shape_inference, "infer_shapes", told)
    infer(onnx.parser.parse_model(HEAD + text))
    assert (True in asked) == followed


def test_values_of_shapes_are_followed():
    model = onnx.parser.parse_model(
        HEAD + "<int64[1] n = {3}> { s = Shape<start=0, end=0>(x) y = Concat<axis=0>(x, x) "
        "k = Concat<axis=0>(n, n) z = ConstantOfShape(k) }"
    )
    types = {info.name: info.type for info in infer(model).graph.value_info}
    assert [dim.dim_value for dim in types["z"].tensor_type.shape.dim] == [3, 3]


def test_a_function_that_calls_itself_is_an_error_of_inference():
    model = onnx.parser.parse_model("""<ir_version: 10, opset_import: ["" : 20, "own" : 1]>
        g (float[N] x) => (float[N] y) { y = own.f(x) } <domain: "own",
        opset_import: ["" : 20, "own" : 1]> f (a) => (b) { c = Relu(a) b = own.f(c) }""")
    with pytest.raises(onnx.shape_inference.InferenceError, match="recursive"):
        infer(model)


@each_of("sizes, shape", ("B,T,E", None), ("B,T,6", "B,S,6"), ("B,T,0", "B,S,0"))
def test_an_unknown_size_of_attention_is_not_0(sizes, shape):
    text = f"""<ir_version: 11, opset_import: ["" : 23]>
    g (float[B,S,6] q, float[B,T,6] k, float[{sizes}] v) => (float[a,b,c] y) {{
      z = Attention<q_num_heads = 3, kv_num_heads = 3>(q, k, v) y = Relu(z)
    }}"""
    inferred = infer(onnx.parser.parse_model(text), strict_mode=True)
    found = {info.name: info.type.tensor_type for info in inferred.graph.value_info}
    dims = (
        [str(dim.dim_param or dim.dim_value) for dim in found["z"].shape.dim] if found else ""
    )
    assert (",".join(dims) or None) == shape
    assert inferred.graph.node[0].op_type == "Attention"


@each_of(
    "opset, node, shape",
    (10, "Slice(x, zero, two, zero)", None),
    (11, "Slice(x, zero, two, zero)", (None, 1, 16)),
    (10, "Slice(w, zero, two, zero)", (2, 1, 16)),
    (9, "Unsqueeze<axes = [-1]>(w)", None),
    (9, "Unsqueeze<axes = [1]>(w)", (5, 1, 1, 16)),
    (11, "Unsqueeze<axes = [-1]>(w)", (5, 1, 16, 1)),
    (9, "Squeeze<axes = [-2]>(w)", None),
    (12, "Squeeze<axes = [-2]>(w)", (5, 16)),
    (17, "STFT(s, step, , length)", None),
    (17, "STFT<onesided = 1>(s, step, , length)", (1, 4, 5, 2)),
)
def test_what_onnx_misreads_has_no_shape(opset, node, shape):
    text = f"""<ir_version: 8, opset_import: ["" : {opset}]>
    g (float[N,1,16] x, float[5,1,16] w, float[1,32,1] s) => (float y)
    <int64[1] zero = {{0}}, int64[1] two = {{2}}, int64 step = {{8}}, int64 length = {{8}}> {{
      y = {node}
    }}"""
    model = onnx.parser.parse_model(text)
    model.graph.output[0].type.tensor_type.ClearField("shape")
    inferred = infer(model)
    found = inferred.graph.output[0].type.tensor_type
    assert found.HasField("shape") == (shape is not None)
    assert tuple([dim.dim_value or None for dim in found.shape.dim]) == (shape or ())
    assert [n.op_type for n in inferred.graph.node] == [n.op_type for n in model.graph.node]


def test_an_empty_sequence_is_none_of_its_elements():
    head = HEAD.replace("float[M] y", "seq(float[N]) y")
    model = ir.from_onnx_text(head + "{ e = SequenceEmpty() y = SequenceInsert(e, x) }")
    annotate(model)
    assert isinstance(model.graph[0].outputs[0].type, ir.SequenceType)
