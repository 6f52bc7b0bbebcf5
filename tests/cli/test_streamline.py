"""A quantised network becomes integers between thresholds, and every step is verified."""

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper

from onnx_passes.ops.bodies import CUSTOM, QONNX


class Network:
    """Write a network as Brevitas exports it, node by node."""

    def __init__(self):
        self.nodes, self.tensors, self.rng = [], {}, np.random.default_rng(7)

    def node(self, kind, *inputs, domain="", **attributes):
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [name], domain=domain, **attributes))
        return name

    def tensor(self, value):
        name = f"c{len(self.tensors)}"
        self.tensors[name] = np.asarray(value, np.float32)
        return name

    def quant(self, x, scale, bits, signed=1):
        parameters = [self.tensor(v) for v in (scale, 0, bits)]
        return self.node(
            "Quant",
            x,
            *parameters,
            domain=QONNX,
            signed=signed,
            narrow=0,
            rounding_mode="ROUND",
        )

    def weights(self, *shape, scale=0.1):
        return self.quant(self.tensor(self.rng.normal(0, 0.2, shape)), scale, 2)

    def norm(self, x, channels):
        rows = [self.rng.uniform(low, 1.5, channels) for low in (-1, -0.5, -0.5, 0.2)]
        return self.node("BatchNormalization", x, *map(self.tensor, rows))

    def save(self, x, output):
        self.nodes.append(helper.make_node("Identity", [output], ["y"]))
        infos = [helper.make_tensor_value_info("x", 1, x)]
        infos += [
            helper.make_tensor_value_info(k, 1, v.shape) for k, v in self.tensors.items()
        ]
        graph = helper.make_graph(
            self.nodes,
            "network",
            infos,
            [helper.make_tensor_value_info("y", 1, None)],
            [numpy_helper.from_array(v, k) for k, v in self.tensors.items()],
        )
        del graph.output[0].type.tensor_type.shape.dim[:]
        graph.output[0].type.tensor_type.ClearField("shape")
        imports = [helper.make_opsetid("", 11), helper.make_opsetid(QONNX, 1)]
        onnx.save(helper.make_model(graph, opset_imports=imports, ir_version=7), "model.onnx")


def convolutional(net):
    """Convolutions with weights per channel, pooling, and a dense layer behind them."""
    scales = net.rng.uniform(0.05, 0.2, (4, 1, 1, 1)).astype(np.float32)
    x = net.quant("x", 0.05, 4)
    x = net.node("Conv", x, net.weights(4, 2, 3, 3, scale=scales))
    x = net.quant(net.norm(x, 4), 0.3, 2)
    x = net.node("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2])
    x = net.node("Conv", x, net.weights(3, 4, 2, 2), pads=[1, 1, 1, 1])
    x = net.quant(net.node("Relu", net.norm(x, 3)), 0.2, 3, signed=0)
    x = net.node("Flatten", x)
    return net.node("MatMul", x, net.weights(48, 5)), [1, 2, 8, 8]


def residual(net):
    """Two branches whose activations have one scale, joined by a sum."""
    x = net.quant("x", 0.25, 4)
    a = net.node("MatMul", x, net.weights(6, 6))
    a = net.quant(net.norm(a, 6), 0.5, 3)
    b = net.quant(net.node("MatMul", a, net.weights(6, 6)), 0.5, 3)
    x = net.quant(net.node("Add", a, b), 0.5, 3)
    return net.node("MatMul", x, net.weights(6, 4)), [3, 6]


@pytest.mark.parametrize("build", [convolutional, residual])
def test_integers_stand_between_thresholds(build, cli, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    net = Network()
    output, shape = build(net)
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
    assert kinds.count("MultiThreshold") == (3 if build is convolutional else 4)
    for node in made.graph.node:
        if node.op_type in ("MatMul", "Conv"):
            weights = constants[node.input[1]]
            np.testing.assert_array_equal(weights, np.rint(weights))
            assert noted[node.input[0]].startswith(("INT", "UINT", "TERNARY"))
            assert noted[node.output[0]].startswith("INT")
        if node.op_type == "MultiThreshold":
            assert node.domain == CUSTOM
    assert "Mul" not in kinds[: kinds.index("MatMul")]
    assert kinds.count("Mul") <= 1, "the scale of the outputs"


def test_the_result_runs_elsewhere(cli, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    net = Network()
    output, shape = residual(net)
    net.save(shape, output)
    assert cli("-c", "streamline", "-o", "out.onnx", "model.onnx").code == 0
    session = onnxruntime.InferenceSession("out.onnx", providers=["CPUExecutionProvider"])
    (value,) = session.get_inputs()
    found = session.run(None, {value.name: np.ones(shape, np.float32)})[0]
    assert found.shape == (3, 4)
    assert np.isfinite(found).all()
