import pytest

from onnx_passes import testing
from onnx_passes.passes.annotation.shape_inference import infer_shapes
from onnx_passes.passes.streamline.merge_products import MergeProducts
from tests.tables import cases

HEAD = """(float[2,3,4] x, float[2,4,3] u, float[4] q) => (float[A,B,C] y)
<float[4,2] w = {1, 2, 3, 4, 5, 6, 7, 8}, float[4,2] v = {1, 1, 0, 2, 3, 1, 0, 1},
float[4,2] n = {-1, -2, -3, -4, -5, -6, -7, -8}, float[2,3] k = {1, 2, 3, 4, 5, 6}> """


def merged(body):
    model = testing.parse(HEAD + "{ " + body + " y = Relu(z) }")
    infer_shapes(model)
    before = testing.Snapshot(model)
    if not MergeProducts()(model).modified:
        return None
    testing.assert_verified(MergeProducts(), before, model)
    return [node.op_type for node in model.graph if node.op_type not in ("Constant", "Relu")]


@pytest.mark.parametrize(
    ("body", "kinds"),
    cases("""
- t = MatMul(x, w) z = MatMul(t, k) | =['MatMul']
- t = MatMul(k, x) z = MatMul(w, t) | =['MatMul']
- s = MatMul(x, w) t = MatMul(x, v) z = Add(s, t) | =['MatMul']
- s = MatMul(w, e) t = MatMul(v, e) z = Add(s, t) | =None
- s = Transpose<perm = [0, 2, 1]>(x) t = Transpose<perm = [0, 2, 1]>(u)z = MatMul(s, t) |
  =['MatMul', 'Transpose']
"""),
)
def test_fires(body, kinds):
    body = body.replace("e)", "k)")
    assert merged(body) == kinds


@pytest.mark.parametrize(
    "body",
    [
        "s = MatMul(x, w) t = MatMul(x, n) z = Add(s, t)",  # they cancel each other
        "s = Transpose<perm = [2, 0, 1]>(x) z = MatMul(s, u)",
        "s = MatMul(x, u) z = MatMul(s, x)",
    ],
)
def test_leaves_alone(body):
    assert merged(body) is None
