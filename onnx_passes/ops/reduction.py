"""Operators along axes: reductions, extremes, cumulative sums, and what Softmax builds.

The last are attention and losses of classifiers.
"""

import contextlib
import math
from collections.abc import Callable, Sequence
from typing import ClassVar

import numpy as np
import onnx_ir as ir

from onnx_passes.ops import input_hints as hints
from onnx_passes.ops import versions
from onnx_passes.ops.call import Call, Operands, Tensor, normalize_axis
from onnx_passes.ops.domains.blocks import Blocks, Node, dropped, reduced
from onnx_passes.ops.domains.concrete import CountingSemantics, blank
from onnx_passes.ops.domains.intervals import ULPS, Interval, resolution
from onnx_passes.ops.input_hints import axes, first
from onnx_passes.ops.operator_class import Algebra, Composition, Operator, Result
from onnx_passes.ops.semantics import (
    Elements,
    Misfit,
    Scalar,
    TypedPrimitives,
    Unsupported,
    columns,
    is_float,
)


def gathered(x: Elements, axes: list[int]) -> tuple[Elements, tuple[int, ...]]:
    """Return an array with some axes flattened into one at the end, and the sizes before."""
    rest = [i for i in range(x.ndim) if i not in axes]
    moved = x.transpose([*rest, *axes])
    outer = moved.shape[: len(rest)]
    size = int(np.prod(moved.shape[len(rest) :], dtype=np.int64))
    return moved.reshape((*outer, size)), outer


def finite_top(a: TypedPrimitives, terms: Elements) -> Elements:
    """Return the greatest element along the last axis, within the finite numbers."""
    return np.asarray(a.clip(a.fold("max", terms), *a.extremes()))


def along_axes(
    call: Call,
    x: Tensor,
    axes: list[int],
    label: str,
    function: Callable[[Call, TypedPrimitives, Elements], Elements],
) -> Tensor:
    """Return a tensor whose elements depend on all elements along some axes.

    Axes are counted from the front. ``function`` gets rows [..., n] and returns as many.
    ``label`` names it for an arithmetic that does not expand formulas.
    """
    rest = [i for i in range(len(x.shape)) if i not in axes]
    rows, outer = gathered(x.data, axes)
    a = call.primitives(x.dtype)
    if call.semantics.expands:
        found = function(call, a, rows)
    else:
        found = opaque_rows(call, a, rows, label)
    shape = (*outer, *(x.shape[i] for i in axes))
    return Tensor(found.reshape(shape).transpose(np.argsort([*rest, *axes])), x.dtype)


def opaque_rows(call: Call, a: TypedPrimitives, rows: Elements, label: str) -> Elements:
    """Take each element of a row as a function of the whole row."""
    parts = [
        call.semantics.along(lambda row, i=i: a.function(f"{label}[{i}]", *row), rows)
        for i in range(rows.shape[-1])
    ]
    return np.stack(parts, -1) if parts else rows


def summed(call: Call, function: Callable[..., Scalar], *rows: Elements) -> Elements:
    """Return a function of rows [..., n], as columns that broadcast with them."""
    return call.semantics.along(function, *rows)[..., None]


_RISING = Algebra(monotone={0: 1})


