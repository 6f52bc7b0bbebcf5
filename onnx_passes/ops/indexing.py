"""Operators that pick elements by index, or write them: slice, gather, scatter, pad."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from onnx_passes.ops.base import Algebra, Operator
from onnx_passes.ops.call import Call, Tensor, constant, normalize_axis
from onnx_passes.ops.hints import Hint, between, exactly
from onnx_passes.ops.movement import Move
from onnx_passes.ops.operands import Operands
from onnx_passes.ops.semantics import Misfit, Unsupported
from onnx_passes.ops.suggestions import Choices, Known, Operand, first
from onnx_passes.ops.use import Shape, Use, below

_INT32_MAX = 2**31 - 1


class Slice(Move):
    """The elements between bounds, by steps of either sign."""

    steers = (1, 2, 3, 4)

    def evaluate(self, call: Call) -> Tensor:
        x = call.required(0)
        starts, ends = call.ints_of(1, "starts") or [], call.ints_of(2, "ends") or []
        axes, steps = call.ints_of(3, "axes"), call.ints_of(4, "steps")
        return Tensor(x.data[slices(x.shape, starts, ends, axes, steps)], x.dtype)

    def admits(self, use: Use) -> Hint | None:
        data, output, length = use.input_shape(0), use.output_shape(), use.length() or 1
        match use.index:
            case 1:
                return exactly(np.zeros(length, np.int64))
            case 2:
                return _ends(use, data, output, length)
            case 3 if data is None or output is None:
                return exactly(range(length))
            case 3:
                pairs = list(enumerate(zip(data or (), output or (), strict=True)))
                changed = [axis for axis, (d, o) in pairs if d != o]
                same = [axis for axis, (d, o) in pairs if d == o]
                return exactly(sorted((changed + same)[:length]))
            case 4:
                return exactly([1] * length)
        return None

    def suggest(self, c: Choices, index: int, known: Known) -> Operand:
        if index == 0:
            return c.data(c.pick(((4, 4), (4, 4, 4), (3, 5), (4, 5), (2, 3, 2, 4))))
        shape = first(known, (4, 4))
        last = shape[-1] if shape else 4
        starts = (0, 0, 1, last // 2, -1, -last)
        ends = (last // 2, last, last, 2**63 - 1, 2**63 - 1, -1)
        options: tuple[tuple[int, ...], ...] = (starts, ends, (0, 1, -1, -1, 3), (1, 1, -1, 2))
        if index == 4 and c.rng.random() < 0.1:
            return c.integers(-1)
        return c.integers(c.pick(options[min(index - 1, 3)]))


def _ends(use: Use, data: Shape | None, output: Shape | None, length: int) -> Hint:
    if data is None:
        return exactly([1] * length)
    starts, axes = use.constant(1), use.constant(3)
    chosen = range(length) if axes is None else axes.reshape(-1).tolist()
    first = [0] * length if starts is None else starts.reshape(-1).tolist()
    target = data if output is None else output
    return exactly([max(0, f) + target[a] for f, a in zip(first, chosen, strict=False)])


def slices(
    shape: Sequence[int],
    starts: Sequence[int],
    ends: Sequence[int],
    axes: Sequence[int] | None,
    steps: Sequence[int] | None,
) -> tuple[slice, ...]:
    """Return the Python slices of an ONNX Slice.

    Args:
        shape: Shape of the tensor.
        starts: First index of each axis.
        ends: Index after the last of each axis.
        axes: The axes; None for the first ones.
        steps: Steps of each axis; None for 1.

    Raises:
        Unsupported: A step is 0, or an axis does not exist.
    """
    index = [slice(None)] * len(shape)
    axes = range(len(starts)) if axes is None else axes
    steps = [1] * len(starts) if steps is None else steps
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        axis = normalize_axis(axis, len(shape))
        size = shape[axis]
        if step == 0:
            raise Misfit("Slice with step 0")
        if step < 0 and end >= _INT32_MAX:
            # "To the end": nothing by the standard, all the rest by ONNX Runtime.
            raise Unsupported("Slice backwards to the end, where engines differ")
        start, end = (b + size if b < 0 else b for b in (start, end))
        if step > 0:
            index[axis] = slice(min(max(start, 0), size), min(max(end, 0), size), step)
        else:
            first, last = min(max(start, 0), size - 1), min(max(end, -1), size - 1)
            index[axis] = slice(first, None if last < 0 else last, step)
    return tuple(index)


def _wrapped(indices: npt.NDArray[Any], size: int) -> npt.NDArray[Any]:
    if ((indices < -size) | (indices >= size)).any():
        raise Misfit("an index outside its axis")
    return np.where(indices < 0, indices + size, indices)


def _columns(call: Call, x: Tensor) -> tuple[npt.NDArray[Any], ...]:
    """Return the places that the rows of the second operand name, an array by axis."""
    indices = call.static(1).astype(np.int64)
    return tuple(_wrapped(indices[..., k], x.shape[k]) for k in range(indices.shape[-1]))


def _grid(call: Call, x: Tensor) -> tuple[npt.NDArray[Any], ...]:
    """Return places that differ from their own in one axis, where the operand names it."""
    indices = call.static(1).astype(np.int64)
    axis = call.axis(0, len(x.shape))
    grid: list[npt.NDArray[Any]] = list(np.indices(indices.shape))
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

    def admits(self, use: Use) -> Hint | None:
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

    def admits(self, use: Use) -> Hint | None:
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

    def places(self, call: Call, x: Tensor) -> tuple[npt.NDArray[Any], ...]:
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

    def places(self, call: Call, x: Tensor) -> tuple[npt.NDArray[Any], ...]:
        return _columns(call, x)

    def admits(self, use: Use) -> Hint | None:
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

    def places(self, call: Call, x: Tensor) -> tuple[npt.NDArray[Any], ...]:
        found = _grid(call, x)
        if len(set(zip(*(p.flat for p in found), strict=True))) < found[0].size:
            raise Unsupported(f"{self.op_type} that writes to a place twice")
        return found

    def admits(self, use: Use) -> Hint | None:
        # Two updates of one element come in no defined order.
        axis = use.integer("axis")
        distinct = Hint(distinct=axis)
        return below(use.dimension(0, axis)) & distinct if use.index == 1 else None


class Scatter(ScatterElements):
    """ScatterElements as it was called before opset 11."""


class Pad(Operator):
    """A tensor with a border, of one number or of its own elements; or with some cut off."""

    steers = (1, 3)
    moves = (0, 2)
    algebra = Algebra(monotone={0: 1}, affine=(0, 2))

    def evaluate(self, call: Call) -> Tensor:
        x = call.required(0)
        rank = len(x.shape)
        pads = call.ints_of(1, "pads") or []
        axes = call.static_ints(3) if call.given(3) is not None else list(range(rank))
        width = [(0, 0)] * rank
        for k, axis in enumerate(axes):
            width[normalize_axis(axis, rank)] = (pads[k], pads[k + len(axes)])
        # A negative pad removes elements, before anything is added.
        keep = tuple(
            slice(max(-before, 0), size - max(-after, 0))
            for (before, after), size in zip(width, x.shape, strict=True)
        )
        grow = [(max(before, 0), max(after, 0)) for before, after in width]
        sizes = zip(x.shape, grow, strict=True)
        call.small([size + before + after for size, (before, after) in sizes])
        positions = np.arange(x.data.size).reshape(x.shape)[keep]
        mode = call.text("mode", "constant")
        if mode == "constant":
            padded = np.pad(positions, grow, constant_values=-1)
        elif mode in ("reflect", "edge", "wrap"):
            padded = np.pad(positions, grow, mode=mode)  # type: ignore[call-overload]
        else:
            raise Unsupported(f"Pad with mode {mode}")
        value = call.given(2)
        fill = call.literal(0, x.dtype) if value is None else value.data.reshape(-1)[0]
        if call.opset < 11:
            fill = call.literal(call.number("value", 0.0), x.dtype)
        flat = np.empty(x.data.size + 1, x.data.dtype)
        flat[:-1], flat[-1] = x.data.reshape(-1), fill
        return Tensor(flat[padded], x.dtype)

    def fill_of(self, node: ir.Node) -> float | None:
        given = len(node.inputs) > 2 and node.inputs[2] is not None
        constant = node.attributes.get_string("mode", "constant") == "constant"
        return node.attributes.get_float("value", 0.0) if constant and not given else None

    def admits(self, use: Use) -> Hint | None:
        data, output, length = use.input_shape(0), use.output_shape(), use.length()
        if data is None or use.index not in (1, 3):
            return None
        if use.index == 3:
            return None if length is None else exactly(_padded_axes(data, output, length))
        axes = use.constant(3)
        if axes is not None:
            chosen = [int(axis) for axis in axes.reshape(-1)]
        else:
            chosen = _padded_axes(data, output, len(data) if length is None else length // 2)
        if output is None:
            return exactly([1] * (2 * len(chosen)))
        extra = [output[axis] - data[axis] for axis in chosen]
        return exactly([e // 2 for e in extra] + [e - e // 2 for e in extra])

    def suggest(self, c: Choices, index: int, known: Known) -> Operand:
        if index == 0:
            return c.data(c.pick(((2, 3), (1, 2, 5, 5))))
        if index == 1:
            rank = len(first(known, (2, 3)))
            spatial = [0 if axis < rank - 2 else 1 for axis in range(rank)]
            return c.integers(*c.pick(([0] * 2 * rank, [*spatial, *spatial])))
        if index == 3:
            return c.integers(*range(len(first(known, (2, 3)))))
        return c.data((), constant=True)


def _padded_axes(data: Shape, output: Shape | None, count: int) -> list[int]:
    axes = list(range(len(data)))
    if output is not None:
        axes.sort(key=lambda axis: data[axis] == output[axis])
    return sorted(axes[:count])


class OneHot(Operator):
    """One of two numbers at the places that indices name, the other elsewhere."""

    free, steers = True, (0, 1)

    def evaluate(self, call: Call) -> Tensor:
        values, depth = call.required(2), call.static_ints(1)[0]
        indices = call.static(0)
        axis = normalize_axis(call.integer("axis", -1), indices.ndim + 1)
        wrapped = np.where(indices < 0, indices + depth, indices)
        hot = np.expand_dims(wrapped, axis) == np.moveaxis(
            np.arange(depth).reshape([-1] + [1] * indices.ndim), 0, axis
        )
        return Tensor(values.data[hot.astype(np.int64)], values.dtype)

    def admits(self, use: Use) -> Hint | None:
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


class TopK(Operator):
    """The greatest or least elements along an axis, and their places."""

    steers, chooses = (1,), (0,)

    def cost(self, operands: Operands) -> int | None:
        shape = operands.sizes(0)
        length = shape[operands.node.attributes.get_int("axis", -1)] if shape else 1
        return operands.elements(0) * max(1, (length - 1).bit_length())  # a comparison sort

    def admits(self, use: Use) -> Hint | None:
        data, output, axis = use.input_shape(0), use.output_shape(), use.integer("axis", -1)
        if use.index != 1:
            return None
        if output is not None:
            return exactly([output[axis]])
        return exactly([1 if data is None else min(2, data[axis])])


class NonZero(Operator):
    """The places of elements that are not zero."""

    free = True


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


class CenterCropPad(Operator):
    """A tensor cut or padded on both sides."""

    free, steers = True, (1,)

    def evaluate(self, call: Call) -> Tensor:
        x, target = call.required(0), call.static_ints(1)
        rank, data = len(x.shape), x.data
        given = call.integers("axes")
        axes = range(rank) if given is None else [normalize_axis(i, rank) for i in given]
        zero = constant(np.zeros((), x.dtype.numpy()), x.dtype, call.semantics).data
        for axis, size in zip(axes, target, strict=True):
            missing = size - data.shape[axis]
            if missing < 0:
                start = -missing // 2
                data = np.take(data, range(start, start + size), axis)
                continue
            ends = missing // 2, missing - missing // 2
            shapes = [[n if i == axis else d for i, d in enumerate(data.shape)] for n in ends]
            before, after = (np.broadcast_to(zero, shape) for shape in shapes)
            data = np.concatenate([before, data, after], axis)
        return Tensor(data, x.dtype)

    def admits(self, use: Use) -> Hint | None:
        data, output, axes = use.input_shape(0), use.output_shape(), use.integers("axes")
        target = data if output is None else output
        if target is None or use.index != 1:
            return None
        return exactly(target if axes is None else [target[axis] for axis in axes])

    def suggest(self, c: Choices, index: int, known: Known) -> Operand | None:
        sizes = [c.pick((d, d + 2, max(1, d - 1))) for d in first(known, ())]
        return c.integers(*sizes) if index else None


class TensorScatter(Operator):
    """A cache with an update written at a place."""

    free, steers = True, (2,)

    def admits(self, use: Use) -> Hint | None:
        axis = use.integer("axis", -2)
        cache, update = use.dimension(0, axis), use.dimension(1, axis)
        size = None if cache is None or update is None else cache - update + 1
        return below(size) if use.index == 2 else None


class BitCast(Operator):
    """The same bits as another type."""

    free = True


class Unique(Operator):
    """The elements or slices that differ, and where they are."""

    chooses = (0,)
