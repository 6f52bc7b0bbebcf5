"""Softmax, and what is built on it: attention and losses of classifiers."""

import math
from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from onnx_passes.ops import input_hints as hints
from onnx_passes.ops import versions
from onnx_passes.ops.call import Call, Operands, Tensor
from onnx_passes.ops.domains.intervals import ULPS, Interval, resolution
from onnx_passes.ops.input_hints import first
from onnx_passes.ops.operator_class import Algebra, Composition, Operator, Result
from onnx_passes.ops.reduction import along_axes, finite_top, first_extreme, summed
from onnx_passes.ops.semantics import (
    Elements,
    Misfit,
    Scalar,
    TypedPrimitives,
    Unsupported,
    is_float,
)


class _Normal(Operator, abstract=True):
    """A function of each element and all along an axis, or before opset 13 behind it."""

    changes = versions.SOFTMAX

    def rows(self, call: Call, a: TypedPrimitives, x: Elements) -> Elements:
        raise NotImplementedError

    def cost(self, operands: Operands) -> int | None:
        return operands.counted([operands.sizes(0)], self.evaluate)

    def evaluate(self, call: Call) -> Tensor:
        x = call.required(0)
        rank = len(x.shape)
        axis = call.axis(-1 if call.opset >= 13 else 1, rank)
        axes = [axis] if call.opset >= 13 else list(range(axis, rank))
        return along_axes(call, x, axes, self.op_type, self.rows)


def _lowered(call: Call, a: TypedPrimitives, rows: Elements) -> Elements:
    """Return rows less their greatest element, where powers of them would overflow."""
    if not call.semantics.overflows or not rows.shape[-1]:
        return rows
    return call.semantics.map(a.sub, rows, finite_top(a, rows)[..., None])


def softmax(call: Call, a: TypedPrimitives, rows: Elements) -> Elements:
    """Return exponentials over their sum along the last axis."""
    powers = call.semantics.map(a.exp, _lowered(call, a, rows))
    return call.semantics.map(a.div, powers, summed(call, a.total, powers))


class Softmax(_Normal):
    """Exponentials over their sum."""

    def bounds(self, operands: Operands) -> Interval | None:
        dtype = operands.node.outputs[0].dtype or ir.DataType.FLOAT
        return 0.0, 1.0 + ULPS * resolution(dtype)

    def rows(self, call: Call, a: TypedPrimitives, x: Elements) -> Elements:
        return softmax(call, a, x)


class LogSoftmax(_Normal):
    """The logarithm of the softmax."""

    def rows(self, call: Call, a: TypedPrimitives, x: Elements) -> Elements:
        lowered = _lowered(call, a, x)
        powers = call.semantics.map(a.exp, lowered)
        logs = call.semantics.map(a.log, summed(call, a.total, powers))
        return call.semantics.map(a.sub, lowered, logs)


class Hardmax(_Normal):
    """One at the first of the greatest elements, zeros elsewhere."""

    def bounds(self, operands: Operands) -> Interval | None:
        return 0.0, 1.0

    def rows(self, call: Call, a: TypedPrimitives, x: Elements) -> Elements:
        if not x.shape[-1]:
            return x
        index = call.primitives(ir.DataType.INT64)
        place = call.semantics.along(lambda row: first_extreme(a, index, row), x)
        parts = [
            call.semantics.map(lambda at, i=i: a.select(index.equal(at, i), 1.0, 0.0), place)
            for i in range(x.shape[-1])
        ]
        return np.stack(parts, -1)


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

    def admits(self, use: hints.Use) -> hints.ValueHint | None:
        return hints.below(use.dimension(1, 0)) if use.index == 3 else None

    def suggest(self, c: hints.Choices, index: int, known: hints.Known) -> hints.Operand:
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

    def admits(self, use: hints.Use) -> hints.ValueHint | None:
        return hints.between(1, use.dimension(1, -2) or 1) if use.index == 6 else None

    def suggest(self, c: hints.Choices, index: int, known: hints.Known) -> hints.Operand:
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


class _Loss(Composition, abstract=True):
    """A loss: of the scores [batch, classes, ...], the right classes count."""

    steers = (1,)

    def reduced(self, call: Call, scores: Elements) -> Tensor:
        """Return the loss for the logarithms of probabilities [batch, classes, ...]."""
        x, classes, weight = call.required(0), call.static(1), call.given(2)
        if classes.shape != (*x.shape[:1], *x.shape[2:]):
            raise Misfit(f"classes of {classes.shape} for scores of {x.shape}")
        ignored = call.attribute("ignore_index", None)
        left_out = np.zeros(classes.shape, np.bool_) if ignored is None else classes == ignored
        chosen = np.where(left_out, 0, classes).astype(np.int64)
        if ((chosen < 0) | (chosen >= x.shape[1])).any():
            raise Misfit("a class that there is not")
        a = call.primitives(x.dtype)
        right = np.take_along_axis(scores, chosen[:, None], 1)[:, 0]
        one, zero = (
            call.semantics.constant(np.full(classes.shape, n, x.dtype.numpy()), x.dtype)
            for n in (1, 0)
        )
        weights = (one if weight is None else weight.data[chosen]).copy()
        weights[left_out] = zero[left_out]
        losses = call.semantics.map(lambda s, w: a.mul(a.neg(s), w), right, weights)
        losses = losses.copy()
        losses[left_out] = zero[left_out]
        how = call.text("reduction", "mean")
        if how == "none":
            return Tensor(losses, x.dtype)
        if left_out.all():
            raise Unsupported("the loss of nothing")
        total = call.semantics.along(a.total, losses.reshape(-1))
        if how == "mean":
            whole = call.semantics.along(a.total, weights.reshape(-1))
            total = call.semantics.map(a.div, np.asarray(total), np.asarray(whole))
        return Tensor(np.asarray(total), x.dtype)

    def suggest(self, c: hints.Choices, index: int, known: hints.Known) -> hints.Operand:
        if index == 1:
            return hints.Operand((2,), ir.DataType.INT64, (0, 2), constant=True)
        rows, classes = first(known, (2, 3))[:2]
        return c.data((rows, classes) if index == 0 else (classes,))

    def options(self, name: str, known: hints.Known) -> Sequence[object]:
        return (None, "none", "sum", "mean") if name == "reduction" else ()

    def admits(self, use: hints.Use) -> hints.ValueHint | None:
        return hints.below(use.dimension(0, 1)) if use.index == 1 else None


class NegativeLogLikelihoodLoss(_Loss):
    """What the right classes lack of probability."""

    def computed(self, call: Call) -> Tensor:
        return self.reduced(call, call.required(0).data)


class SoftmaxCrossEntropyLoss(_Loss):
    """What the right classes lack of the probability that a softmax of scores gives them."""

    def computed(self, call: Call) -> Result:
        x = call.required(0)
        scores = along_axes(call, x, [1], self.op_type, LogSoftmax().rows)
        return self.reduced(call, scores.data), scores
