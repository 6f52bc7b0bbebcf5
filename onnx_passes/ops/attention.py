"""Attention and RotaryEmbedding on tensors of rank 4."""

from __future__ import annotations

import math

import numpy as np
import onnx_ir as ir

from onnx_passes.ops.call import Call, Tensor
from onnx_passes.ops.input_hints import ValueHint, between
from onnx_passes.ops.operands import Operands
from onnx_passes.ops.operator_class import Algebra, Operator, Result
from onnx_passes.ops.semantics import Elements, Misfit, Scalar, Unsupported, is_float
from onnx_passes.ops.softmax import softmax
from onnx_passes.ops.suggestions import Choices, Known, Operand, first
from onnx_passes.ops.use import Use, below


class RotaryEmbedding(Operator):
    """The two halves of the last axis, turned by an angle for each place."""

    algebra = Algebra(linear=(0,))
    steers = (3,)

    def cost(self, operands: Operands) -> int | None:
        return 3 * operands.made()

    def evaluate(self, call: Call) -> Tensor:
        x, cos, sin = (call.required(i) for i in range(3))
        if call.given(3) is not None or call.flag("interleaved"):
            raise Unsupported("RotaryEmbedding with positions, or of neighbours")
        if len(x.shape) != 4 or call.integer("rotary_embedding_dim", 0):
            raise Unsupported("RotaryEmbedding of this rank, or of a part")
        if not call.semantics.expands:
            raise Unsupported("the rounding of RotaryEmbedding")
        a, half = call.primitives(x.dtype), x.shape[3] // 2
        angles = (x.shape[0], x.shape[2], half)
        if cos.shape != angles or sin.shape != angles:
            raise Misfit(f"RotaryEmbedding by angles of {cos.shape} and {sin.shape}")

        def first(low: Scalar, high: Scalar, c: Scalar, t: Scalar) -> Scalar:
            return a.sub(a.mul(c, low), a.mul(t, high))

        def second(low: Scalar, high: Scalar, c: Scalar, t: Scalar) -> Scalar:
            return a.add(a.mul(t, low), a.mul(c, high))

        sides = (x.data[..., :half], x.data[..., half:], cos.data[:, None], sin.data[:, None])
        parts = [call.semantics.map(turn, *sides) for turn in (first, second)]
        return Tensor(np.concatenate(parts, -1), x.dtype)

    def admits(self, use: Use) -> ValueHint | None:
        return below(use.dimension(1, 0)) if use.index == 3 else None

    def suggest(self, c: Choices, index: int, known: Known) -> Operand:
        return c.data((2, 3, 4, 6) if index == 0 else (2, 4, 3))


class Attention(Operator):
    """Means of values, weighted by how queries and keys agree."""

    algebra = Algebra(linear=(2,))
    steers, computed_in = (6,), ir.DataType.FLOAT

    def cost(self, operands: Operands) -> int | None:
        query, key, value = (operands.sizes(i) for i in range(3))
        given, past = operands.node.attributes, 0
        if len(query) == 3:
            heads, shared = given.get_int("q_num_heads", 0), given.get_int("kv_num_heads", 0)
            if not heads or not shared:
                return None
            query = [query[0], heads, query[1], query[2] // heads]
            key = [key[0], shared, key[1], key[2] // shared]
            value = [value[0], shared, value[1], value[2] // shared]
        if operands.given(4):
            past = operands.sizes(4)[2]
        scores = math.prod(query[:3]) * (key[2] + past)
        return scores * (2 * query[3] + 2 * value[3] + 1 + 5)  # scaled, softmax over them

    def evaluate(self, call: Call) -> Result:
        q, k, v = (call.required(i) for i in range(3))
        past, lengths = (call.given(4), call.given(5)), call.given(6)
        used = [o for o in call.node.outputs[3:] if o.uses() or o.is_graph_output()]
        ranks = {len(t.shape) for t in (q, k, v)}
        if used or lengths is not None or ranks != {4}:
            raise Unsupported("Attention with lengths, of rank 3, or whose scores are read")
        if (past[0] is None) != (past[1] is None):
            raise Misfit("Attention with half a cache")
        k, v = (
            t if p is None else Tensor(np.concatenate([p.data, t.data], 2), t.dtype)
            for p, t in zip(past, (k, v), strict=True)
        )
        if call.number("q_num_heads", 0) or call.number("kv_num_heads", 0):
            # ONNX Runtime 1.31.1 then returns rank 3 for some heads.
            raise Unsupported("Attention of rank 4 that names its heads")
        if 0 in (*q.shape, *k.shape, *v.shape):
            raise Unsupported("Attention over nothing")
        fits = q.shape[0] == k.shape[0] == v.shape[0] and q.shape[1] % k.shape[1] == 0
        if not fits or k.shape[1:3] != v.shape[1:3] or q.shape[3] != k.shape[3]:
            raise Misfit(f"Attention of {q.shape}, {k.shape} and {v.shape}")
        windows = (call.integer(f"{side}_window_size", -1) for side in ("left", "right"))
        if call.number("softcap", 0.0) or call.flag("is_causal") or max(windows) >= 0:
            raise Unsupported("Attention with a cap or a window, or causal")
        if not call.semantics.expands:
            raise Unsupported("the rounding of Attention")
        heads, a = q.shape[1] // k.shape[1], call.primitives(q.dtype)
        scale = call.number("scale", 1 / math.sqrt(q.shape[3]))
        keys, values = (np.repeat(t.data, heads, axis=1) for t in (k, v))
        scores = call.semantics.along(a.dot, q.data[..., None, :], keys[:, :, None])
        scores = call.semantics.map(lambda score: a.mul(score, scale), scores)
        mask = _mask(call, scores.shape)
        if mask is not None:
            scores = call.semantics.map(a.add, scores, mask)
        weights = softmax(call, a, scores)[..., None, :]
        columns = np.swapaxes(values, -1, -2)[:, :, None]
        found = call.semantics.along(call.primitives(v.dtype).dot, weights, columns)
        return Tensor(found, v.dtype), k, v

    def admits(self, use: Use) -> ValueHint | None:
        return between(1, use.dimension(1, -2) or 1) if use.index == 6 else None

    def suggest(self, c: Choices, index: int, known: Known) -> Operand:
        q = first(known, (1, 2, 3, 4))
        shapes = ((1, 2, 3, 4), (2, 2, 3, 4), (1, 3, 4, 4))
        if index == 3 and len(q) == 4:
            return c.data((q[2], q[2]))
        return c.data(c.pick(shapes) if index == 0 else q)


def _mask(call: Call, shape: tuple[int, ...]) -> Elements | None:
    """Return what is added to the scores."""
    mask = call.given(3)
    if mask is None:
        return None
    if not is_float(mask.dtype) or mask.dtype is ir.DataType.BOOL:
        raise Unsupported("Attention with a mask that chooses")
    if mask.shape[-1] != shape[-1]:
        raise Unsupported("Attention with a mask that is padded")
    return np.broadcast_to(mask.data, shape)
