"""Operators that pick elements by index, or write them: Gather, Scatter, OneHot."""

from __future__ import annotations

import math

import numpy as np
import onnx_ir as ir

from onnx_passes.arrays import Array
from onnx_passes.ops import image_changes
from onnx_passes.ops.call import Call, Tensor, normalize_axis
from onnx_passes.ops.input_hints import ValueHint, between, exactly
from onnx_passes.ops.movement import Move
from onnx_passes.ops.operator_class import Algebra, Operator
from onnx_passes.ops.semantics import Misfit, Unsupported
from onnx_passes.ops.suggestions import Choices, Known, Operand, first
from onnx_passes.ops.use import Use, below


def _wrapped(indices: Array, size: int) -> Array:
    if ((indices < -size) | (indices >= size)).any():
        raise Misfit("an index outside its axis")
    return np.where(indices < 0, indices + size, indices)


def _columns(call: Call, x: Tensor) -> tuple[Array, ...]:
    """Return the places that the rows of the second operand name, an array by axis."""
    indices = call.static(1).astype(np.int64)
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

    def admits(self, use: Use) -> ValueHint | None:
        return below(use.dimension(0, use.integer("axis"))) if use.index == 1 else None

    def breakpoints(self, use: Use) -> tuple[float, ...]:
        size = use.dimension(0, use.integer("axis"))
        if use.index != 1 or not size:
            return ()
        return (-size, -1.0, 0.0, size - 1.0)

    def suggest(self, c: Choices, index: int, known: Known) -> Operand:
        if index == 0:
            return c.data(c.pick(((4, 3), (3, 2, 3))))
        if c.rng.random() < 0.3:
            return Operand((), ir.DataType.INT64, (c.pick((0, 1, -1)),), True)
        shape = first(known, (4, 3))
        whole = (tuple(range(shape[0])), tuple(range(shape[-1]))) if shape else ()
        return c.integers(*c.pick(((0,), (0, 2), (1, 0, 2), *whole)))


class GatherElements(Gather):
    """The elements of an axis that indices name, each at its place."""

    def evaluate(self, call: Call) -> Tensor:
        x = call.required(0)
        return Tensor(x.data[_grid(call, x)], x.dtype)

    def suggest(self, c: Choices, index: int, known: Known) -> Operand:
        if index == 0:
            return c.data((4, 3))
        shape = first(known, (4, 3))
        places = tuple(c.pick((0, -1)) for _ in range(math.prod(shape)))
        return Operand(shape, ir.DataType.INT64, places, True)


class GatherND(Move):
    """The slices of the first axes that rows of indices name."""

    steers = (1,)

    def evaluate(self, call: Call) -> Tensor:
        x = call.required(0)
        if call.integer("batch_dims", 0):
            raise Unsupported("GatherND with batch_dims")
        return Tensor(x.data[_columns(call, x)], x.dtype)

    def admits(self, use: Use) -> ValueHint | None:
        data, indices = use.input_shape(0), use.shape
        if use.index != 1 or data is None or indices is None:
            return below(None) if use.index == 1 else None
        start = use.integer("batch_dims")
        return between(0, np.asarray(data[start : start + indices[-1]]) - 1)


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

    def admits(self, use: Use) -> ValueHint | None:
        data, indices = use.input_shape(0), use.shape
        if use.index != 1 or data is None or indices is None:
            return below(None) if use.index == 1 else None
        target = data[: indices[-1]]
        wanted, places = math.prod(indices[:-1]), math.prod(target)
        if wanted > places:
            return between(0, np.asarray(target) - 1)
        chosen = use.rng.choice(places, wanted, replace=False)
        return exactly(np.stack(np.unravel_index(chosen, target), -1).reshape(indices))

    def suggest(self, c: Choices, index: int, known: Known) -> Operand:
        if index == 0:
            return c.data((4, 3))
        data = first(known, (4, 3))
        rows = data[0] if data else 4
        if index == 1:
            # In order, in another one, none at all; of depth 0, which names the whole tensor.
            every = tuple(range(rows))
            shape, places = c.pick(
                (((rows, 1), every), ((rows, 1), every[::-1]), ((0, 1), ()), ((1, 0), ()))
            )
            return Operand(shape, ir.DataType.INT64, places, True)
        indices = known[1] if len(known) > 1 and known[1] else (rows, 1)
        return c.data((*indices[:-1], *data[indices[-1] :]))


class ScatterElements(_Scatter):
    """A copy with the elements written over that indices name along an axis."""

    changes = image_changes.SCATTER_ELEMENTS

    def places(self, call: Call, x: Tensor) -> tuple[Array, ...]:
        found = _grid(call, x)
        if len(set(zip(*(p.flat for p in found), strict=True))) < found[0].size:
            raise Unsupported(f"{self.op_type} that writes to a place twice")
        return found

    def admits(self, use: Use) -> ValueHint | None:
        axis = use.integer("axis")
        # Two updates of one element come in no defined order, unless they are joined.
        joined = use.strings("reduction") not in ((), ("none",))
        distinct = ValueHint() if joined else ValueHint(distinct=axis)
        return below(use.dimension(0, axis)) & distinct if use.index == 1 else None


class Scatter(ScatterElements):
    """ScatterElements as it was called before opset 11."""

    changes = image_changes.SCATTER


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

    def admits(self, use: Use) -> ValueHint | None:
        output, axis = use.output_shape(), use.integer("axis", -1)
        size = 5 if output is None else output[axis]
        depth = use.constant(1)
        known = size if depth is None else int(depth.reshape(-1)[0])
        return (below(known), exactly(size), exactly([0, 1]))[use.index]

    def suggest(self, c: Choices, index: int, known: Known) -> Operand:
        if index == 0:
            return Operand(
                (3,), ir.DataType.INT64, tuple(c.pick((0, 1, 2, -1)) for _ in "123")
            )
        return Operand((), ir.DataType.INT64, (4,)) if index == 1 else c.data((2,))


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

    def suggest(self, c: Choices, index: int, known: Known) -> Operand | None:
        return Operand((2,), ir.DataType.BOOL, constant=True) if index else None
