from onnx_passes.passes.annotation.shape_inference import ShapeInference
from onnx_passes.passes.folding.fold_constants import FoldConstants
from onnx_passes.passes.fusion.fuse_all import FuseAll
from tests.tables import cases_in, inferred

WEIGHTS = "float[2,1,1,2] w = {1, 2, -1, 3}, float[1,2,1] b = {0.5, -2}, float c = {0.5}"


def model(body, *, opset=18, more=""):
    return inferred(f"""<ir_version: 8, opset_import: ["" : {opset}]> g (float[N,1,1,6] x)
      => (float[N,2,5] y) <{WEIGHTS}, int64[1] a = {{-2}}{more}>
      {{ t = Conv(x, w) {body} }}""")


test_cases = cases_in(model)("""
row: s = Squeeze(t, a) y = Add(b, s) | e = Unsqueeze(b, a) u = Add(t, e) y = Squeeze(u, a)
number: s = Squeeze(t, a) y = Mul(s, c) | u = Mul(t, c) y = Squeeze(u, a)
attributes: =model('s = Squeeze<axes = [2]>(t) y = Add(s, b)', opset=11) | =model('e =
  Unsqueeze<axes = [2]>(b) u = Add(t, e) y = Squeeze<axes = [2]>(u)', opset=11)
alone: s = Squeeze(t, a) y = LeakyRelu<alpha = 0.5>(s)
  | u = LeakyRelu<alpha = 0.5>(t) y = Squeeze(u, a)
not-a-conv: u = Neg(t) s = Squeeze(u, a) y = Relu(s)
no-axes: s = Squeeze(t) y = Relu(s)
read: s = Squeeze(t, a) u = Relu(s) y = Add(s, u)
bigger: =model('s = Squeeze(t, a) y = Add(s, d)', more=', float[2,1,1] d = {1, 2}')
another-rank: =model('s = Squeeze(t, a) y = Add(s, d)', more=', float[5] d = {1, 2, 3, 4, 5}')
""")


def test_the_conv_gets_the_bias():
    made = model("s = Squeeze(t, a) u = Add(s, b) y = Relu(u)")
    for _ in range(3):
        ShapeInference()(made)
        FoldConstants()(made)
        FuseAll()(made)
    assert [n.op_type for n in made.graph if n.op_type != "Constant"] == [
        *("Conv", "Relu", "Squeeze")
    ]
