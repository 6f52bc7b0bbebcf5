import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime

from onnx_passes.model.protos import all_bodies
from onnx_passes.passes.annotation._inference_proto import ModelDraft, bare_proto, new_memory
from onnx_passes.passes.annotation.shape_inference import infer_shapes
from onnx_passes.passes.common.large_tensors import light_proto
from onnx_passes.passes.context import PassContext
from tests.tables import each_of

TEXT = """<ir_version: 10, opset_import: ["" : 20]> m (float[N,6] x) => (float[?,?,?] y)
    <int64[3] target = {0, -1, 3}, float[6] w = {1, 2, 3, 4, 5, 6}>
    { a = Mul(x, w) b = Reshape(a, target) c = Transpose<perm = [0, 2, 1]>(b) y = Relu(c) }"""


def noted(model):
    return [(v.name, v.dtype, v.shape) for node in model.graph for v in node.outputs]


def test_each_change_of_a_node_is_written_and_nothing_else_is_made_anew():
    model, memory = ir.from_onnx_text(TEXT), new_memory()
    before = bare_proto(model, memory)
    made = {node: known[-1] for node, known in memory.nodes.made.items()}
    mul, reshape, transpose, relu = model.graph
    transpose.attributes.add(ir.AttrInt64s("perm", [2, 0, 1]))
    relu.op_type = "Abs"
    mul.outputs[0].name = "other"
    model.graph.initializers["w"].const_value = ir.tensor(np.zeros(6, np.float32), name="w")
    after = bare_proto(model, memory)
    assert after == bare_proto(model, new_memory()) != before
    assert not any(memory.nodes.made[node][-1] is made[node] for node in made)
    assert bare_proto(model, memory) == after
    relu.op_type = "Relu"
    bare_proto(model, memory)
    kept = memory.nodes.made
    assert [kept[n][-1] is made[n] for n in (mul, reshape, transpose, relu)] == [False] * 4


def test_shapes_found_with_a_memory_are_those_found_without():
    context = PassContext()
    model, fresh = ir.from_onnx_text(TEXT), ir.from_onnx_text(TEXT)
    for target in ([0, -1, 3], [0, -1, 2], [-1, 6, 1]):
        for each in (model, fresh):
            constant = ir.tensor(np.array(target, np.int64), name="target")
            each.graph.initializers["target"].const_value = constant
        context.refined.clear()  # as after a pass that does not keep shapes
        infer_shapes(model, context=context)
        infer_shapes(fresh)
        assert noted(model) == noted(fresh)
    assert noted(model)[1][2] == ir.Shape(["N", 6, 1])
    assert context.memories


WINDOWS = [
    ("kernel_shape = [2, 2], strides = [2, 2], pads = [0, 0, 1, 1]", (4, 5)),
    ("kernel_shape = [3, 3], strides = [2, 2], pads = [1, 1, 1, 1]", (6, 7)),
    ("kernel_shape = [2, 3], strides = [4, 3], pads = [1, 0, 1, 2]", (9, 11)),
    ("kernel_shape = [1, 2], strides = [3, 3], pads = [0, 1, 0, 1]", (8, 10)),
]


@each_of("opset", 21, 22)
@each_of("operator", "AveragePool", "LpPool", "MaxPool")
@each_of("window, size", *WINDOWS)
def test_the_shape_is_that_of_the_engine(operator, opset, window, size):
    text = f"""<ir_version: 10, opset_import: ["" : {opset}]> g (float[1, 1, {size[0]},
        {size[1]}] x) => (float[a, b, c, d] y) {{ p = {operator}<ceil_mode = 1, {window}>(x)
        y = Neg(p) }}"""
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


