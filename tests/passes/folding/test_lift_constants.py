import numpy as np
import onnx_ir as ir

from onnx_passes.passes.folding.lift_constants import LiftConstants
from tests.tables import each_of, pass_cases


@each_of(
    "type_, attribute, initializer",
    ("float[2]", "value = float[2] {1, 2}", "float[2] w = {1, 2}"),
    ("float", "value_float = 1.5", "float w = {1.5}"),
    ("float[2]", "value_floats = [1.5, 2.5]", "float[2] w = {1.5, 2.5}"),
    ("int64", "value_int = 3", "int64 w = {3}"),
    ("int64[1]", "value_ints = [3]", "int64[1] w = {3}"),
    ("int64[0]", "value_ints : ints = []", "int64[0] w = {}"),
    ("string", 'value_string = "a"', 'string w = {"a"}'),
    ("string[2]", 'value_strings = ["a", "bc"]', 'string[2] w = {"a", "bc"}'),
)
def test_every_form_of_the_value(type_, attribute, initializer, rewrites):
    rewrites(
        f"() => ({type_} y) {{ w = Constant<{attribute}>() y = Identity(w) }}",
        f"() => ({type_} y) <{initializer}> {{ y = Identity(w) }}",
    )


test_cases = pass_cases("""
constants of a branch stay in the branch: (bool c, float[1] x) => (float[1] y) { y = If(c) <
  then_branch = g () => (float[1] t) { w = Constant<value_floats = [1.0]>() t = Add(x, w) },
  else_branch = h () => (float[1] e) { e = Neg(x) }> } | (bool c, float[1] x) => (float[1] y) {
  y = If(c) < then_branch = g () => (float[1] t) <float[1] w = {1}> { t = Add(x, w) },
  else_branch = h () => (float[1] e) { e = Neg(x) }> }
output: () => (float[1] y) { y = Constant<value_floats = [1.0]>() }
function: <ir_version: 10, opset_import: ["" : 20, "l" : 1]> m (float[N] x) => (float[N] y) {
  y = l.F(x) } <domain: "l", opset_import: ["" : 20]> F (a) => (b) {
  w = Constant<value_float = 1.0>() b = Add(a, w) }
""")


def test_leaves_sparse_values_alone():
    sparse = ir.Attr("sparse_value", ir.AttributeType.SPARSE_TENSOR, object())
    node = ir.Node("", "Constant", [], [sparse])
    reader = ir.Node("", "Identity", node.outputs)
    graph = ir.Graph([], reader.outputs, nodes=[node, reader], opset_imports={"": 20})
    assert not LiftConstants()(ir.Model(graph, ir_version=10)).modified


def test_bits_of_narrow_types_are_kept(rewrites):
    model = rewrites("""() => (float[2] y)
        { w = Constant<value = bfloat16[2] {1, 2}>() y = Cast<to = 1>(w) }""")
    (tensor,) = model.graph.initializers.tensors()
    assert tensor.dtype is ir.DataType.BFLOAT16
    assert tensor.numpy().view(np.uint16).tolist() == [1, 2]  # the parser reads bits
