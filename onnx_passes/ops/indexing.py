"""Operators that select or write elements: by index, by rank, or by a condition."""

import math
from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from onnx_passes.arrays import Array
from onnx_passes.ops import input_hints as hints
from onnx_passes.ops import versions
from onnx_passes.ops.call import Call, Operands, Tensor, constant, normalize_axis
from onnx_passes.ops.movement import Move
from onnx_passes.ops.operator_class import Algebra, Composition, Operator, Result
from onnx_passes.ops.reduction import gathered
from onnx_passes.ops.semantics import Misfit, Unsupported, columns


def _wrapped(indices: Array, size: int) -> Array:
    if ((indices < -size) | (indices >= size)).any():
        raise Misfit("an index outside its axis")
    return np.where(indices < 0, indices + size, indices)


def _columns(call: Call, x: Tensor) -> tuple[Array, ...]:
    """Return the places that the rows of the second operand name, an array by axis."""
    indices = call.static(1).astype(np.int64)
    if not x.shape:
        raise Misfit("it has no axis that an index could name")
    return tuple(_wrapped(indices[..., k], x.shape[k]) for k in range(indices.shape[-1]))


def _grid(call: Call, x: Tensor) -> tuple[Array, ...]:
    """Return places that differ from their own in one axis, where the operand names it."""
    indices = call.static(1).astype(np.int64)
    axis = call.axis(0, len(x.shape))
    grid: list[Array] = list(np.indices(indices.shape))
    grid[axis] = _wrapped(indices, x.shape[axis])
    return tuple(grid)


class Gather(Move):
    """The slices of an axis that indices name."""

    steers = (1,)

    def evaluate(self, call: Call) -> Tensor:
        x, indices = call.required(0), call.static(1).astype(np.int64)
        axis = call.axis(0, len(x.shape))
        wrapped = _wrapped(indices, x.shape[axis])
        # Flat and back again: numpy makes a bare element of what has rank 0.
        taken = np.take(x.data, wrapped.reshape(-1), axis)
        shape = (*x.shape[:axis], *wrapped.shape, *x.shape[axis + 1 :])
        return Tensor(taken.reshape(shape), x.dtype)

    def admits(self, use: hints.Use) -> hints.ValueHint | None:
        return hints.below(use.dimension(0, use.integer("axis"))) if use.index == 1 else None

    def breakpoints(self, use: hints.Use) -> tuple[float, ...]:
        size = use.dimension(0, use.integer("axis"))
        if use.index != 1 or not size:
            return ()
        return (-size, -1.0, 0.0, size - 1.0)

    def suggest(self, c: hints.Choices, index: int, known: hints.Known) -> hints.Operand:
        if index == 0:
            return c.data(c.pick(((4, 3), (3, 2, 3))))
        if c.rng.random() < 0.3:
            return hints.Operand((), ir.DataType.INT64, (c.pick((0, 1, -1)),), True)
        shape = hints.first(known, (4, 3))
        whole = (tuple(range(shape[0])), tuple(range(shape[-1]))) if shape else ()
        return c.integers(*c.pick(((0,), (0, 2), (1, 0, 2), *whole)))


class GatherElements(Gather):
    """The elements of an axis that indices name, each at its place."""

    def evaluate(self, call: Call) -> Tensor:
        x = call.required(0)
        return Tensor(x.data[_grid(call, x)], x.dtype)

    def suggest(self, c: hints.Choices, index: int, known: hints.Known) -> hints.Operand:
        if index == 0:
            return c.data((4, 3))
        shape = hints.first(known, (4, 3))
        places = tuple(c.pick((0, -1)) for _ in range(math.prod(shape)))
        return hints.Operand(shape, ir.DataType.INT64, places, True)


class GatherND(Move):
    """The slices of the first axes that rows of indices name."""

    steers = (1,)

    def evaluate(self, call: Call) -> Tensor:
        x = call.required(0)
        if call.integer("batch_dims", 0):
            raise Unsupported("GatherND with batch_dims")
        return Tensor(x.data[_columns(call, x)], x.dtype)

    def admits(self, use: hints.Use) -> hints.ValueHint | None:
        data, indices = use.input_shape(0), use.shape
        if use.index != 1 or data is None or indices is None:
            return hints.below(None) if use.index == 1 else None
        start = use.integer("batch_dims")
        return hints.between(0, np.asarray(data[start : start + indices[-1]]) - 1)


class _Scatter(Operator, abstract=True):
    """A copy of a tensor with some elements written over."""

    steers = (1,)
    moves = (0, 2)
    algebra = Algebra(monotone={0: 1, 2: 1}, affine=(0, 2))

    def places(self, call: Call, x: Tensor) -> tuple[Array, ...]:
        raise NotImplementedError

    def evaluate(self, call: Call) -> Tensor:
        x, updates = call.required(0), call.required(2)
        if call.text("reduction", "none") != "none":
            raise Unsupported(f"{self.op_type} that combines what it writes")
        data = x.data.copy()
        data[self.places(call, x)] = updates.data
        return Tensor(data, x.dtype)


