import numpy as np
import onnx_ir as ir
import onnxruntime as ort

from onnx_passes import testing
from onnx_passes.passes.eliminate.merge_shape_changes import MergeShapeChanges
from tests.tables import each_row, inferred, pass_cases


@each_row("""dims | body | target
squeeze-of-reshape: N,6 | t = Reshape(x, m16) u = Squeeze(t, one) | =[-1, 6]
unsqueeze: N,6 | t = Reshape(x, m23) u = Unsqueeze(t, one) | =[-1, 1, 2, 3]
flatten: N,2,3 | t = Flatten(x) u = Unsqueeze(t, one) | =[-1, 1, 6]
to-flatten: N,1,6 | t = Squeeze(x, one) u = Flatten<axis = 2>(t) | =[-1, 1]
copied-dimensions: B,S,6 | t = Reshape(x, copies) u = Unsqueeze(t, two) | =[0, 0, 1, 2, 3]
copied-target: N,6 | t = Unsqueeze(x, one) u = Reshape(t, copy0) | =[-1, 2, 3]
fixed-sizes: 2,3 | t = Reshape(x, flat) u = Unsqueeze(t, one) | =[6, 1]
""")
def test_fires(dims, body, target, applied):
    model = testing.parse(f"""(float[{dims}] x) => (float[{",".join("?" * len(target))}] y)
        <int64[1] one = {{1}}, int64[1] two = {{2}}, int64[3] m16 = {{-1, 1, 6}},
        int64[3] m23 = {{-1, 2, 3}}, int64[4] copies = {{0, 0, 2, 3}},
        int64[3] copy0 = {{0, 2, 3}}, int64[1] flat = {{-1}}> {{ {body} y = Relu(u) }}""")
    assert applied(model)
    assert not MergeShapeChanges()(model).modified
    constant, node, _ = model.graph
    assert node.op_type == "Reshape"
    assert constant.attributes["value"].as_tensor().numpy().tolist() == target


@each_row("""text
read-elsewhere: (float[A,B] x) => (float[?,?,?] y) <int64[2] t = {-1, 2}, int64[1] a = {1}> {
  r = Reshape(x, t) y = Unsqueeze(r, a) z = Relu(r) w = Add(z, z) }
two-dimensions-to-infer: (float[A,B,C] x) => (float[?,?] y) <int64[1] t = {0}> {
  r = Unsqueeze(x, t) y = Flatten<axis = 2>(r) }
a-target-of-its-own: (float[A,B] x) => (float[?,?] y) <int64[1] t = {0}, int64[2] u = {-1,
  2}> { r = Unsqueeze(x, t) y = Reshape(r, u) }
empty: (float[0,4] x) => (float[0,1,4] y) <int64[2] t = {0, 4}, int64[1] a = {1}> {
  r = Reshape(x, t) y = Unsqueeze(r, a) }
""")
def test_leaves_alone(text):
    testing.assert_leaves_alone(MergeShapeChanges(), inferred(text))


test_cases = pass_cases("""
names of outputs are not trusted: (float[A,B,C] x) => (float[A,B] y) <int64[1] t = {0}> { r =
  Unsqueeze(x, t) y = Flatten<axis = 2>(r) }
""")


def test_an_empty_batch_still_works():
    model = inferred("""(float[N,6] x) => (float[?,?,?] y) <int64[3] t = {-1, 1, 6},
        int64[1] a = {1}>
        { r = Reshape(x, t) s = Squeeze(r, a) u = Unsqueeze(s, a) y = Relu(u) }""")
    assert MergeShapeChanges()(model).modified
    session = ort.InferenceSession(ir.to_proto(model).SerializeToString())
    (produced,) = session.run(None, {"x": np.zeros((0, 6), np.float32)})
    assert produced.shape == (0, 1, 6)


def test_an_empty_list_of_axes_is_left_alone():
    """ONNX Runtime removes all axes of size 1 then, so that the shape is not what is noted."""
    model = testing.parse("""(float[N, 3] x) => (float[N, 3] y) <int64[0] none = {}> {
        t = Flatten(x) y = Squeeze(t, none) }""")
    assert not MergeShapeChanges()(model).modified
