"""Operators that cut out a part of a tensor, or add a border: Slice, Pad, CenterCropPad."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from onnx_passes.ops import later_changes
from onnx_passes.ops.call import Call, Tensor, constant, normalize_axis
from onnx_passes.ops.domains.block_values import Blocks, Node, taken
from onnx_passes.ops.input_hints import ValueHint, exactly
from onnx_passes.ops.movement import Move
from onnx_passes.ops.operator_class import Algebra, Operator
from onnx_passes.ops.semantics import Misfit, Unsupported
from onnx_passes.ops.suggestions import Choices, Known, Operand, first
from onnx_passes.ops.use import Shape, Use

_INT32_MAX = 2**31 - 1


class Slice(Move):
    """The elements between bounds, by steps of either sign."""

    changes = later_changes.SLICE

    steers = (1, 2, 3, 4)

    def evaluate(self, call: Call) -> Tensor:
        x = call.required(0)
        starts, ends = call.ints_of(1, "starts") or [], call.ints_of(2, "ends") or []
        axes, steps = call.ints_of(3, "axes"), call.ints_of(4, "steps")
        return Tensor(x.data[slices(x.shape, starts, ends, axes, steps)], x.dtype)

    def admits(self, use: Use) -> ValueHint | None:
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

    cuts = True

    def blocks(self, node: Node) -> Blocks:
        x = node.required(0)
        starts, ends = node.ints(1, "starts") or [], node.ints(2, "ends") or []
        axes = node.ints(3, "axes") or list(range(len(starts)))
        if any(step != 1 for step in node.ints(4, "steps") or []):
            raise Unsupported("Slice with a step")
        for start, end, axis in zip(starts, ends, axes, strict=True):
            at = normalize_axis(axis, x.rank)
            size = node.sizes.template(x.words[at])
            if size is None:
                raise Unsupported("Slice at sizes other than the template's")
            low, high = (min(max(b + size if b < 0 else b, 0), size) for b in (start, end))
            if low >= high:
                raise Unsupported("Slice that leaves nothing")
            first, last = (node.sizes.cut_at(x.words[at], b) for b in (low, high))
            x = taken(x, at, first, last)
        return x


def _ends(use: Use, data: Shape | None, output: Shape | None, length: int) -> ValueHint:
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


class Pad(Operator):
    """A tensor with a border, of one number or of its own elements; or with some cut off."""

    changes = later_changes.PAD

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

    def admits(self, use: Use) -> ValueHint | None:
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

    def admits(self, use: Use) -> ValueHint | None:
        data, output, axes = use.input_shape(0), use.output_shape(), use.integers("axes")
        target = data if output is None else output
        if target is None or use.index != 1:
            return None
        return exactly(target if axes is None else [target[axis] for axis in axes])

    def suggest(self, c: Choices, index: int, known: Known) -> Operand | None:
        sizes = [c.pick((d, d + 2, max(1, d - 1))) for d in first(known, ())]
        return c.integers(*sizes) if index else None
