"""What operators demand of sizes."""

import onnx_ir as ir
import pytest

from onnx_passes.runtime.inputs.concrete_shapes import ShapeSpecializer, skeleton
from tests.tables import each_row


# Inputs besides x, constants, nodes; a shape of x that does not fit; what is said of it, and
# by how much it may grow.
@each_row("""inputs | constants | nodes | shape | told | factor
window: , float[2, 1, 9] w | int64 k = {0} | y = Conv(x, w) | =(1, 1, 3)
  | a window of 9 over 3 elements of axis 2 | =3.0
dilated: , float[2, 1, 3] w | int64 k = {0} | y = Conv<dilations=[4], pads=[1, 0]>(x, w)
  | =(1, 1, 2) | a window of 9 over 3 elements of axis 2 | =3.0
pool: =' ' | int64 k = {0} | y = MaxPool<kernel_shape=[4]>(x) | =(1, 1, 2)
  | a window of 4 over 2 elements of axis 2 | =2.0
reshape: =' ' | int64[3] t = {-1, 4, 3} | y = Reshape(x, t) | =(2, 9)
  | [2, 9], 18 elements, as [-1, 4, 3] | =24 / 18
exact: =' ' | int64[2] t = {0, 12} | y = Reshape(x, t) | =(5, 6)
  | [5, 6], 30 elements, as [0, 12] | =2.0
reflected: =' ' | int64[2] t = {0, 5} | y = Pad<mode="reflect">(x, t) | =(5,)
  | reflects 5 of 5 elements | =6 / 5
gemm: , float[3, 8] w | int64 k = {0} | y = Gemm<transB=1>(x, w) | =(2, 4)
  | multiplies [2, 4] by [3, 8] | =2.0
matmul: , float[8, 3] w | int64 k = {0} | y = MatMul(x, w) | =(2, 7, 4)
  | multiplies [2, 7, 4] by [8, 3] | =2.0
gathered: =' ' | int64[2] t = {1, -7} | y = Gather<axis=1>(x, t) | =(2, 4)
  | takes element 6 of 4 | =7 / 4
divided: =' ' | int64 k = {0} | y, z = Split<axis=1>(x) | =(2, 5) | divides 5 elements by 2 |
  =6 / 5
blocks: =' ' | int64 k = {0} | y = SpaceToDepth<blocksize=4>(x) | =(1, 1, 8, 6)
  | divides 6 elements by 4 | =8 / 6
""")
def test_what_does_not_fit_is_said_in_numbers(
    parse, inputs, constants, nodes, shape, told, factor
):
    names = ", ".join("abcd"[: len(shape)])
    text = f"g (float[{names}] x{inputs}) => (float[A] y) <{constants}> {{ {nodes} }}"
    model = parse(text, opset=17, ir_version=8)
    for value in model.graph.outputs:
        value.shape = None
    sizes = dict(zip("abcd", shape, strict=False))
    fault = ShapeSpecializer(skeleton(model)).fix({"x": shape}, sizes).fault
    assert fault is not None
    assert (fault.place, fault.text, fault.factor) == (0, told, pytest.approx(factor))


def test_the_first_node_is_blamed(parse):
    text = """g (float[a, b] x, float[3, 5] w) => (float[A] y)
        { one = Relu(x) two = Add(one, w) y = MatMul(two, w) }"""
    shaping = ShapeSpecializer(skeleton(parse(text)))
    fault = shaping.fix({"x": (2, 5)}, {"a": 2, "b": 5}).fault
    assert (fault.place, shaping.name_of(1)) == (1, "Add two")
    assert shaping.place_of("of type MatMul") == 2


def test_a_fault_in_a_body_may_not_run(parse):
    text = """g (bool c, float[a] x, float[3] w) => (float[A] y) { y = If(c) <
        then_branch = t () => (float[A] s) { s = Add(x, w) },
        else_branch = e () => (float[A] r) { r = Relu(x) }> }"""
    fault = ShapeSpecializer(skeleton(parse(text))).fix({"x": (2,)}, {"a": 2}).fault
    assert fault.doubtful
    assert fault.place == 1


def test_long_lists_of_trees_are_not_read_by_each_inference():
    count = 10_000
    values = ", ".join(["1.0"] * count)
    model = ir.from_onnx_text(
        f"""<ir_version: 9, opset_import: ["ai.onnx.ml" : 3, "" : 18]> g
        (float[N, 2] x) => (float[N, 1] y) {{
            y = ai.onnx.ml.TreeEnsembleRegressor<n_targets = 1, nodes_values = [{values}]>(x)
        }}"""
    )
    shaping = ShapeSpecializer(skeleton(model))
    found = shaping.fix({"x": (5, 2)}, {"N": 5})
    assert found.fault is None
    assert found.model.graph.outputs[0].shape.numpy() == (5, 1)
    assert shaping._proto.ByteSize() < count
    (node,) = shaping.nodes.graph
    assert len(node.attributes["nodes_values"].value) == count
