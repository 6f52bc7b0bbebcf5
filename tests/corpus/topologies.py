"""Quantised networks of known forms with random weights, in two halves.

``SEEN`` may be looked at while passes are built. ``HELD_OUT`` is for runs at the end only.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
from onnx import TensorProto, helper, numpy_helper

from onnx_passes.ops.bodies.operator_bodies import QONNX

OPSET = 17


class Layers:
    """A network under construction. Values are names, images ``[N, C, H, W]``.

    Attributes:
        qcdq: Whether quantisers are QuantizeLinear with DequantizeLinear.
        bits: Bits of activations and weights.
    """

    def __init__(self, shape: list[int], *, bits: int = 4, qcdq: bool = False) -> None:
        """Begin with an input of a shape."""
        self.draw = np.random.default_rng(sum(shape) * 31 + bits)
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.shapes = {"x": shape}
        self.qcdq, self.bits = qcdq, bits
        self.shape = shape

    def node(self, kind: str, *inputs: str, domain: str = "", **attributes: Any) -> str:
        """Add a node; return the name of its output."""
        name = f"{kind}_{len(self.nodes)}"
        self.nodes.append(
            helper.make_node(kind, inputs, [name], name=name, domain=domain, **attributes)
        )
        return name

    def constant(self, array: Any) -> str:
        """Add a constant; floats are float32."""
        array = np.asarray(array)
        array = array.astype(np.float32) if array.dtype.kind == "f" else array
        name = f"c_{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(array, name))
        return name

    def quant(self, x: str, scale: Any, bits: int, signed: int = 1, narrow: int = 0) -> str:
        """Quantise as QONNX does."""
        inputs = (self.constant(np.asarray(v, np.float32)) for v in (scale, 0, bits))
        flags = {"signed": signed, "narrow": narrow, "rounding_mode": "ROUND"}
        return self.node("Quant", x, *inputs, domain=QONNX, **flags)

    def scale(self) -> float:
        """Draw a scale."""
        return float(self.draw.uniform(0.05, 0.3))

    def quantise(self, x: str, scale: float | None = None, *, signed: bool = True) -> str:
        """Quantise activations."""
        scale = self.scale() if scale is None else scale
        if self.qcdq:
            zero = self.constant(np.array(0, np.int8 if signed else np.uint8))
            step = self.constant(scale)
            return self.node(
                "DequantizeLinear", self.node("QuantizeLinear", x, step, zero), step, zero
            )
        if self.bits == 1:
            return self.node("BipolarQuant", x, self.constant(scale), domain=QONNX)
        return self.quant(x, scale, self.bits, int(signed))

    def weights(self, *shape: int, axis: int = 0) -> str:
        """Make quantised weights with a scale for each place along an axis."""
        sizes = [n if i == axis else 1 for i, n in enumerate(shape)]
        scale = self.draw.uniform(0.05, 0.3, sizes)
        if self.qcdq:
            integers = self.draw.integers(-127, 128, shape).astype(np.int8)
            zero = self.constant(np.zeros(shape[axis], np.int8))
            steps = self.constant(scale.reshape(-1))
            return self.node(
                "DequantizeLinear", self.constant(integers), steps, zero, axis=axis
            )
        array = self.constant(self.draw.normal(0, 0.6, shape))
        if self.bits == 1:
            return self.node("BipolarQuant", array, self.constant(scale), domain=QONNX)
        return self.quant(array, scale, self.bits, narrow=1)

    def conv(self, x, inputs, outputs, kernel=3, *, group=1, stride=1):
        """Convolve, keeping the size of images but for the stride."""
        w = self.weights(outputs, inputs // group, kernel, kernel)
        return self.node(
            "Conv", x, w, pads=[kernel // 2] * 4, group=group, strides=[stride] * 2
        )

    def dense(self, x: str, inputs: int, outputs: int) -> str:
        """Multiply by a matrix."""
        return self.node("MatMul", x, self.weights(inputs, outputs, axis=1))

    def norm(self, x: str, channels: int) -> str:
        """Normalise over a batch, with negative factors among others."""
        parts = (
            self.draw.normal(0.8, 0.5, channels),
            *self.draw.normal(0, 0.4, (2, channels)),
            self.draw.uniform(0.4, 3, channels),
        )
        return self.node("BatchNormalization", x, *map(self.constant, parts))

    def act(self, x, channels, kind="Relu", scale=None):
        """Normalise, activate and quantise."""
        x = self.norm(x, channels)
        return self.quantise(self.node(kind, x), scale, signed=kind != "Relu")

    def model(self, y: str) -> ir.Model:
        """Return the model that computes a value."""
        source = helper.make_tensor_value_info("x", TensorProto.FLOAT, self.shape)
        result = helper.make_tensor_value_info(y, TensorProto.FLOAT, None)
        graph = helper.make_graph(self.nodes, "network", [source], [result], self.constants)
        imports = [helper.make_opsetid("", OPSET), helper.make_opsetid(QONNX, 1)]
        proto = helper.make_model(graph, opset_imports=imports, ir_version=9)
        found = ir.from_proto(proto)
        found.graph.outputs[0].shape = None
        return found


def residual(*, bits: int = 4, qcdq: bool = False) -> ir.Model:
    """Two residual blocks, the second one with a projection."""
    to = Layers([2, 3, 8, 8], bits=bits, qcdq=qcdq)
    x = to.act(to.conv(to.quantise("x"), 3, 6), 6, scale=0.2)
    for inputs, outputs, stride in ((6, 6, 1), (6, 8, 2)):
        inner = to.act(to.conv(x, inputs, outputs, stride=stride), outputs)
        inner = to.quantise(to.norm(to.conv(inner, outputs, outputs), outputs), 0.15)
        beside = x
        if stride > 1:
            beside = to.norm(to.conv(x, inputs, outputs, 1, stride=stride), outputs)
        beside = to.quantise(beside, 0.15)
        x = to.quantise(to.node("Relu", to.node("Add", inner, beside)), 0.2, signed=False)
    x = to.quantise(to.node("GlobalAveragePool", x), signed=False)
    return to.model(to.dense(to.node("Flatten", x), 8, 5))


def mobile(*, bits: int = 4, qcdq: bool = False) -> ir.Model:
    """Depthwise convolutions and pointwise ones, with Relu6."""
    to = Layers([2, 3, 8, 8], bits=bits, qcdq=qcdq)
    x, channels = to.act(to.conv(to.quantise("x"), 3, 6), 6), 6
    for outputs, stride in ((8, 2), (8, 1), (10, 1)):
        x = to.norm(to.conv(x, channels, channels, group=channels, stride=stride), channels)
        x = to.node("Clip", x, to.constant(0.0), to.constant(6.0))
        x = to.act(to.conv(to.quantise(x, signed=False), channels, outputs, 1), outputs)
        channels = outputs
    x = to.quantise(to.node("AveragePool", x, kernel_shape=[4, 4]), signed=False)
    return to.model(to.dense(to.node("Flatten", x), channels, 5))


def attention(*, bits: int = 4, qcdq: bool = False) -> ir.Model:
    """One head of attention with a Softmax, a residual sum, and two dense layers."""
    to = Layers([2, 6, 8], bits=bits, qcdq=qcdq)
    x = to.quantise("x", 0.1)
    q, k, v = (to.quantise(to.dense(x, 8, 8)) for _ in range(3))
    likeness = to.node("MatMul", q, to.node("Transpose", k, perm=[0, 2, 1]))
    likeness = to.node("Div", likeness, to.constant(np.sqrt(8.0)))
    weights = to.quantise(to.node("Softmax", likeness, axis=-1), 1 / 15, signed=False)
    mixed = to.quantise(to.node("MatMul", weights, v))
    x = to.quantise(to.node("Add", to.quantise(to.dense(mixed, 8, 8), 0.1), x), 0.2)
    hidden = to.quantise(to.node("Relu", to.dense(x, 8, 12)), signed=False)
    return to.model(to.dense(hidden, 12, 4))


def dense_blocks(*, bits: int = 4, qcdq: bool = False) -> ir.Model:
    """Each layer reads all before it, joined along the channels."""
    to = Layers([2, 4, 6, 6], bits=bits, qcdq=qcdq)
    x, channels = to.quantise("x", 0.2, signed=False), 4
    for _ in range(3):
        made = to.act(to.conv(x, channels, 3), 3, scale=0.2)
        x, channels = to.node("Concat", x, made, axis=1), channels + 3
    x = to.node("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2])
    return to.model(to.conv(x, channels, 4, 1))


def keywords(*, bits: int = 4, qcdq: bool = False) -> ir.Model:
    """Convolutions in one dimension, and a mean over time."""
    to = Layers([2, 4, 12], bits=bits, qcdq=qcdq)
    x, channels = to.quantise("x"), 4
    for outputs in (6, 8):
        x = to.node("Conv", x, to.weights(outputs, channels, 3), pads=[1, 1])
        x, channels = to.act(x, outputs), outputs
    x = to.quantise(to.node("ReduceMean", x, axes=[2], keepdims=0), signed=False)
    return to.model(to.dense(x, channels, 5))


def inverted(*, bits: int = 4, qcdq: bool = False) -> ir.Model:
    """Inverted residual blocks: wide inside, linear at their ends."""
    to = Layers([2, 4, 6, 6], bits=bits, qcdq=qcdq)
    x = to.quantise("x", 0.25)
    for _ in range(2):
        inner = to.act(to.conv(x, 4, 8, 1), 8)
        inner = to.act(to.conv(inner, 8, 8, group=8), 8)
        inner = to.quantise(to.norm(to.conv(inner, 8, 4, 1), 4), 0.25)
        x = to.quantise(to.node("Add", x, inner), 0.25)
    return to.model(to.conv(x, 4, 3, 1))


def unet(*, bits: int = 4, qcdq: bool = False) -> ir.Model:
    """Down by pooling, up by ConvTranspose and by nearest Resize, with joins across."""
    to = Layers([2, 3, 8, 8], bits=bits, qcdq=qcdq)
    top = to.act(to.conv(to.quantise("x"), 3, 4), 4, scale=0.2)
    x = to.node("MaxPool", top, kernel_shape=[2, 2], strides=[2, 2])
    x = to.act(to.conv(x, 4, 6), 6)
    up = to.node("ConvTranspose", x, to.weights(6, 4, 2, 2, axis=1), strides=[2, 2])
    up = to.act(up, 4, scale=0.2)
    sizes = to.constant(np.array([1, 1, 2, 2], np.float32))
    coarse = to.node("MaxPool", top, kernel_shape=[2, 2], strides=[2, 2])
    wide = to.node("Resize", coarse, "", sizes, mode="nearest")
    x = to.node("Concat", top, up, wide, axis=1)
    return to.model(to.conv(x, 12, 2, 1))


def squeeze(*, bits: int = 4, qcdq: bool = False) -> ir.Model:
    """Squeeze and excitation: channels are multiplied by what a mean of them decides."""
    to = Layers([2, 6, 6, 6], bits=bits, qcdq=qcdq)
    x = to.act(to.conv(to.quantise("x"), 6, 6), 6, scale=0.2)
    mean = to.quantise(to.node("GlobalAveragePool", x), signed=False)
    small = to.act(to.conv(mean, 6, 3, 1), 3)
    gate = to.quantise(to.node("Sigmoid", to.conv(small, 3, 6, 1)), 1 / 15, signed=False)
    x = to.quantise(to.node("Mul", x, gate), signed=False)
    return to.model(to.conv(x, 6, 4, 1))


def mixer(*, bits: int = 4, qcdq: bool = False) -> ir.Model:
    """Dense layers over tokens and over channels in turns."""
    to = Layers([2, 6, 8], bits=bits, qcdq=qcdq)
    x = to.quantise("x", 0.2)
    turned = to.node("Transpose", x, perm=[0, 2, 1])
    inner = to.quantise(to.node("Relu", to.dense(turned, 6, 10)), signed=False)
    inner = to.node("Transpose", to.dense(inner, 10, 6), perm=[0, 2, 1])
    x = to.quantise(to.node("Add", to.quantise(inner, 0.2), x), 0.2)
    inner = to.quantise(to.node("Tanh", to.dense(x, 8, 12)))
    x = to.quantise(to.node("Add", to.quantise(to.dense(inner, 12, 8), 0.2), x), 0.2)
    return to.model(to.dense(to.node("ReduceMean", x, axes=[1], keepdims=0), 8, 4))


def inception(*, bits: int = 4, qcdq: bool = False) -> ir.Model:
    """Branches of windows of several sizes, joined, then shuffled between groups."""
    to = Layers([2, 4, 6, 6], bits=bits, qcdq=qcdq)
    x = to.quantise("x", signed=False)
    pooled = to.node("MaxPool", x, kernel_shape=[3, 3], strides=[1, 1], pads=[1] * 4)
    branches = [to.conv(x, 4, 4, 1), to.conv(x, 4, 4, 3), to.conv(pooled, 4, 4, 1)]
    x = to.node("Concat", *(to.act(b, 4, scale=0.2) for b in branches), axis=1)
    shapes = ([0, 3, 4, 6, 6], [0, 12, 6, 6])
    x = to.node("Reshape", x, to.constant(np.array(shapes[0])))
    x = to.node("Transpose", x, perm=[0, 2, 1, 3, 4])
    x = to.node("Reshape", x, to.constant(np.array(shapes[1])))
    return to.model(to.conv(x, 12, 6, 3, group=3))


def _of(build: Callable[..., ir.Model], **options: Any) -> Callable[[], ir.Model]:
    return lambda: build(**options)


SEEN: dict[str, Callable[[], ir.Model]] = {
    "residual, 4 bits": _of(residual),
    "residual, 1 bit": _of(residual, bits=1),
    "residual, QCDQ": _of(residual, qcdq=True),
    "mobile, 3 bits": _of(mobile, bits=3),
    "mobile, 2 bits": _of(mobile, bits=2),
    "attention, 4 bits": _of(attention),
    "dense blocks, 4 bits": _of(dense_blocks),
    "keywords, 2 bits": _of(keywords, bits=2),
    "keywords, QCDQ": _of(keywords, qcdq=True),
}

HELD_OUT: dict[str, Callable[[], ir.Model]] = {
    "inverted, 4 bits": _of(inverted),
    "inverted, 2 bits": _of(inverted, bits=2),
    "unet, 4 bits": _of(unet),
    "squeeze, 4 bits": _of(squeeze),
    "mixer, 4 bits": _of(mixer),
    "mixer, 3 bits": _of(mixer, bits=3),
    "inception, 4 bits": _of(inception),
    "inverted, QCDQ": _of(inverted, qcdq=True),
    "attention, 3 bits": _of(attention, bits=3),
}
