"""A BERT-like encoder, decomposed as exporters of training frameworks write it."""

from __future__ import annotations

import math

import numpy as np
import onnx

from benchmarks.models.builder import FLOAT, INT64, GraphBuilder

OPSET = 16  # the last without LayerNormalization: exporters had to spell it out
POSITIONS = 512


def layer_norm(b: GraphBuilder, x: str, hidden: int) -> str:
    """Mean and variance by ReduceMean, with epsilon 1e-12 as BERT's."""
    centred = b.node("Sub", x, b.node("ReduceMean", x, axes=[-1], keepdims=1))
    square = b.node("Pow", centred, b.constant(2.0))
    variance = b.node("ReduceMean", square, axes=[-1], keepdims=1)
    deviation = b.node("Sqrt", b.node("Add", variance, b.constant(1e-12)))
    scale = b.normal("LayerNorm.weight", hidden, mean=1.0, std=0.1)
    scaled = b.node("Mul", b.node("Div", centred, deviation), scale)
    return b.node("Add", scaled, b.normal("LayerNorm.bias", hidden, std=0.1))


def gelu(b: GraphBuilder, x: str) -> str:
    """The exact form: x * (erf(x / sqrt(2)) + 1) * 0.5."""
    erf = b.node("Erf", b.node("Div", x, b.constant(math.sqrt(2))))
    return b.node(
        "Mul", b.node("Mul", x, b.node("Add", erf, b.constant(1.0))), b.constant(0.5)
    )


def _attention(b: GraphBuilder, x: str, mask: str, hidden: int, heads: int) -> str:
    width = hidden // heads
    batch, sequence = b.size(x, 0), b.size(x, 1)

    def project(name: str, perm: list[int]) -> str:
        with b.scope(name):
            y = b.linear(x, hidden, hidden)
        return b.node("Transpose", b.reshape(y, [batch, sequence, heads, width]), perm=perm)

    query = project("query", [0, 2, 1, 3])
    key = project("key", [0, 2, 3, 1])
    value = project("value", [0, 2, 1, 3])
    scores = b.node("Div", b.node("MatMul", query, key), b.constant(math.sqrt(width)))
    weights = b.node("Softmax", b.node("Add", scores, mask), axis=-1)
    mixed = b.node("Transpose", b.node("MatMul", weights, value), perm=[0, 2, 1, 3])
    merged = b.reshape(mixed, [batch, sequence, hidden])
    with b.scope("output"):
        return b.node("Dropout", b.linear(merged, hidden, hidden))


def encoder_layer(
    b: GraphBuilder, x: str, mask: str, hidden: int, heads: int, ffn: int
) -> str:
    """Attention and two products, each with a sum and a normalisation behind it."""
    with b.scope("attention"):
        attended = _attention(b, x, mask, hidden, heads)
        x = layer_norm(b, b.node("Add", attended, x), hidden)
    with b.scope("intermediate"):
        wide = gelu(b, b.linear(x, hidden, ffn))
    with b.scope("output"):
        narrow = b.node("Identity", b.linear(wide, ffn, hidden))
        return layer_norm(b, b.node("Add", narrow, x), hidden)


def _embed(b: GraphBuilder, hidden: int, vocab: int) -> str:
    words = b.node("Gather", b.normal("word.weight", vocab, hidden, std=0.05), "input_ids")
    ids = b.initializer("position_ids", np.arange(POSITIONS)[None])
    start, axes = b.constant([0], np.int64), b.constant([1], np.int64)
    used = b.node("Slice", ids, start, b.size("input_ids", 1), axes)
    table = b.normal("position.weight", POSITIONS, hidden, std=0.05)
    return layer_norm(b, b.node("Add", words, b.node("Gather", table, used)), hidden)


def _mask(b: GraphBuilder) -> str:
    """0 where a token may be attended to, -10000 where not: [batch,1,1,sequence]."""
    axes = b.constant([1, 2], np.int64)
    kept = b.node("Cast", b.node("Unsqueeze", "attention_mask", axes), to=FLOAT)
    kept = b.node("Cast", kept, to=FLOAT)
    return b.node("Mul", b.node("Sub", b.constant(1.0), kept), b.constant(-10000.0))


def transformer(
    layers: int = 12,
    hidden: int = 512,
    heads: int = 8,
    ffn: int = 2048,
    vocab: int = 4096,
    seed: int = 0,
) -> onnx.ModelProto:
    """Build an encoder with random weights; by default about 40 million.

    Inputs ``input_ids`` and ``attention_mask`` are int64 [batch,sequence], at most 512 long,
    ids below ``vocab``; outputs ``last_hidden_state`` [batch,sequence,hidden] and
    ``pooler_output`` [batch,hidden] are float32.
    """
    b = GraphBuilder(seed)
    with b.scope("embeddings"):
        x = _embed(b, hidden, vocab)
    mask = _mask(b)
    for number in range(layers):
        with b.scope(f"layer.{number}"):
            x = encoder_layer(b, x, mask, hidden, heads, ffn)
    b.node("Identity", x, output="last_hidden_state")
    with b.scope("pooler"):
        first = b.node("Gather", x, b.constant(0, np.int64), axis=1)
        pooled = b.linear(first, hidden, hidden)
    b.node("Tanh", pooled, output="pooler_output")
    return b.model(
        "transformer",
        [(name, INT64, ("batch", "sequence")) for name in ("input_ids", "attention_mask")],
        [
            ("last_hidden_state", FLOAT, ("batch", "sequence", hidden)),
            ("pooler_output", FLOAT, ("batch", hidden)),
        ],
        OPSET,
    )
