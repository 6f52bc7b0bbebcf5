"""A vision transformer: patches by a convolution, then the layers of the encoder."""

from __future__ import annotations

import numpy as np
import onnx

from benchmarks.models.builder import FLOAT, GraphBuilder
from benchmarks.models.transformer import OPSET, encoder_layer, layer_norm


def vision_transformer(
    layers: int = 12,
    hidden: int = 384,
    heads: int = 6,
    ffn: int = 1536,
    image: int = 224,
    patch: int = 16,
    classes: int = 1000,
    seed: int = 0,
) -> onnx.ModelProto:
    """Build a classifier with random weights; by default as large as ViT-S: 22 million.

    Input ``image`` is float32 [batch,3,image,image], output ``scores`` float32
    [batch,classes]. Patches are averaged ahead of the classifier, and nothing is masked.
    """
    b = GraphBuilder(seed)
    count = (image // patch) ** 2
    kernel = b.normal("patch.weight", hidden, 3, patch, patch, std=(3 * patch**2) ** -0.5)
    cut = b.node("Conv", "image", kernel, kernel_shape=[patch] * 2, strides=[patch] * 2)
    flat = b.reshape(cut, [b.size(cut, 0), hidden, count])
    x = b.node("Transpose", flat, perm=[0, 2, 1])
    x = b.node("Add", x, b.normal("position.weight", 1, count, hidden, std=0.5))
    nothing = b.constant(np.zeros((1, 1, 1, 1)))
    for number in range(layers):
        with b.scope(f"layer.{number}"):
            x = encoder_layer(b, x, nothing, hidden, heads, ffn)
    mean = b.node("ReduceMean", layer_norm(b, x, hidden), axes=[1], keepdims=0)
    with b.scope("head"):
        scores = b.node("MatMul", mean, b.normal("weight", hidden, classes, std=hidden**-0.5))
    b.node("Identity", scores, output="scores")
    return b.model(
        "vision_transformer",
        [("image", FLOAT, ("batch", 3, image, image))],
        [("scores", FLOAT, ("batch", classes))],
        OPSET,
    )
