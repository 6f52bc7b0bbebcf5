"""Attention and what belongs to it: formulas of exporters, and the operators themselves."""

from __future__ import annotations

import numpy as np

from onnx_passes.plain import PlainDict
from onnx_passes.verify.models.known_values import BOOL, KnownValue
from onnx_passes.verify.models.planted.plant import FLOAT, Plant, kind_of, planted


def attention(p: Plant) -> KnownValue:
    """The formula of Attention, its scale and mask in any place."""
    batch, heads, rows, width = p.batch(), 4, p.choose(3, 5), 4
    repeated = p.chance(0.25)
    q = p.x(p.dtype(), (batch, heads, rows, width))
    kv = (batch, 2 if repeated else heads, rows, width)
    k, v = p.x(q.dtype, kv), p.x(q.dtype, kv)
    scale = p.choose("product", "quotient", "query", "both", "none")
    if repeated:
        k, v = (_repeated(p, value, batch, rows, width) for value in (k, v))
    if scale in ("query", "both"):
        q = p.op("Mul", q, p.number(0.5, q))
    turned = p.op("Transpose", k, perm=p.other([0, 1, 3, 2], [0, 1, 2, 3]))
    if scale == "both":
        turned = p.op("Mul", turned, p.number(0.5, turned))
    scores = p.op("MatMul", q, turned)
    if scale == "product":
        scores = p.op("Mul", scores, p.number(0.5, scores))
    if scale == "quotient":
        scores = p.op("Div", scores, p.number(2.0, scores))
    guarded = p.chance(0.2)
    if p.chance(0.6):
        scores = p.op("Add", scores, _mask(p, scores, rows, guarded))
    weights = p.op("Softmax", scores, axis=p.axis(3, 4))
    if guarded:
        flag = p.op("IsNaN", weights)
        weights = p.op("Where", flag, p.number(0.0, weights), weights)
    return p.op("MatMul", weights, v)


def _mask(p: Plant, like: KnownValue, rows: int, guarded: bool) -> KnownValue:
    shape = p.other((rows, rows), (1, 1, 1, rows), (1, 1, rows, rows), (rows, 1))
    lowest = -np.inf if guarded or p.miss() else p.choose(-1e4, float(np.finfo("f4").min))
    if p.chance():
        kept = p.scope.input(BOOL, shape)
        return p.op("Where", kept, p.number(0.0, like), p.number(lowest, like))
    kind = kind_of(like.dtype)
    array = np.where(np.tri(shape[-2], shape[-1]), 0, lowest if kind.itemsize > 2 else -100)
    return p.constant(np.broadcast_to(array, shape).astype(kind))


def _repeated(p: Plant, x: KnownValue, batch: int | str, rows: int, width: int) -> KnownValue:
    stacked = p.with_axes("Unsqueeze", x, [2])
    spread = p.op("Expand", stacked, p.ints(1, 2, p.other(2, 3), rows, width))
    first = 0 if isinstance(batch, str) or p.chance() else batch
    return p.op("Reshape", spread, p.ints(first, 4, rows, width))


def rotary(p: Plant) -> KnownValue:
    """The formula of RotaryEmbedding, by Slice or Split."""
    batch, rows, width = p.batch(), 3, p.choose(4, 8)
    x = p.x(p.dtype(), (batch, 2, rows, width))
    cos, sin = (_table(p, x, rows, width) for _ in range(2))
    if p.chance():
        axis, half = p.ints(p.axis(3, 4)), p.ints(width // 2)
        low = p.op("Slice", x, p.ints(0), half, axis)
        high = p.op("Slice", x, half, p.ints(p.choose(width, 2**63 - 1)), axis)
    else:
        given = {"num_outputs": 2} if p.scope.has_attribute("Split", "num_outputs") else {}
        low, high = p.nodes("Split", x, outputs=2, axis=p.axis(3, 4), **given)
    turned = p.op("Concat", p.op("Neg", p.other(high, low)), low, axis=p.axis(3, 4))
    return p.op("Add", p.op("Mul", x, cos), p.op("Mul", turned, sin))


def _table(p: Plant, x: KnownValue, rows: int, width: int) -> KnownValue:
    kind = kind_of(x.dtype)
    half = p.rng.uniform(-1, 1, (rows, width // 2)).astype(kind)
    whole = np.concatenate([half, half + kind.type(p.other(0, 1))], axis=1)
    shape = p.choose((rows, width), (1, rows, width), (1, 1, rows, width))
    if p.chance():
        return p.constant(whole.reshape(shape))
    angles = p.scope.input(x.dtype, (*shape[:-1], width // 2))
    return p.op(p.choose("Cos", "Sin"), p.op("Concat", angles, angles, axis=-1))


def attention_operator(p: Plant) -> KnownValue:
    """Attention as an operator, of rank 3 or 4, with groups, masks and past keys."""
    batch, rows, keys, width = p.choose(1, 2), 3, p.choose(3, 4), 4
    groups = p.choose(2, 4)
    given: PlainDict = {}
    if p.chance():
        q = p.x(FLOAT, (batch, rows, 4 * width))
        k, v = (p.x(FLOAT, (batch, keys, groups * width)) for _ in range(2))
        given = {"q_num_heads": 4, "kv_num_heads": groups}
    else:
        q = p.x(FLOAT, (batch, 4, rows, width))
        k, v = (p.x(FLOAT, (batch, groups, keys, width)) for _ in range(2))
    inputs: list[KnownValue | None] = [q, k, v]
    if p.chance(0.4):
        inputs.append(p.x(p.choose(FLOAT, BOOL), p.choose((rows, keys), (1, 1, rows, keys))))
    given |= {"is_causal": p.choose(None, 1), "scale": p.choose(None, 0.3)}
    given |= {"softcap": p.choose(None, None, 2.0)}
    if len(inputs) == 3 and p.chance(0.3):
        past = [p.x(FLOAT, (batch, groups, 2, width)) for _ in range(2)]
        made = p.nodes("Attention", *inputs, None, *past, outputs=3, **given)
        p.shared.update(value.name for value in made[1:])
        found: KnownValue = made[0]
        return found
    return p.op("Attention", *inputs, **given)


def rotary_operator(p: Plant) -> KnownValue:
    """RotaryEmbedding as an operator, whole or partial, with positions or without."""
    batch, rows, width = p.choose(1, 2), 3, 8
    turned = p.choose(None, 4)
    x = p.x(FLOAT, (batch, 2, rows, width))
    half = (turned or width) // 2
    given = {"interleaved": p.choose(None, 1), "rotary_embedding_dim": turned}
    if turned is not None:
        given["num_heads"] = 2
    if p.chance():
        tables = [p.weights(batch, rows, half) for _ in range(2)]
        return p.op("RotaryEmbedding", x, *tables, **given)
    tables = [p.weights(10, half) for _ in range(2)]
    places = p.constant(p.rng.integers(0, 10, (batch, rows)).astype(np.int64))
    return p.op("RotaryEmbedding", x, *tables, places, **given)


STEPS = tuple(
    planted(form, sealed=True)
    for form in (
        attention, attention, attention, rotary, rotary, attention_operator, rotary_operator,
    )
)  # fmt: skip
"""Steps of this file."""
