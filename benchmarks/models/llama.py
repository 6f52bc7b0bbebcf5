"""A Llama-like decoder: RMSNorm, rotary positions, grouped queries, gated SiLU."""

from __future__ import annotations

import numpy as np
import onnx

from benchmarks.models.builder import BOOL, FLOAT, INT64, GraphBuilder

OPSET = 17
THETA = 10000.0
END = np.iinfo(np.int64).max


def rms_norm(b: GraphBuilder, x: str, hidden: int) -> str:
    """Divide by the root of the mean square; with the casts that mixed precision leaves."""
    x = b.node("Cast", x, to=FLOAT)
    mean = b.node("ReduceMean", b.node("Pow", x, b.constant(2.0)), axes=[-1], keepdims=1)
    root = b.node("Sqrt", b.node("Add", mean, b.constant(1e-5)))
    normal = b.node("Mul", x, b.node("Div", b.constant(1.0), root))
    weight = b.normal("weight", hidden, mean=1.0, std=0.1)
    return b.node("Mul", weight, b.node("Cast", normal, to=FLOAT))


def _rotate(b: GraphBuilder, x: str, cos: str, sin: str, width: int) -> str:
    """Rotate pairs of features by the angle of their position."""
    axis = b.constant([3], np.int64)

    def part(start: int, end: int) -> str:
        bounds = (b.constant([value], np.int64) for value in (start, end))
        return b.node("Slice", x, *bounds, axis)

    low, high = part(0, width // 2), part(width // 2, END)
    turned = b.node("Concat", b.node("Neg", high), low, axis=-1)
    return b.node("Add", b.node("Mul", x, cos), b.node("Mul", turned, sin))


def _repeat(b: GraphBuilder, x: str, groups: int, sizes: tuple[str, int, str, int]) -> str:
    """Give each of ``groups`` query heads its own copy of a key or value head."""
    batch, heads, sequence, width = sizes
    many = [batch, heads, groups, sequence, width]
    shape = b.node(
        "Concat",
        *(s if isinstance(s, str) else b.constant([s], np.int64) for s in many),
        axis=0,
    )
    x = b.node("Expand", b.node("Unsqueeze", x, b.constant([2], np.int64)), shape)
    return b.reshape(x, [batch, heads * groups, sequence, width])


def _attention(
    b: GraphBuilder, x: str, tables: tuple[str, str, str], hidden: int, heads: int, kv: int
) -> str:
    cos, sin, mask = tables
    width = hidden // heads
    batch, sequence = b.size(x, 0), b.size(x, 1)

    def project(name: str, count: int) -> str:
        with b.scope(name):
            y = b.linear(x, hidden, count * width, bias=False)
        y = b.reshape(y, [batch, sequence, count, width])
        return b.node("Transpose", y, perm=[0, 2, 1, 3])

    query = _rotate(b, project("q_proj", heads), cos, sin, width)
    key = _rotate(b, project("k_proj", kv), cos, sin, width)
    sizes = (batch, kv, sequence, width)
    key = _repeat(b, key, heads // kv, sizes)
    value = _repeat(b, project("v_proj", kv), heads // kv, sizes)
    scores = b.node("MatMul", query, b.node("Transpose", key, perm=[0, 1, 3, 2]))
    scores = b.node("Add", b.node("Div", scores, b.constant(width**0.5)), mask)
    weights = b.node("Cast", b.node("Softmax", scores, axis=-1), to=FLOAT)
    mixed = b.node("Transpose", b.node("MatMul", weights, value), perm=[0, 2, 1, 3])
    merged = b.reshape(mixed, [batch, sequence, hidden])
    with b.scope("o_proj"):
        return b.linear(merged, hidden, hidden, bias=False)


def _mlp(b: GraphBuilder, x: str, hidden: int, ffn: int) -> str:
    with b.scope("gate_proj"):
        gate = b.linear(x, hidden, ffn, bias=False)
    with b.scope("up_proj"):
        up = b.linear(x, hidden, ffn, bias=False)
    gated = b.node("Mul", b.node("Mul", gate, b.node("Sigmoid", gate)), up)
    with b.scope("down_proj"):
        return b.linear(gated, ffn, hidden, bias=False)


def _tables(b: GraphBuilder, width: int) -> tuple[str, str, str]:
    """Cosines and sines [1,1,sequence,width] of the positions, and the causal mask."""
    length = b.node("Gather", b.node("Shape", "input_ids"), b.constant(1, np.int64), axis=0)
    zero, one = b.constant(0, np.int64), b.constant(1, np.int64)
    positions = b.node("Range", zero, length, one)
    column = b.node("Unsqueeze", positions, b.constant([1], np.int64))
    row = b.node("Unsqueeze", positions, b.constant([0], np.int64))
    frequencies = THETA ** (-np.arange(0, width, 2, dtype=np.float32) / np.float32(width))
    inverse = b.initializer("inv_freq", frequencies.astype(np.float32))
    angles = b.node("Mul", b.node("Cast", column, to=FLOAT), inverse)
    angles = b.node("Concat", angles, angles, axis=-1)
    axes = b.constant([0, 1], np.int64)
    cos, sin = (b.node("Unsqueeze", b.node(op, angles), axes) for op in ("Cos", "Sin"))
    future = b.node("Less", column, row)
    padded = b.node("Unsqueeze", "attention_mask", b.constant([1, 2], np.int64))
    padded = b.node("Cast", padded, to=BOOL)
    allowed = b.node("And", b.node("Not", future), padded)
    return cos, sin, b.node("Where", allowed, b.constant(0.0), b.constant(-1e9))


def llama_decoder(
    layers: int = 8,
    hidden: int = 1024,
    heads: int = 16,
    kv_heads: int = 4,
    ffn: int = 2816,
    vocab: int = 8000,
    seed: int = 0,
) -> onnx.ModelProto:
    """Build a decoder with random weights; by default about 98 million, 393 MB.

    Inputs ``input_ids`` and ``attention_mask`` are int64 [batch,sequence], ids below
    ``vocab``; output ``logits`` is float32 [batch,sequence,vocab]. Embedding and head share
    their weight.
    """
    b = GraphBuilder(seed)
    embedding = b.normal("embed_tokens.weight", vocab, hidden, std=0.02)
    x = b.node("Gather", embedding, "input_ids")
    tables = _tables(b, hidden // heads)
    for number in range(layers):
        with b.scope(f"layers.{number}"):
            with b.scope("input_layernorm"):
                normal = rms_norm(b, x, hidden)
            with b.scope("self_attn"):
                x = b.node("Add", x, _attention(b, normal, tables, hidden, heads, kv_heads))
            with b.scope("post_attention_layernorm"):
                normal = rms_norm(b, x, hidden)
            with b.scope("mlp"):
                x = b.node("Add", x, _mlp(b, normal, hidden, ffn))
    with b.scope("norm"):
        x = rms_norm(b, x, hidden)
    head = b.node("Transpose", embedding, perm=[1, 0])
    b.node("MatMul", x, head, output="logits")
    return b.model(
        "llama_decoder",
        [(name, INT64, ("batch", "sequence")) for name in ("input_ids", "attention_mask")],
        [("logits", FLOAT, ("batch", "sequence", vocab))],
        OPSET,
    )
