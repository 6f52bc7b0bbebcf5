import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnxruntime.quantization import QuantFormat, QuantType, quantize_static

import onnx_passes
from onnx_passes.passes.annotation.shape_inference import ShapeInference
from onnx_passes.passes.precision.expand_qlinear import ExpandQlinear
from tests.tables import each_of, each_row

NETWORK = """<ir_version: 8, opset_import: ["" : 13]>
main (float[1,3,8,8] x) => (float[1,5] y) {
    c = Conv <pads = [1,1,1,1]> (x, w, b)  r = Relu(c)
    d = Conv <pads = [1,1,1,1]> (r, v)  a = Add(d, r)  l = LeakyRelu(a)
    k = Concat <axis = 1> (l, r)  p = AveragePool <kernel_shape = [2,2], strides = [2,2]> (k)
    s = Sigmoid(p)  m = Mul(s, p)  g = GlobalAveragePool(m)  f = Flatten(g)
    h = Gemm <transB = 1> (f, wg, bg)  t = MatMul(h, wm)  y = Softmax <axis = -1> (t)
}"""
SHAPES = {
    "w": (4, 3, 3, 3),
    "b": (4,),
    "v": (4, 4, 3, 3),
    "wg": (6, 8),
    "bg": (6,),
    "wm": (6, 5),
}


class Reader:
    """What onnxruntime.quantization reads samples from."""

    def __init__(self, feeds):
        self._left = iter(feeds)

    def get_next(self):
        return next(self._left, None)


@pytest.fixture(params=["QUInt8", "QInt8"])
def kind(request):
    return QuantType[request.param]


@each_of("by_channel", False, True)
def test_a_network_of_onnxruntime_becomes_pairs(tmp_path, kind, by_channel):
    rng = np.random.default_rng(0)
    model = onnx.parser.parse_model(NETWORK)
    for name, shape in SHAPES.items():
        array = rng.standard_normal(shape).astype(np.float32)
        model.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
    feeds = [{"x": rng.standard_normal((1, 3, 8, 8)).astype(np.float32)} for _ in range(8)]
    paths = tmp_path / "float.onnx", tmp_path / "integers.onnx"
    onnx.save(model, paths[0])
    options = {"per_channel": by_channel, "activation_type": kind}
    quantize_static(*paths, Reader(feeds), quant_format=QuantFormat.QOperator, **options)

    budget = {"verify.metrics": {"max_abs_error": [0, 2 / 256]}}
    result = onnx_passes.run(paths[1], ["expand-qlinear"], inputs=feeds, options=budget)
    assert result.raise_for_verdict(strict=True)
    names = [node.op_type for node in result.model.graph]
    assert not [name for name in names if name.startswith(("QLinear", "QGemm"))]
    assert names.count("QuantizeLinear") == 13
    again = onnx_passes.run(result.model, ["expand-qlinear"], verify=False)
    assert [node.op_type for node in again.model.graph] == names


def parse(text):
    header = '<ir_version: 10, opset_import: ["" : 21, "com.microsoft" : 1]> main '
    model = ir.from_onnx_text(header + text)
    ShapeInference().call(model)
    return model


GRIDS = "<float s = {0.1}, uint8 z = {3}, float t = {0.2}, uint8 u = {9}>"


@each_of(
    "node",
    "y = com.microsoft.QLinearWhere(b, x, s, z, v, t, u, s, u)",
    "y = com.microsoft.QLinearMul(x, s, z, v, t, u, s, z)",
    "y = com.microsoft.QLinearSoftmax <axis = 1, opset = 11> (x, s, z, t, u)",
    ids=lambda node: node.split("(")[0],
)
def test_other_operators_of_integers(run, node):
    model = parse(
        f"(uint8[2,3] x, uint8[2,3] v, bool[2,3] b) => (uint8[n,m] y) {GRIDS} {{ {node} }}"
    )
    rng = np.random.default_rng(0)
    feed = {name: rng.integers(0, 200, (2, 3)).astype(np.uint8) for name in "xv"}
    feed["b"] = feed["x"] > 100
    (old,) = run(model, feed)
    assert ExpandQlinear().call(model).modified
    (new,) = run(model, feed)
    assert np.abs(old.astype(int) - new).max() <= 1
    assert "QuantizeLinear" in [node.op_type for node in model.graph]


@each_row("""moves
- f = Reshape(m, k) e = DequantizeLinear(f, t, u)
- f = Reshape(m, k) g = Transpose(f) e = DequantizeLinear(g, t, u)
- f = Resize <mode = "nearest"> (m, , n) g = Flatten(f) e = DequantizeLinear(g, t, u)
- f = MaxPool <kernel_shape = [2,2]> (m) g = Flatten(f) e = DequantizeLinear(g, t, u)
- f = Flatten(m) d = com.microsoft.QLinearSigmoid(f, t, u, s, z) e = DequantizeLinear(d, s, z)
""")
def test_what_moves_integers_moves_floats(run, moves):
    grids = GRIDS.replace(">", ", int64[2] k = {3, -1}, float[4] n = {1, 1, 2, 2}>")
    model = parse(f"""(uint8[1,2,3,3] x, uint8[1,2,3,3] v) => (float[a,b] e) {grids}
        {{ m = com.microsoft.QLinearMul(x, s, z, v, s, z, t, u) {moves} }}""")
    rng = np.random.default_rng(0)
    feed = {name: rng.integers(0, 30, (1, 2, 3, 3)).astype(np.uint8) for name in "xv"}
    (old,) = run(model, feed)
    assert ExpandQlinear().call(model).modified
    np.testing.assert_allclose(run(model, feed)[0], old, atol=0.21)
    movers = [
        n for n in model.graph if n.op_type in ("Reshape", "Flatten", "MaxPool", "Resize")
    ]
    assert {node.outputs[0].dtype for node in movers} == {ir.DataType.FLOAT}
    assert not ExpandQlinear().call(model).modified


@each_row("""node | reason
- y = com.microsoft.QLinearGlobalAveragePool <channels_last = 1> (x, s, z, t, u) | whose
  channels come last
- y = com.microsoft.QLinearSoftmax <axis = 1, opset = 11> (x, s, z, t, u) | which are not along
  the last axis
""")
def test_what_stays_is_named(node, reason):
    model = parse(f"(uint8[1,2,3,4] x) => (uint8[a,b,c,d] y) {GRIDS} {{ {node} }}")
    pass_ = ExpandQlinear()
    assert not pass_.call(model).modified
    assert any(reason in note for note in pass_.context.notes)
