"""ResNet-50 (He et al., 2015) with random weights and batch normalisation unfused."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import onnx

from benchmarks.models.builder import FLOAT, GraphBuilder

OPSET = 18
STAGES = ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2))
"""Channels inside the bottleneck, blocks and stride of each stage."""


def _conv_bn(
    b: GraphBuilder,
    x: str,
    name: str,
    channels: tuple[int, int],
    gain: float = 1.0,
    **attrs: Any,
) -> str:
    """A convolution without bias and its batch normalisation of scale ``gain``."""
    (before, after), size = channels, attrs.pop("size", 1)
    with b.scope(name):
        std = math.sqrt(2 / (before * size * size))
        weight = b.normal("weight", after, before, size, size, std=std)
        pads = [size // 2] * 4
        x = b.node("Conv", x, weight, kernel_shape=[size, size], pads=pads, **attrs)
        variance = b.rng.uniform(0.5, 1.5, after).astype(np.float32)
        statistics = (
            b.normal("bn.weight", after, mean=gain, std=0.1 * gain),
            b.normal("bn.bias", after, std=0.1),
            b.normal("bn.running_mean", after, std=0.1),
            b.initializer("bn.running_var", variance),
        )
        return b.node("BatchNormalization", x, *statistics, epsilon=1e-5)


def _bottleneck(b: GraphBuilder, x: str, before: int, inner: int, stride: int) -> str:
    after, strides = 4 * inner, [stride, stride]
    y = b.node("Relu", _conv_bn(b, x, "conv1", (before, inner)))
    y = b.node("Relu", _conv_bn(b, y, "conv2", (inner, inner), size=3, strides=strides))
    # A small gain on the branch, as trained networks have, keeps the sum from growing.
    y = _conv_bn(b, y, "conv3", (inner, after), gain=0.2)
    if before != after:
        x = _conv_bn(b, x, "downsample", (before, after), strides=strides)
    return b.node("Relu", b.node("Add", y, x))


def resnet50(seed: int = 0, classes: int = 1000) -> onnx.ModelProto:
    """Build the network of 25.6 million weights (102 MB) in its usual layout.

    Input ``image`` is float32 [batch,3,224,224], about zero mean and unit variance; output
    ``scores`` is float32 [batch,classes].
    """
    b = GraphBuilder(seed)
    x = b.node("Relu", _conv_bn(b, "image", "stem", (3, 64), size=7, strides=[2, 2]))
    x = b.node("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    channels = 64
    for stage, (inner, blocks, stride) in enumerate(STAGES, 1):
        for block in range(blocks):
            with b.scope(f"layer{stage}.{block}"):
                x = _bottleneck(b, x, channels, inner, stride if block == 0 else 1)
            channels = 4 * inner
    x = b.node("Flatten", b.node("GlobalAveragePool", x), axis=1)
    weight = b.normal("fc.weight", classes, channels, std=channels**-0.5)
    bias = b.normal("fc.bias", classes, std=0.02)
    b.node("Gemm", x, weight, bias, transB=1, output="scores")
    return b.model(
        "resnet50",
        [("image", FLOAT, ("batch", 3, 224, 224))],
        [("scores", FLOAT, ("batch", classes))],
        OPSET,
    )
