"""A quantised network becomes integers between thresholds, and every step is verified."""

from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
from onnx import helper, numpy_helper

from onnx_passes.ops.bodies import CUSTOM, QONNX
from tests.corpus.topologies import Layers
from tests.tables import each_of


class Network(Layers):
    """Write a network as Brevitas exports it, whose weights are inputs as well."""

    def __init__(self, opset=11):
        super().__init__([])
        self.opset, self.rng = opset, np.random.default_rng(7)

    def tensor(self, value):
        return self.constant(np.asarray(value, np.float32))

    def integer(self, value, kind):
        return self.constant(np.asarray(value, kind))

    def weights(self, *shape, scale=0.1):
        return self.quant(self.tensor(self.rng.normal(0, 0.2, shape)), scale, 2)

    def norm(self, x, channels):
        rows = [self.rng.uniform(low, 1.5, channels) for low in (-1, -0.5, -0.5, 0.2)]
        return self.node("BatchNormalization", x, *map(self.tensor, rows))

    def save(self, shape, output):
        self.shape = shape
        proto = ir.to_proto(self.model(self.node("Identity", output)))
        proto.ir_version, proto.opset_import[0].version = 7, self.opset
        for held in self.constants:
            info = helper.make_tensor_value_info(held.name, held.data_type, held.dims)
            proto.graph.input.append(info)
        onnx.save(proto, "model.onnx")


def residual(net):
    """Two branches whose activations have one scale, joined by a sum."""
    x = net.quant("x", 0.25, 4)
    a = net.node("MatMul", x, net.weights(6, 6))
    a = net.quant(net.norm(a, 6), 0.5, 3)
    b = net.quant(net.node("MatMul", a, net.weights(6, 6)), 0.5, 3)
    x = net.quant(net.node("Add", a, b), 0.5, 3)
    return net.node("MatMul", x, net.weights(6, 4)), [3, 6]


def standard(net):
    """Quantisers of the standard, with zero points that are odd, and an activation by SiLU."""

    def pair(x, scale, zero, kind):
        grid = net.tensor(scale), net.integer(zero, kind)
        q = net.node("QuantizeLinear", x, *grid)
        return net.node("DequantizeLinear", q, *grid)

    def weights(*shape):
        drawn = net.integer(net.rng.integers(-7, 8, shape), np.int8)
        return net.node("DequantizeLinear", drawn, net.tensor(0.0973), net.integer(0, np.int8))

    bias = net.integer(net.rng.integers(-90, 90, 4), np.int32)
    bias = net.node("DequantizeLinear", bias, net.tensor(0.01))
    x = pair("x", 0.0513, 117, np.uint8)
    x = net.node("Conv", x, weights(4, 2, 3, 3), bias)
    x = net.node("Mul", x, net.node("Sigmoid", x))
    x = pair(x, 0.0617, -121, np.int8)
    x = net.node("ConvTranspose", x, weights(4, 3, 2, 2), strides=[2, 2])
    x = pair(net.node("Relu", x), 0.3019, 3, np.uint8)
    sizes = net.tensor([1, 1, 2, 2])
    x = net.node("Resize", x, "", sizes, mode="nearest", nearest_mode="floor")
    x = net.node("Conv", x, weights(2, 3, 3, 3))
    return pair(x, 0.8311, 7, np.uint8), [1, 2, 6, 6]


def thresholds(net):
    """MultiThreshold of QONNX, as FINN writes it."""
    levels = [np.sort(net.rng.normal(0, 1, (c, 7)), axis=1) for c in (4, 1)]
    x = net.quant("x", 0.07, 8)
    x = net.node("Conv", x, net.weights(4, 2, 3, 3))
    options = {"domain": QONNX, "out_dtype": "INT3", "data_layout": "NCHW"}
    x = net.node("MultiThreshold", x, net.tensor(levels[0]), out_bias=-4.0, **options)
    x = net.node("Conv", x, net.weights(3, 4, 3, 3))
    x = net.node("MultiThreshold", x, net.tensor(levels[1]), out_scale=0.5, **options)
    return net.node("Conv", x, net.weights(2, 3, 1, 1)), [1, 2, 8, 8]


def pooled(net):
    """Means that Trunc makes integers of, as Brevitas exports them, and QONNX's operator."""
    x = net.quant("x", 0.11, 4, signed=0)
    x = net.node("AveragePool", x, kernel_shape=[2, 2], strides=[2, 2])
    x = net.node("Mul", x, net.tensor(4))
    grid = [net.tensor(value) for value in (0.11, 0, 6, 4)]
    x = net.node("Trunc", x, *grid, domain=QONNX, rounding_mode="FLOOR")
    x = net.node("Conv", x, net.weights(4, 2, 3, 3), pads=[1, 1, 1, 1])
    x = net.node("Div", net.quant(x, 0.3, 4), net.tensor(0.3))
    sizes = {"kernel": 2, "stride": 1, "ibits": 4, "obits": 4, "signed": 1}
    x = net.node("QuantAvgPool2d", x, domain=QONNX, **sizes)
    x = net.node("Conv", net.node("Mul", x, net.tensor(0.3)), net.weights(3, 4, 3, 3))
    return net.quant(x, 0.4, 3), [1, 2, 12, 12]


@each_of("build", standard, thresholds, pooled)
def test_no_quantiser_is_left(build, cli, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    net = Network(opset=13)
    output, shape = build(net)
    net.save(shape, output)
    done = cli("-c", "streamline", "-o", "out.onnx", "model.onnx")
    assert done.code == 0, done.err
    assert done.err.startswith("VERIFIED")
    Path("check.yaml").write_text(
        "passes: [shape-inference, assert: {integers_between_thresholds: true}]"
    )
    cli("-c", "check.yaml", "-o", "same.onnx", "out.onnx").tells(0)
    kinds = {node.op_type for node in onnx.load("out.onnx").graph.node}
    assert not kinds & {"QuantizeLinear", "DequantizeLinear", "Quant", "Sigmoid", "Relu"}
    assert not kinds & {"Trunc", "AveragePool", "Div"}


def test_integers_stand_between_thresholds(cli):
    net = Network()
    output, shape = residual(net)
    net.save(shape, output)
    done = cli("-c", "streamline", "-o", "out.onnx", "model.onnx")
    assert done.code == 0, done.err
    assert done.err.startswith("VERIFIED")
    made = onnx.load("out.onnx")
    constants = {t.name: numpy_helper.to_array(t) for t in made.graph.initializer}
    noted = {
        a.tensor_name: a.quant_parameter_tensor_names[0].value
        for a in made.graph.quantization_annotation
    }
    kinds = [node.op_type for node in made.graph.node]
    assert "Quant" not in kinds
    assert kinds.count("MultiThreshold") == 4
    for node in made.graph.node:
        if node.op_type == "MatMul":
            weights = constants[node.input[1]]
            np.testing.assert_array_equal(weights, np.rint(weights))
            assert noted[node.input[0]].startswith(("INT", "UINT", "TERNARY"))
            assert noted[node.output[0]].startswith("INT")
        if node.op_type == "MultiThreshold":
            assert node.domain == CUSTOM
    assert "Mul" not in kinds[: kinds.index("MatMul")]
    assert kinds.count("Mul") <= 1, "the scale of the outputs"
    # What it is made of runs elsewhere.
    session = onnxruntime.InferenceSession("out.onnx", providers=["CPUExecutionProvider"])
    (value,) = session.get_inputs()
    found = session.run(None, {value.name: np.ones(shape, np.float32)})[0]
    assert found.shape == (3, 4)
    assert np.isfinite(found).all()