@each_of("start", *EMPTY, ids=["an initializer", "a Constant"])
@each_of("size, expected", ("2, 1, 3", [2, 3]), ("2, N, 3", None))
def test_squeeze_with_an_empty_list_of_axes_removes_all_of_size_1(start, size, expected):
    text = f"""<ir_version: 10, opset_import: ["" : 20]> g (float[{size}] x) => (float[?] y)
        {start} s = Squeeze(x, k) y = Neg(s) }}"""
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
    text = """<ir_version: 10, opset_import: ["" : 20]> g (float[1, N] x, float[2, 3, 1] w)
        => (float[a, b, c] y) { p = PRelu(x, w) y = Neg(p) }"""
    model = ir.from_onnx_text(text)
    infer_shapes(model)
    assert list(map(str, model.graph.node(0).outputs[0].shape)) == ["2", "3", "N"]
    session = onnxruntime.InferenceSession(onnx.parser.parse_model(text).SerializeToString())
    feeds = {"x": np.ones((1, 4), np.float32), "w": np.ones((2, 3, 1), np.float32)}
    assert session.run(None, feeds)[0].shape == (2, 3, 4)


TEXT_BARE = """<ir_version: %d, opset_import: ["" : 20, "own" : 1]> m
    (float[N,3] x, float[3] d) => (float[?,?] y)
    <float[2] w = {1, 2}, float[3] d = {1, 2, 3}, float[?,?] t, string[1] s = {"a"}>
    { k = Constant<value = float[2] {1, 2}>() t, , u = own.F<a = 1, b = [1.0], c = "e">(x, , k)
      v, z, _ = Dropout(u) y = Add(t, d) }"""


@each_of("version", 3, 10)
def test_a_bare_model_lacks_declarations_only(version):
    model = ir.from_onnx_text(TEXT_BARE % version)
    big = np.arange(1000, dtype=np.float32)
    model.graph.initializers["w"].const_value = ir.tensor(big, name="other")
    model.graph.node(0).attributes.add(ir.AttrTensor("value", ir.tensor(big)))
    bare, light = bare_proto(model, new_memory()), light_proto(model)
    made = {value.name for node in model.graph for value in node.outputs}
    # What is declared of s is what its tensor says; that of w has another shape.
    declared = [i for i in light.graph.value_info if i.name not in made | {"s"}]
    assert list(bare.graph.value_info) == declared
    for part in ("name", "node", "input", "output", "initializer"):
        assert getattr(bare.graph, part) == getattr(light.graph, part), part
    assert bare.opset_import == light.opset_import
    assert bare.ByteSize() < 2000


TEXT_NESTED = """<ir_version: 10, opset_import: ["" : 20]> m
    (bool k, float[N] x) => (float[N] y) <int64[1] one = {1}>
    { a = Exp(x)
      y = If(k) <then_branch = g () => (float[N] t) <float[1] w = {2}> {
                   b = Mul(a, w)
                   t = If(k) <then_branch = g2 () => (float[N] u) { u = Neg(b) },
                              else_branch = h2 () => (float[1] p) <float[1] p = {3}> { }> },
                 else_branch = h () => (float[N] e) { e = Expand(a, one) }> }"""


def test_nodes_in_bodies_are_written_once_as_those_of_the_graph():
    model, memory = ir.from_onnx_text(TEXT_NESTED), new_memory()
    bare, light = bare_proto(model, memory), light_proto(model)
    for _, body in all_bodies(light):
        del body.value_info[:]
    assert bare.graph.node == light.graph.node
    made = {node: known[-1] for node, known in memory.nodes.made.items()}
    assert [node.op_type for node in made] == ["Exp", "Mul", "Neg", "Expand"]
    assert bare_proto(model, memory) == bare
    assert all(memory.nodes.made[node][-1] is made[node] for node in made)
    next(node for node in made if node.op_type == "Neg").op_type = "Abs"
    assert "Abs" in str(bare_proto(model, memory))


HEADER = '<ir_version: 10, opset_import: ["" : 20, "own" : 1]> m '


def test_denotations_of_dimensions_are_kept():
    model = ir.from_onnx_text(
        HEADER + "(float[N] x) => (float[N] y) { t = Exp(x) y = Neg(t) }"
    )
    (value,) = model.graph.node(0).outputs
    value.type, value.shape = ir.TensorType(ir.DataType.FLOAT), ir.Shape(["N"], ["DATA_BATCH"])
    draft = ModelDraft(model, new_memory())
    for _ in range(2):
        draft.update(numbers=False, keep={"t": ["N"]})
        (info,) = draft.proto.graph.value_info
        assert info.type.tensor_type.shape.dim[0].denotation == "DATA_BATCH"
