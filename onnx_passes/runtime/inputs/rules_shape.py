"""Inputs that hold shapes, axes, sizes and counts.

The declared shape of the output says what they must be; where it is not known, they are
chosen so that the operator does as little as possible.
"""

from __future__ import annotations

import math

import numpy as np

from onnx_passes.ops.hints import Hint, exactly
from onnx_passes.ops.use import Shape, Use, rule

_FEW = 3


@rule(1, "Reshape")
def _reshape(use: Use) -> Hint | None:
    data, output = use.input_shape(0), use.output_shape()
    if output is not None and (data is None or math.prod(data) == math.prod(output)):
        return exactly(output)
    length = use.length()
    if length is None:
        return exactly([-1])
    # One row, or as a last resort one column.
    return exactly([1] * (length - 1) + [-1] if length else [])


@rule(1, "Expand")
def _expand(use: Use) -> Hint | None:
    data, output = use.input_shape(0), use.output_shape()
    if data is None:
        return None
    length = use.length()
    if output is None:
        return exactly(_padded(data, len(data) if length is None else length))
    return exactly(output[-length:] if length else output)


def _padded(shape: Shape, rank: int) -> Shape:
    return (1,) * (rank - len(shape)) + shape[len(shape) - min(rank, len(shape)) :]


@rule(1, "Tile")
def _tile(use: Use) -> Hint | None:
    data, output = use.input_shape(0), use.output_shape()
    if data is None:
        return None
    if output is None:
        return exactly([2] * len(data))
    return exactly([o // d if d else 1 for d, o in zip(data, output, strict=True)])


@rule(0, "ConstantOfShape")
def _constant_of_shape(use: Use) -> Hint:
    output = use.output_shape()
    return exactly([_FEW] * (use.length() or 1) if output is None else output)


@rule(1, "Squeeze")
def _squeeze(use: Use) -> Hint | None:
    data = use.input_shape(0)
    if data is None:
        return None
    ones = [axis for axis, size in enumerate(data) if size == 1]
    return exactly(ones if (length := use.length()) is None else ones[:length])


@rule(1, "Unsqueeze")
def _unsqueeze(use: Use) -> Hint | None:
    data, output, length = use.input_shape(0), use.output_shape(), use.length()
    if data is None or (length is None and output is None):
        return exactly([0])
    if output is None or length is None:
        return exactly(range(length or 1))
    axes: list[int] = []
    position = 0
    for axis, size in enumerate(output):
        left = len(output) - axis - 1
        if (
            position < len(data)
            and data[position] == size
            and (size != 1 or left < len(data) - position)
        ):
            position += 1
        else:
            axes.append(axis)
    return exactly(axes if len(axes) == length else range(length))


@rule(1, *(f"Reduce{kind}" for kind in ("Max", "Min", "Sum", "Mean", "Prod", "L1", "L2")))
@rule(1, "ReduceLogSum", "ReduceLogSumExp", "ReduceSumSquare")
def _reduce(use: Use) -> Hint | None:
    data, output, length = use.input_shape(0), use.output_shape(), use.length()
    if data is None:
        return exactly([0])
    if output is None:
        return exactly(range(min(len(data), 1 if length is None else length)))
    axes = _reduced(data, output)
    # Fewer axes than declared: some reduced axes have size 1 already.
    for axis in reversed(range(len(data))):
        if length is not None and len(axes) < length and axis not in axes:
            axes.append(axis)
    return exactly(sorted(axes)[:length])


def _reduced(data: Shape, output: Shape) -> list[int]:
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


@rule(1, "Split")
def _split(use: Use) -> Hint | None:
    data, parts = use.input_shape(0), len(use.node.outputs)
    axis = use.integer("axis")
    shapes = [use.output_shape(index) for index in range(parts)]
    if all(shape is not None for shape in shapes):
        return exactly([shape[axis] for shape in shapes if shape is not None])
    if data is None:
        return None
    whole, rest = divmod(data[axis], parts)
    return exactly([whole + (index < rest) for index in range(parts)])


@rule(1, "SplitToSequence")
def _split_to_sequence(use: Use) -> Hint | None:
    data, length = use.input_shape(0), use.length()
    if data is None or length is None:
        return exactly(1)
    whole, rest = divmod(data[use.integer("axis")], max(1, length))
    return exactly([whole + (index < rest) for index in range(length)])


@rule(1, "CenterCropPad")
def _crop(use: Use) -> Hint | None:
    data, output = use.input_shape(0), use.output_shape()
    target = data if output is None else output
    if target is None:
        return None
    axes = use.integers("axes")
    return exactly(target if axes is None else [target[axis] for axis in axes])


@rule(1, "Slice")
def _starts(use: Use) -> Hint:
    return exactly(np.zeros(use.length() or 1, np.int64))


@rule(2, "Slice")
def _ends(use: Use) -> Hint | None:
    data, output, length = use.input_shape(0), use.output_shape(), use.length() or 1
    if data is None:
        return exactly([1] * length)
    starts, axes = use.constant(1), use.constant(3)
    chosen = range(length) if axes is None else axes.reshape(-1).tolist()
    first = [0] * length if starts is None else starts.reshape(-1).tolist()
    target = data if output is None else output
    return exactly([max(0, f) + target[a] for f, a in zip(first, chosen, strict=False)])


@rule(3, "Slice")
def _slice_axes(use: Use) -> Hint:
    data, output, length = use.input_shape(0), use.output_shape(), use.length() or 1
    if data is None or output is None:
        return exactly(range(length))
    changed = [axis for axis, (d, o) in enumerate(zip(data, output, strict=True)) if d != o]
    same = [axis for axis in range(len(data)) if axis not in changed]
    return exactly(sorted((changed + same)[:length]))


@rule(4, "Slice")
def _steps(use: Use) -> Hint:
    return exactly([1] * (use.length() or 1))


@rule(1, "Pad")
def _pads(use: Use) -> Hint | None:
    data, output = use.input_shape(0), use.output_shape()
    if data is None:
        return None
    axes = use.constant(3)
    length = use.length()
    if axes is not None:
        chosen = [int(axis) for axis in axes.reshape(-1)]
    else:
        chosen = _padded_axes(data, output, len(data) if length is None else length // 2)
    if output is None:
        return exactly([1] * (2 * len(chosen)))
    extra = [output[axis] - data[axis] for axis in chosen]
    return exactly([e // 2 for e in extra] + [e - e // 2 for e in extra])


@rule(3, "Pad")
def _pad_axes(use: Use) -> Hint | None:
    data, length = use.input_shape(0), use.length()
    if data is None or length is None:
        return None
    return exactly(_padded_axes(data, use.output_shape(), length))


def _padded_axes(data: Shape, output: Shape | None, count: int) -> list[int]:
    axes = list(range(len(data)))
    if output is not None:
        axes.sort(key=lambda axis: data[axis] == output[axis])
    return sorted(axes[:count])