class Reduce(Operator, abstract=True):
    """A Reduce operator: a function of the elements along some axes.

    Where no axes are named that is all of them, or, with ``noop_with_empty_axes``, none.
    """

    changes = versions.REDUCTION

    steers, exact = (1,), (1,)
    # ONNX Runtime adds integers in double precision, and cuts what is too large.
    exact_bits: ClassVar[int | None] = 20

    def row(self, call: Call, a: TypedPrimitives, terms: Elements) -> Scalar:
        """Return what the elements along the last axis become."""
        raise NotImplementedError

    def evaluate(self, call: Call) -> Tensor:
        x = call.required(0)
        rank = len(x.shape)
        given = call.ints_of(1, "axes")
        axes = sorted({normalize_axis(axis, rank) for axis in given or ()})
        if not axes and not call.flag("noop_with_empty_axes"):
            axes = list(range(rank))
        # Over no axes, each element is a row of its own.
        rows, _ = gathered(x.data, axes)
        a = call.primitives(x.dtype)
        found = call.semantics.along(lambda terms: self.row(call, a, terms), rows)
        if call.flag("keepdims", 1):
            found = found.reshape([1 if i in axes else d for i, d in enumerate(x.shape)])
        return Tensor(found, x.dtype)

    def representatives(self, operands: Operands) -> Sequence[Sequence[int]]:
        sizes, axes = operands.sizes(0), operands.axes(1)
        if axes is None and not operands.node.attributes.get_int("noop_with_empty_axes", 0):
            return [sizes, ()]
        kept = {normalize_axis(axis, len(sizes)) for axis in axes or ()}
        return [[d if i in kept else min(d, 1) for i, d in enumerate(sizes)], ()]

    def cost(self, operands: Operands) -> int | None:
        sizes, axes = operands.sizes(0), None
        with contextlib.suppress(Unsupported):  # computed ones hardly change the count
            axes = operands.axes(1)
        rows = math.prod(sizes[i] for i in range(len(sizes)) if axes and i not in axes)
        row = np.broadcast_to(blank(()), (math.prod(sizes) // max(rows, 1),))
        semantics = CountingSemantics()
        dtype = operands.node.inputs[0].dtype if operands.node.inputs[0] else None
        a = TypedPrimitives(semantics, dtype or ir.DataType.FLOAT)
        self.row(operands.call(semantics=semantics), a, row)
        return rows * semantics.count

    def admits(self, use: hints.Use) -> hints.ValueHint | None:
        return _axes(use) if use.index == 1 else None

    def suggest(self, c: hints.Choices, index: int, known: hints.Known) -> hints.Operand:
        return axes(c, index, none=True)


def _axes(use: hints.Use) -> hints.ValueHint:
    data, output, length = use.input_shape(0), use.output_shape(), use.length()
    if data is None:
        return hints.exactly([0])
    if output is None:
        return hints.exactly(range(min(len(data), 1 if length is None else length)))
    axes = _reduced(data, output)
    # Fewer axes than declared: some reduced axes have size 1 already.
    for axis in reversed(range(len(data))):
        if length is not None and len(axes) < length and axis not in axes:
            axes.append(axis)
    return hints.exactly(sorted(axes)[:length])


def _reduced(data: hints.StaticShape, output: hints.StaticShape) -> list[int]:
    if len(data) == len(output):
        return [axis for axis, (d, o) in enumerate(zip(data, output, strict=True)) if d != o]
    axes: list[int] = []
    position = 0
    for axis, size in enumerate(data):
        if position < len(output) and output[position] == size:
            position += 1
        else:
            axes.append(axis)
    return axes


class ReduceSum(Reduce):
    """The sum."""

    changes = versions.REDUCE_SUM

    algebra = Algebra(monotone={0: 1}, linear=(0,))

    def row(self, call: Call, a: TypedPrimitives, terms: Elements) -> Scalar:
        return a.total(terms)

    def blocks(self, node: Node) -> Blocks:
        return _block_sums(node, mean=False)


class ReduceMean(Reduce):
    """The mean, which nothing has none of."""

    algebra = Algebra(monotone={0: 1}, linear=(0,))

    def row(self, call: Call, a: TypedPrimitives, terms: Elements) -> Scalar:
        if not terms.shape[-1]:
            raise Unsupported("the mean of nothing")
        # ONNX Runtime divides the sum it has for ReduceSum, bit for bit.
        return a.div(a.total(terms), float(terms.shape[-1]))

    def blocks(self, node: Node) -> Blocks:
        return _block_sums(node, mean=True)


class _Extreme(Reduce, abstract=True):
    primitive: ClassVar[str]
    algebra = _RISING
    exact_bits = None

    def row(self, call: Call, a: TypedPrimitives, terms: Elements) -> Scalar:
        if not terms.shape[-1]:
            raise Unsupported("the extreme of nothing")
        inexact = is_float(a.dtype) and not call.semantics.expands
        if inexact and terms.shape[-1] > 1:
            # Which NaN a kernel sees depends on its order, so that only a function is known.
            return a.function(f"Reduce_{self.primitive}", *terms)
        return a.fold(self.primitive, terms)


class ReduceMax(_Extreme):
    """The greatest element."""

    primitive = "max"


class ReduceMin(_Extreme):
    """The least element."""

    primitive = "min"


class ReduceProd(Reduce):
    """The product."""

    exact_bits = 4

    def row(self, call: Call, a: TypedPrimitives, terms: Elements) -> Scalar:
        if is_float(a.dtype) and not call.semantics.expands and terms.shape[-1] > 2:
            return a.function("Product", *terms)
        return a.fold("mul", terms) if terms.shape[-1] else a.scalar(1)


class ReduceSumSquare(Reduce):
    """The sum of squares."""

    exact_bits = 10
    algebra = Algebra(even=True)

    def row(self, call: Call, a: TypedPrimitives, terms: Elements) -> Scalar:
        return a.dot(terms, terms)


class ReduceL1(Reduce):
    """The sum of absolute values."""

    algebra = Algebra(even=True)

    def row(self, call: Call, a: TypedPrimitives, terms: Elements) -> Scalar:
        return a.total(call.semantics.map(a.abs, terms))


class ReduceL2(Reduce):
    """The root of the sum of squares."""

    exact_bits = 10
    algebra = Algebra(even=True)

    def row(self, call: Call, a: TypedPrimitives, terms: Elements) -> Scalar:
        return a.sqrt(a.dot(terms, terms))


class ReduceLogSum(Reduce):
    """The logarithm of the sum."""

    algebra = _RISING

    def row(self, call: Call, a: TypedPrimitives, terms: Elements) -> Scalar:
        return a.log(a.total(terms))

    def admits(self, use: hints.Use) -> hints.ValueHint | None:
        return hints.between(0.1, None) if use.index == 0 else super().admits(use)


class ReduceLogSumExp(Reduce):
    """The logarithm of the sum of exponentials."""

    algebra = _RISING

    def row(self, call: Call, a: TypedPrimitives, terms: Elements) -> Scalar:
        semantics = call.semantics
        if is_float(a.dtype) and not semantics.expands:
            return a.function("LogSumExp", *terms)
        if not is_float(a.dtype):
            # Signed and unsigned integers share a sort; their exponentials are not the same.
            return a.function(f"LogSumExp of {a.dtype.name}", *terms)
        if not semantics.overflows or not terms.shape[-1]:
            return a.log(a.total(semantics.map(a.exp, terms)))
        most = finite_top(a, terms)
        powers = semantics.map(lambda t, m: a.exp(a.sub(t, m)), terms, most[..., None])
        return a.add(a.log(a.total(powers)), most)


def _block_sums(node: Node, *, mean: bool) -> Blocks:
    x = node.required(0)
    axes = node.ints(1, "axes")
    if not axes and node.attribute("noop_with_empty_axes", 0):
        return x
    folded = sorted({normalize_axis(a, x.rank) for a in axes or range(x.rank)})
    result = reduced(node, x, folded, mean=mean)
    if node.attribute("keepdims", 1):
        return result
    return dropped(result, [i for i in range(x.rank) if i not in folded])


class _Arg(Operator, abstract=True):
    """The place of an extreme: the first one, or with an attribute the last."""

    in_range = (0,)
    least: ClassVar[bool]

    def cost(self, operands: Operands) -> int | None:
        return operands.elements(0)

    def bounds(self, operands: Operands) -> Interval | None:
        shape = operands.sizes(0)
        size = shape[operands.node.attributes.get_int("axis", 0)] if shape else 1
        return 0.0, float(max(0, size - 1))

    def evaluate(self, call: Call) -> Tensor:
        x = call.required(0)
        axis = call.axis(0, len(x.shape))
        a = call.primitives(x.dtype)
        rows, _ = gathered(x.data, [axis])
        found = call.semantics.along(lambda terms: self._place(call, a, terms), rows)
        if call.flag("keepdims", 1):
            found = np.expand_dims(found, axis)
        return Tensor(found, ir.DataType.INT64)

    def _place(self, call: Call, a: TypedPrimitives, terms: Elements) -> Scalar:
        if not terms.shape[-1]:
            raise Unsupported("the place of the extreme of nothing")
        last, index = call.flag("select_last_index"), call.primitives(ir.DataType.INT64)
        if is_float(a.dtype) and not call.semantics.expands:
            # What a NaN is held for depends on the kernel.
            return index.function(f"{self.op_type}[{last:d}]", *terms)
        return first_extreme(a, index, terms, least=self.least, last=last)


def first_extreme(
    a: TypedPrimitives,
    index: TypedPrimitives,
    row: Elements,
    *,
    least: bool = False,
    last: bool = False,
) -> Scalar:
    """Return the place of the greatest element along the last axis, the first by default."""
    test = a.less_equal if last else a.less
    best, *rest = columns(row)
    place = index.scalar(0)
    for i, term in enumerate(rest, 1):
        better = test(term, best) if least else test(best, term)
        best, place = a.select(better, term, best), index.select(better, i, place)
    return np.broadcast_to(place, np.shape(best)) if np.ndim(best) else place


class ArgMax(_Arg):
    """The place of the greatest element."""

    least = False


class ArgMin(_Arg):
    """The place of the least element."""

    least = True


class _Cumulative(Operator, abstract=True):
    """What the elements up to each place come to."""

    steers = (1,)

    def cost(self, operands: Operands) -> int | None:
        return operands.elements(0)

    def row(self, a: TypedPrimitives, terms: Elements) -> Scalar:
        raise NotImplementedError

    def evaluate(self, call: Call) -> Tensor:
        x = call.required(0)
        axis = normalize_axis(call.static_ints(1)[0], len(x.shape))
        step = -1 if call.flag("reverse") else 1
        moved, a = np.moveaxis(x.data, axis, -1)[..., ::step], call.primitives(x.dtype)
        more = 0 if call.flag("exclusive") else 1
        ends = range(more, moved.shape[-1] + more)
        parts = [
            call.semantics.along(lambda terms: self.row(a, terms), moved[..., :end])
            for end in ends
        ]
        found = np.stack(parts, -1) if parts else moved
        return Tensor(np.moveaxis(found[..., ::step], -1, axis), x.dtype)

    def admits(self, use: hints.Use) -> hints.ValueHint | None:
        shape = use.input_shape(0)
        rank = 1 if shape is None else len(shape)
        return hints.between(0, max(0, rank - 1)) if use.index == 1 else None


class CumSum(_Cumulative):
    """Sums of the elements up to each place."""

    algebra = Algebra(monotone={0: 1}, linear=(0,))

    def row(self, a: TypedPrimitives, terms: Elements) -> Scalar:
        return a.total(terms)


class CumProd(_Cumulative):
    """Products of the elements up to each place."""

    def row(self, a: TypedPrimitives, terms: Elements) -> Scalar:
        shape = terms.shape[:-1]
        if not terms.shape[-1]:
            return np.broadcast_to(a.scalar(1), shape) if shape else a.scalar(1)
        return a.fold("mul", terms)


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
