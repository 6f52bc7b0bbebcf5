"""Operators whose results are in an order, or of a size, that the elements decide."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from onnx_passes.arrays import Array
from onnx_passes.ops.call import Call, Tensor, constant
from onnx_passes.ops.composition import Composition
from onnx_passes.ops.input_hints import ValueHint, between, exactly
from onnx_passes.ops.operands import Operands
from onnx_passes.ops.operator_class import Result
from onnx_passes.ops.rows import gathered
from onnx_passes.ops.sampling import boxes
from onnx_passes.ops.semantics import Misfit, Unsupported, columns
from onnx_passes.ops.suggestions import Choices, Known, Operand, first
from onnx_passes.ops.use import Use, below

MOST_COMPARISONS = 20_000
"""Comparisons of whole columns above which a sort is not worth evaluating."""


class TopK(Composition):
    """The greatest or least elements along an axis, and their places."""

    steers, chooses, in_range = (1,), (0,), (1,)

    def cost(self, operands: Operands) -> int | None:
        shape = operands.sizes(0)
        length = shape[operands.node.attributes.get_int("axis", -1)] if shape else 1
        return operands.elements(0) * max(1, (length - 1).bit_length())  # a comparison sort

    def computed(self, call: Call) -> Result:
        x = call.required(0)
        given = call.given(1) is not None
        k = call.static_ints(1)[0] if given else call.integer("k", 0)
        axis, largest = call.axis(-1, len(x.shape)), call.flag("largest", 1)
        size = x.shape[axis]
        if not 0 <= k <= size:
            raise Misfit(f"the first {k} of {size}")
        if not call.flag("sorted", 1):
            raise Unsupported("TopK in any order")
        if k * size > MOST_COMPARISONS:
            raise Unsupported(f"a sort of {size} elements")
        a, index = call.primitives(x.dtype), call.primitives(ir.DataType.INT64)
        rows, outer = gathered(x.data, [axis])
        parts = columns(rows)
        places = [
            constant(np.full(outer, i), ir.DataType.INT64, call.semantics).data
            for i in range(size)
        ]
        across = call.semantics.map
        for done in range(k):
            # The first of equal elements stays before the others.
            for at in range(size - 1, done, -1):
                pair = (parts[at - 1], parts[at])
                better = across(a.less, *(pair if largest else pair[::-1]))
                parts[at - 1], parts[at] = (
                    across(a.select, better, *order) for order in (pair[::-1], pair)
                )
                pair = (places[at - 1], places[at])
                places[at - 1], places[at] = (
                    across(index.select, better, *order) for order in (pair[::-1], pair)
                )
        empty = np.empty((*outer, 0), rows.dtype)
        found = np.stack(parts[:k], -1) if k else empty
        where = np.stack(places[:k], -1) if k else np.empty((*outer, 0), np.int64)
        return (
            Tensor(np.moveaxis(found, -1, axis), x.dtype),
            Tensor(np.moveaxis(where, -1, axis), ir.DataType.INT64),
        )

    def admits(self, use: Use) -> ValueHint | None:
        data, output, axis = use.input_shape(0), use.output_shape(), use.integer("axis", -1)
        if use.index != 1:
            return None
        if output is not None:
            return exactly([output[axis]])
        return exactly([1 if data is None else min(2, data[axis])])

    def suggest(self, c: Choices, index: int, known: Known) -> Operand | None:
        return c.integers(c.pick((1, 2))) if index == 1 else None


class NonZero(Composition):
    """The places of elements that are not zero."""

    free, in_range = True, (0,)

    def computed(self, call: Call) -> Tensor:
        x = call.static(0)
        if not x.ndim:
            raise Unsupported("NonZero of a scalar")
        places = np.array(np.nonzero(x), np.int64).reshape(x.ndim, -1)
        return constant(places, ir.DataType.INT64, call.semantics)


class Unique(Composition):
    """The elements or slices that differ, and where they are."""

    chooses, in_range = (0,), (1, 2, 3)

    def computed(self, call: Call) -> Result:
        x, given = call.static(0), call.attribute("axis", None)
        axis = None if given is None else call.axis(0, x.ndim)
        if axis is not None and not x.size:
            raise Unsupported("slices of nothing")
        parts = np.unique(
            x, return_index=True, return_inverse=True, return_counts=True, axis=axis
        )
        found, at, inverse, counts = parts
        order = np.arange(len(at)) if call.flag("sorted", 1) else np.argsort(at)
        rank = np.argsort(order)
        found = np.take(found, order, 0 if axis is None else axis)
        others = (at[order], rank[inverse.reshape(-1)], counts[order])
        dtype = call.required(0).dtype
        return (
            constant(np.asarray(found).astype(x.dtype), dtype, call.semantics),
            *(
                constant(each.astype(np.int64), ir.DataType.INT64, call.semantics)
                for each in others
            ),
        )


class TensorScatter(Composition):
    """A cache with an update written at a place."""

    free, steers, rounds = True, (2,), False

    def computed(self, call: Call) -> Tensor:
        cache, update = call.required(0), call.required(1)
        axis = call.axis(-2, len(cache.shape))
        starts = [0] * cache.shape[0] if call.given(2) is None else call.static_ints(2)
        size, length = cache.shape[axis], update.shape[axis]
        data = np.moveaxis(cache.data, axis, 1).copy()
        written = np.moveaxis(update.data, axis, 1)
        for sample, start in enumerate(starts):
            places = np.arange(start, start + length)
            if call.text("mode", "linear") == "circular":
                places %= size
            elif length and (start < 0 or places[-1] >= size):
                raise Misfit(f"an update at {start} of {size}")
            data[sample, places] = written[sample]
        return Tensor(np.moveaxis(data, 1, axis), cache.dtype)

    def admits(self, use: Use) -> ValueHint | None:
        axis = use.integer("axis", -2)
        cache, update = use.dimension(0, axis), use.dimension(1, axis)
        size = None if cache is None or update is None else cache - update + 1
        return below(size) if use.index == 2 else None

    def suggest(self, c: Choices, index: int, known: Known) -> Operand:
        cache = first(known, (2, 3, 4, 5))
        if index == 2:
            return Operand(cache[:1], ir.DataType.INT64, (0,) * cache[0], constant=True)
        return c.data((2, 3, 4, 5) if index == 0 else (*cache[:-2], 2, cache[-1]))

    def options(self, name: str, known: Known) -> Sequence[object]:
        found: dict[str, Sequence[object]] = {
            "axis": (-2, 2),
            "mode": ("linear", "circular"),
        }
        return found.get(name, ())


class BitCast(Composition):
    """The same bits as another type."""

    free, rounds = True, False

    def computed(self, call: Call) -> Tensor:
        x, target = call.required(0), ir.DataType(call.integer("to", 0))
        if x.dtype is target:
            return x
        numbers = call.static(0).astype(x.dtype.numpy())
        if x.dtype.itemsize != target.itemsize:
            raise Misfit(f"the bits of {x.dtype.name} as {target.name}")
        found = np.ascontiguousarray(numbers).view(target.numpy())
        return constant(found.reshape(x.shape), target, call.semantics)

    def options(self, name: str, known: Known) -> Sequence[object]:
        return (1, 6, 12, 7, 11, 2, 3, 4, 5) if name == "to" else ()


class NonMaxSuppression(Composition):
    """The boxes of great scores that do not overlap with better ones, and their places."""

    in_range = (0,)

    def computed(self, call: Call) -> Tensor:
        boxes, scores = call.static(0), call.static(1)
        most, overlap, least = (
            None if (t := call.given(i)) is None or not t.data.size else call.static(i).flat[0]
            for i in (2, 3, 4)
        )
        found: list[tuple[int, int, int]] = []
        for sample, each in np.ndindex(scores.shape[:2]):
            row = scores[sample, each]
            corners = _corners(boxes[sample], centred=call.flag("center_point_box"))
            order = np.argsort(-row, kind="stable")
            kept: list[int] = []
            for at in order if most else ():
                if least is not None and not row[at] > least:
                    continue
                if len(kept) == most:
                    break
                limit = 0 if overlap is None else overlap
                if all(_overlap(corners[at], corners[k]) <= limit for k in kept):
                    kept.append(int(at))
            found += [(sample, each, at) for at in kept]
        places = np.array(found, np.int64).reshape(-1, 3)
        return constant(places, ir.DataType.INT64, call.semantics)

    def admits(self, use: Use) -> ValueHint | None:
        match use.index:
            case 0:
                return boxes(use)
            case 2:
                return exactly(3)
            case 3:
                return between(0, 1)
        return None

    def suggest(self, c: Choices, index: int, known: Known) -> Operand:
        if index > 2:
            return Operand((1,), ir.DataType.FLOAT, constant=False)
        if index == 2:
            return Operand((1,), ir.DataType.INT64, (c.pick((1, 2, 3)),), constant=True)
        return Operand(((2, 5, 4), (2, 3, 5))[index], ir.DataType.FLOAT, constant=False)


def _corners(boxes: Array, *, centred: bool) -> Array:
    """Return the lower and the upper corner of boxes [n, 4], as [n, 2, 2]."""
    first_two, last_two = boxes[:, :2], boxes[:, 2:]
    if centred:
        half = last_two / 2
        return np.stack([first_two - half, first_two + half], 1)
    ends = np.stack([first_two, last_two], 1)
    return np.sort(ends, axis=1)


def _overlap(one: Array, other: Array) -> float:
    """Return the intersection of two boxes over their union, 0 if either has no area."""
    sides = np.minimum(one[1], other[1]) - np.maximum(one[0], other[0])
    if (sides <= 0).any():
        return 0.0
    shared = sides.prod()
    areas = [(box[1] - box[0]).prod() for box in (one, other)]
    if min(areas) <= 0:
        return 0.0
    return float(shared / (sum(areas) - shared))
