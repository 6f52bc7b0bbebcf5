import onnx_ir as ir
import pytest

from onnx_passes.model.walk import all_nodes
from onnx_passes.passes._support.proto import light_proto
from onnx_passes.passes.annotation._bare import new_memory
from onnx_passes.passes.annotation._draft import ModelDraft
from onnx_passes.passes.annotation._forgetting import forget

HEADER = '<ir_version: 10, opset_import: ["" : 20, "own" : 1]> m '

PLAIN = """(float[N,3] x) => (float[?,?] y)
    <float[2] w = {1, 2}, float[K,3] t, int64[?] s, float k>
    { s = Shape(x) k = Constant<value_float = 1.0>() t = Mul(x, k) u = own.Add(t, t)
      y = Exp(u) }"""

LOOP = """(float[N,3] x, int64 n, bool go) => (float[?,?] y) {
    y = Loop (n, go, x) <body = b (int64 i, bool c, float[?,?] v) => (bool c2, float[M,3] o)
    <float[Q,3] e> { c2 = Identity(c) e = Exp(v) o = Add(e, x) }> }"""

FUNCTION = """(float[N,3] x) => (float[?,?] y) <float[P,3] t> { t = own.f(x) y = Exp(t) }
    <domain: "own", opset_import: ["" : 20]> f (a) => (b) { b = Neg(a) }"""

SEQUENCE = """(float[N,3] x) => (float[?,?] y) {
    q = SequenceConstruct(x, x) y = ConcatFromSequence<axis = 0>(q) }"""


def texts(graph):
    """What a graph declares, its subgraphs included, whatever the order; not of constants."""
    constants = {tensor.name for tensor in graph.initializer}
    inner = (info for info in graph.value_info if info.name not in constants)
    infos = (*graph.input, *inner, *graph.output)
    found = {(i.name, i.type.SerializeToString(deterministic=True)) for i in infos}
    inner = [g for n in graph.node for a in n.attribute for g in (a.g, *a.graphs)]
    return found.union(*(texts(g) for g in inner))


@pytest.mark.parametrize("text", [PLAIN, LOOP, FUNCTION, SEQUENCE])
def test_a_draft_says_what_a_model_serialised_anew_says(text):
    model = ir.from_onnx_text(HEADER + text)
    draft, keep = ModelDraft(model, new_memory()), {}
    for number in range(4):
        expected = light_proto(model, overridable=False)
        forget(expected.graph, numbers=number == 0, keep=keep)
        draft.update(numbers=number == 0, keep=keep)
        assert texts(draft.proto.graph) == texts(expected.graph), number
        learn(model, number, keep)


def learn(model, number, keep):
    """Note another shape on each value, as inference and its refinement do."""
    shape = [["N", 3], [7, None], ["unk__1", 3], ["N", "M"]][number]
    for node in all_nodes(model):
        for value in node.outputs:
            if value not in model.graph.outputs and node.op_type != "SequenceConstruct":
                value.type = value.type or ir.TensorType(ir.DataType.FLOAT)
                value.shape = ir.Shape(shape)
                keep[value.name] = [shape[0], None] if number % 2 else [None, shape[1]]


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
