"""Small quantised networks, and what finn-plus 1.6.1 made of each on the seed system 0.4.1.

What it made was counted once, since the seed system needed 134, 367 and 587 seconds.
"""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from onnx_passes.ops.bodies.operator_bodies import QONNX

SEED = {
    "mlp": {"MatMul": 2, "integer weights": 2, "UINT3": 1, "UINT2": 1},
    "cnn": {"MatMul": 2, "integer weights": 2, "UINT3": 1, "UINT2": 1, "Im2Col": 2},
    "padded": {"MatMul": 2, "integer weights": 2, "UINT3": 1, "UINT2": 1, "Im2Col": 1},
}
"""Products, those with integer weights, datatypes of thresholds, and Im2Col by network."""


class _Network:
    """Writes nodes as exporters of QONNX do, one after the other."""

    def __init__(self, seed: int) -> None:
        self.rng, self.nodes, self.initializers = np.random.default_rng(seed), [], []

    def constant(self, array: object, kind: type = np.float32) -> str:
        name = f"c{len(self.initializers)}"
        self.initializers.append(numpy_helper.from_array(np.asarray(array, kind), name))
        return name

    def add(self, kind: str, *inputs: str, domain: str = "", **attributes: object) -> str:
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [name], domain=domain, **attributes))
        return name

    def quantise(self, x: str, scale: object, bits: int, signed: int, narrow: int = 0) -> str:
        parameters = map(self.constant, (scale, 0, bits))
        attributes = {"signed": signed, "narrow": narrow, "rounding_mode": "ROUND"}
        return self.add("Quant", x, *parameters, domain=QONNX, **attributes)

    def weights(self, *shape: int) -> str:
        return self.quantise(self.constant(self.rng.normal(size=shape)), 0.37, 3, 1, 1)

    def activate(self, x: str, channels: int) -> str:
        """Normalise, rectify and quantise."""
        rng = self.rng
        scale, term = rng.uniform(0.5, 1.5, channels), rng.normal(size=channels) * 0.3
        mean, variance = rng.normal(size=channels) * 0.2, rng.uniform(0.5, 2, channels)
        parameters = map(self.constant, (scale, term, mean, variance))
        x = self.add("BatchNormalization", x, *parameters)
        return self.quantise(self.add("Relu", x), 0.23, 2, 0)

    def model(self, x: list[int], y: str, out: list[int]) -> onnx.ModelProto:
        self.nodes.append(helper.make_node("Identity", [y], ["y"]))
        ends = [
            [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)]
            for name, shape in (("x", x), ("y", out))
        ]
        graph = helper.make_graph(self.nodes, "main", *ends, self.initializers)
        opsets = [helper.make_opsetid("", 19), helper.make_opsetid(QONNX, 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=9)


def wide() -> onnx.ModelProto:
    """Return a network whose MaxPool pads, with scales of channels of many weights."""
    of = _Network(0)
    x = of.quantise("x", 0.11, 3, 1)
    x = of.activate(of.add("Conv", x, of.weights(128, 2, 1, 1), kernel_shape=[1, 1]), 128)
    x = of.add("MaxPool", x, kernel_shape=[3, 3], strides=[1, 1], pads=[1] * 4)
    weights = of.constant(of.rng.normal(size=(64, 128, 3, 3)))
    weights = of.quantise(weights, of.rng.uniform(0.2, 0.4, (64, 1, 1, 1)), 3, 1, 1)
    x = of.activate(of.add("Conv", x, weights, kernel_shape=[3, 3]), 64)
    x = of.add("MatMul", of.add("Flatten", x), of.weights(256, 3))
    return of.model([1, 2, 4, 4], x, [1, 3])


def network(name: str) -> onnx.ModelProto:
    """Return one of the networks of ``SEED``, always the same."""
    of = _Network(list(SEED).index(name) + 1)
    x = of.quantise("x", 0.11, 3, 1)
    if name == "mlp":
        x = of.activate(of.add("MatMul", x, of.weights(6, 5)), 5)
        return of.model([4, 6], of.add("MatMul", x, of.weights(5, 3)), [4, 3])
    size, pad = (6, 0) if name == "cnn" else (4, 1)
    window = {"kernel_shape": [3, 3], "strides": [1, 1], "pads": [pad] * 4}
    x = of.activate(of.add("Conv", x, of.weights(3, 2, 3, 3), **window), 3)
    if name == "cnn":
        x = of.add("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2])
    depth = 12 if name == "cnn" else 48
    x = of.add("MatMul", of.add("Flatten", x), of.weights(depth, 3))
    return of.model([1, 2, size, size], x, [1, 3])
