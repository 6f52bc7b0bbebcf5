"""What an inference remembers changes nothing of what the next one finds."""

import numpy as np
import onnx_ir as ir

from onnx_passes.passes.annotation._bare import bare_proto, new_memory
from onnx_passes.passes.annotation.shape_inference import infer_shapes
from onnx_passes.passes.context import PassContext

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


def test_a_node_that_is_gone_is_forgotten_and_one_that_stays_is_not_written_again():
    model, memory = ir.from_onnx_text(TEXT), new_memory()
    bare_proto(model, memory)
    made = {node: known[-1] for node, known in memory.nodes.made.items()}
    *_, last, gone = model.graph
    model.graph.outputs[0] = last.outputs[0]
    model.graph.remove(gone, safe=True)
    bare_proto(model, memory)
    assert gone not in memory.nodes.made
    assert memory.nodes.made[last][-1] is made[last]


def test_shapes_found_with_a_memory_are_those_found_without():
    context = PassContext()
    model, fresh = ir.from_onnx_text(TEXT), ir.from_onnx_text(TEXT)
    for target in ([0, -1, 3], [0, -1, 2], [-1, 6, 1]):
        for each in (model, fresh):
            constant = ir.tensor(np.array(target, np.int64), name="target")
            each.graph.initializers["target"].const_value = constant
        infer_shapes(model, context=context)
        infer_shapes(fresh)
        assert noted(model) == noted(fresh)
    assert noted(model)[1][2] == ir.Shape(["N", 6, 1])
    assert context.memories
