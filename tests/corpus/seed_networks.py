"""Small quantised networks, and what finn-plus 1.6.1 made of each on the seed system 0.4.1.

What it made was counted once, since the seed system needed 134, 367 and 587 seconds.
"""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
from onnx import helper

from tests.corpus.topologies import Layers

SEED = {
    "mlp": {"MatMul": 2, "integer weights": 2, "UINT3": 1, "UINT2": 1},
    "cnn": {"MatMul": 2, "integer weights": 2, "UINT3": 1, "UINT2": 1, "Im2Col": 2},
    "padded": {"MatMul": 2, "integer weights": 2, "UINT3": 1, "UINT2": 1, "Im2Col": 1},
}
"""Products, those with integer weights, datatypes of thresholds, and Im2Col by network."""


class _Network(Layers):
    """Writes nodes as exporters of QONNX do, one after the other."""

    def __init__(self, seed: int, shape: list[int]) -> None:
        super().__init__(shape)
        self.draw = np.random.default_rng(seed)

    def matrix(self, *shape: int) -> str:
        return self.quant(self.constant(self.draw.normal(size=shape)), 0.37, 3, 1, 1)

    def activate(self, x: str, channels: int) -> str:
        """Normalise, rectify and quantise."""
        draw = self.draw
        scale, term = draw.uniform(0.5, 1.5, channels), draw.normal(size=channels) * 0.3
        mean, variance = draw.normal(size=channels) * 0.2, draw.uniform(0.5, 2, channels)
        parameters = map(self.constant, (scale, term, mean, variance))
        x = self.node("BatchNormalization", x, *parameters)
        return self.quant(self.node("Relu", x), 0.23, 2, 0)

    def proto(self, y: str, out: list[int]) -> onnx.ModelProto:
        made = ir.to_proto(self.model(self.node("Identity", y)))
        made.opset_import[0].version = 19
        made.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", 1, out))
        made.graph.node[-1].output[0] = "y"
        return made


def wide() -> onnx.ModelProto:
    """Return a network whose MaxPool pads, with scales of channels of many weights."""
    of = _Network(0, [1, 2, 4, 4])
    x = of.quant("x", 0.11, 3)
    x = of.activate(of.node("Conv", x, of.matrix(128, 2, 1, 1), kernel_shape=[1, 1]), 128)
    x = of.node("MaxPool", x, kernel_shape=[3, 3], strides=[1, 1], pads=[1] * 4)
    weights = of.constant(of.draw.normal(size=(64, 128, 3, 3)))
    weights = of.quant(weights, of.draw.uniform(0.2, 0.4, (64, 1, 1, 1)), 3, 1, 1)
    x = of.activate(of.node("Conv", x, weights, kernel_shape=[3, 3]), 64)
    x = of.node("MatMul", of.node("Flatten", x), of.matrix(256, 3))
    return of.proto(x, [1, 3])


def network(name: str) -> onnx.ModelProto:
    """Return one of the networks of ``SEED``, always the same."""
    size, pad = (6, 0) if name == "cnn" else (4, 1)
    shape = [4, 6] if name == "mlp" else [1, 2, size, size]
    of = _Network(list(SEED).index(name) + 1, shape)
    x = of.quant("x", 0.11, 3)
    if name == "mlp":
        x = of.activate(of.node("MatMul", x, of.matrix(6, 5)), 5)
        return of.proto(of.node("MatMul", x, of.matrix(5, 3)), [4, 3])
    window = {"kernel_shape": [3, 3], "strides": [1, 1], "pads": [pad] * 4}
    x = of.activate(of.node("Conv", x, of.matrix(3, 2, 3, 3), **window), 3)
    if name == "cnn":
        x = of.node("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2])
    depth = 12 if name == "cnn" else 48
    x = of.node("MatMul", of.node("Flatten", x), of.matrix(depth, 3))
    return of.proto(x, [1, 3])
