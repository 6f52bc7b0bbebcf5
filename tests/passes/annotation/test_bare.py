import numpy as np
import onnx_ir as ir
import pytest

from onnx_passes.passes._support.proto import light_proto
from onnx_passes.passes.annotation._bare import bare_proto, denoted, new_memory

TEXT = """<ir_version: %d, opset_import: ["" : 20, "own" : 1]> m
    (float[N,3] x, float[3] d) => (float[?,?] y)
    <float[2] w = {1, 2}, float[3] d = {1, 2, 3}, float[?,?] t, string[1] s = {"a"}>
    { k = Constant<value = float[2] {1, 2}>() t, , u = own.F<a = 1, b = [1.0], c = "e">(x, , k)
      v, z, _ = Dropout(u) y = Add(t, d) }"""


@pytest.mark.parametrize("version", [3, 10])
def test_a_bare_model_lacks_declarations_only(version):
    model = ir.from_onnx_text(TEXT % version)
    big = np.arange(1000, dtype=np.float32)
    model.graph.initializers["w"].const_value = ir.tensor(big, name="other")
    model.graph.node(0).attributes.add(ir.AttrTensor("value", ir.tensor(big)))
    bare, light = bare_proto(model, new_memory()), light_proto(model, overridable=False)
    made = {value.name for node in model.graph for value in node.outputs}
    # What is declared of s is what its tensor says; that of w has another shape.
    declared = [i for i in light.graph.value_info if i.name not in made | {"s"}]
    assert list(bare.graph.value_info) == declared
    for part in ("name", "node", "input", "output", "initializer"):
        assert getattr(bare.graph, part) == getattr(light.graph, part), part
    assert bare.opset_import == light.opset_import
    assert bare.ByteSize() < 2000


def test_denotations_are_seen_inside_too():
    model = ir.from_onnx_text(TEXT % 10)
    assert not denoted(model)
    model.graph.node(1).outputs[0].shape = ir.Shape(["N", 3], ["DATA_BATCH", None])
    assert denoted(model)