class ScatterND(_Scatter):
    """A copy with the slices written over that rows of indices name."""

    def places(self, call: Call, x: Tensor) -> tuple[Array, ...]:
        return _columns(call, x)

    def admits(self, use: hints.Use) -> hints.ValueHint | None:
        data, indices = use.input_shape(0), use.shape
        if use.index != 1 or data is None or indices is None:
            return hints.below(None) if use.index == 1 else None
        target = data[: indices[-1]]
        wanted, places = math.prod(indices[:-1]), math.prod(target)
        if wanted > places:
            return hints.between(0, np.asarray(target) - 1)
        chosen = use.rng.choice(places, wanted, replace=False)
        return hints.exactly(np.stack(np.unravel_index(chosen, target), -1).reshape(indices))

    def suggest(self, c: hints.Choices, index: int, known: hints.Known) -> hints.Operand:
        if index == 0:
            return c.data((4, 3))
        data = hints.first(known, (4, 3))
        rows = data[0] if data else 4
        if index == 1:
            # In order, in another one, none at all; of depth 0, which names the whole tensor.
            every = tuple(range(rows))
            shape, places = c.pick(
                (((rows, 1), every), ((rows, 1), every[::-1]), ((0, 1), ()), ((1, 0), ()))
            )
            return hints.Operand(shape, ir.DataType.INT64, places, True)
        indices = known[1] if len(known) > 1 and known[1] else (rows, 1)
        return c.data((*indices[:-1], *data[indices[-1] :]))


class ScatterElements(_Scatter):
    """A copy with the elements written over that indices name along an axis."""

    changes = versions.SCATTER_ELEMENTS

    def places(self, call: Call, x: Tensor) -> tuple[Array, ...]:
        found = _grid(call, x)
        if len(set(zip(*(p.flat for p in found), strict=True))) < found[0].size:
            raise Unsupported(f"{self.op_type} that writes to a place twice")
        return found

    def admits(self, use: hints.Use) -> hints.ValueHint | None:
        axis = use.integer("axis")
        # Two updates of one element come in no defined order, unless they are joined.
        joined = use.strings("reduction") not in ((), ("none",))
        distinct = hints.ValueHint() if joined else hints.ValueHint(distinct=axis)
        return hints.below(use.dimension(0, axis)) & distinct if use.index == 1 else None


class Scatter(ScatterElements):
    """ScatterElements as it was called before opset 11."""

    changes = versions.SCATTER


class OneHot(Operator):
    """One of two numbers at the places that indices name, the other elsewhere."""

    free, steers = True, (0, 1)

    def adds_axes(self, count: int) -> int:
        return 1

    def evaluate(self, call: Call) -> Tensor:
        values, depth = call.required(2), call.static_ints(1)[0]
        indices = call.static(0)
        axis = normalize_axis(call.integer("axis", -1), indices.ndim + 1)
        wrapped = np.where(indices < 0, indices + depth, indices)
        hot = np.expand_dims(wrapped, axis) == np.moveaxis(
            np.arange(depth).reshape([-1] + [1] * indices.ndim), 0, axis
        )
        return Tensor(values.data[hot.astype(np.int64)], values.dtype)

    def admits(self, use: hints.Use) -> hints.ValueHint | None:
        output, axis = use.output_shape(), use.integer("axis", -1)
        size = 5 if output is None else output[axis]
        depth = use.constant(1)
        known = size if depth is None else int(depth.reshape(-1)[0])
        return (hints.below(known), hints.exactly(size), hints.exactly([0, 1]))[use.index]

    def suggest(self, c: hints.Choices, index: int, known: hints.Known) -> hints.Operand:
        if index == 0:
            return hints.Operand(
                (3,), ir.DataType.INT64, tuple(c.pick((0, 1, 2, -1)) for _ in "123")
            )
        return hints.Operand((), ir.DataType.INT64, (4,)) if index == 1 else c.data((2,))


class Compress(Operator):
    """The slices that a condition chooses."""

    moves = (0,)

    def evaluate(self, call: Call) -> Tensor:
        x, chosen = call.required(0), call.static(1).reshape(-1).astype(np.bool_)
        whole = call.attribute("axis", None) is None
        data = x.data.reshape(-1) if whole else x.data
        axis = 0 if whole else call.axis(0, len(x.shape))
        places = np.flatnonzero(chosen[: data.shape[axis]])
        return Tensor(np.take(data, places, axis), x.dtype)

    def suggest(
        self, c: hints.Choices, index: int, known: hints.Known
    ) -> hints.Operand | None:
        return hints.Operand((2,), ir.DataType.BOOL, constant=True) if index else None


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

    def admits(self, use: hints.Use) -> hints.ValueHint | None:
        data, output, axis = use.input_shape(0), use.output_shape(), use.integer("axis", -1)
        if use.index != 1:
            return None
        if output is not None:
            return hints.exactly([output[axis]])
        return hints.exactly([1 if data is None else min(2, data[axis])])

    def suggest(
        self, c: hints.Choices, index: int, known: hints.Known
    ) -> hints.Operand | None:
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

    def options(self, name: str, known: hints.Known) -> Sequence[object]:
        return (1, 6, 12, 7, 11, 2, 3, 4, 5) if name == "to" else ()
