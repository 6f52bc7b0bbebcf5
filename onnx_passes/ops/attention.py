"""Attention and RotaryEmbedding on tensors of rank 4, without caches."""

from __future__ import annotations

import math

import numpy as np
import onnx_ir as ir

from onnx_passes.ops.base import operator
from onnx_passes.ops.call import Call, Tensor
from onnx_passes.ops.semantics import Elements, Unsupported, is_float, scalars


@operator("RotaryEmbedding")
def _(call: Call) -> Tensor:
    x, cos, sin = (call.required(i) for i in range(3))
    if call.given(3) is not None or call.integer("interleaved", 0):
        raise Unsupported("RotaryEmbedding with positions, or of neighbours")
    if len(x.shape) != 4 or call.integer("rotary_embedding_dim", 0):
        raise Unsupported("RotaryEmbedding of this rank, or of a part")
    if not call.semantics.expands:
        raise Unsupported("the rounding of RotaryEmbedding")
    a, half = call.primitives(x.dtype), x.shape[3] // 2
    result = np.empty(x.shape, np.object_)
    for n, h, s, k in np.ndindex(*x.shape[:3], half):
        low, high = x.data[n, h, s, k], x.data[n, h, s, k + half]
        c, t = cos.data[n, s, k], sin.data[n, s, k]
        result[n, h, s, k] = a.sub(a.mul(c, low), a.mul(t, high))
        result[n, h, s, k + half] = a.add(a.mul(t, low), a.mul(c, high))
    return Tensor(result, x.dtype)


@operator("Attention")
def _(call: Call) -> Tensor:
    q, k, v = (call.required(i) for i in range(3))
    others = [call.given(i) for i in range(4, len(call.inputs))]
    used = [o for o in call.node.outputs[1:] if o.uses() or o.is_graph_output()]
    if used or any(o is not None for o in others) or {len(t.shape) for t in (q, k, v)} != {4}:
        raise Unsupported("Attention with a cache, or of rank 3")
    if 0 in (*q.shape, *k.shape, *v.shape):
        raise Unsupported("Attention over nothing")
    if call.number("softcap", 0.0) or call.integer("is_causal", 0):
        raise Unsupported("Attention with a cap, or causal")
    if not call.semantics.expands:
        raise Unsupported("the rounding of Attention")
    heads = q.shape[1] // k.shape[1]
    shape = (*q.shape[:3], v.shape[3])
    mask, result = _mask(call, (*q.shape[:3], k.shape[2])), np.empty(shape, np.object_)
    for n, h, s in np.ndindex(*q.shape[:3]):
        own = h // heads
        bias = None if mask is None else mask[n, h, s, ...]
        weights = _weights(call, q, k, (n, h, s), bias)
        for e in range(v.shape[3]):
            result[n, h, s, e] = call.semantics.dot(weights, v.data[n, own, :, e], v.dtype)
    return Tensor(result, v.dtype)


def _weights(
    call: Call, q: Tensor, k: Tensor, place: tuple[int, int, int], bias: Elements | None
) -> list[object]:
    """Return the softmax of the scores of one query."""
    (n, h, s), a = place, call.primitives(q.dtype)
    own = h // (q.shape[1] // k.shape[1])
    scale = call.number("scale", 1 / math.sqrt(q.shape[3]))
    powers = []
    for t in range(k.shape[2]):
        product = call.semantics.dot(q.data[n, h, s], k.data[n, own, t], q.dtype)
        score = a.mul(product, scale)
        powers.append(a.exp(score if bias is None else a.add(score, bias[t])))
    total = call.semantics.total(powers, q.dtype)
    return [a.div(power, total) for power in powers]


def _mask(call: Call, shape: tuple[int, ...]) -> Elements | None:
    """Return what is added to the scores."""
    mask = call.given(3)
    if mask is None:
        return None
    if not is_float(mask.dtype) or mask.dtype is ir.DataType.BOOL:
        raise Unsupported("Attention with a mask that chooses")
    if mask.shape[-1] != shape[-1]:
        raise Unsupported("Attention with a mask that is padded")
    whole = np.broadcast_to(mask.data, shape)
    return scalars(list(whole.reshape(-1)), shape)
