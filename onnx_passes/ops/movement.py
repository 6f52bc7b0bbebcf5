"""Operators that move, cut out or pad elements and compute nothing."""

import itertools
from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from onnx_passes.ops import versions
from onnx_passes.ops.call import Call, Tensor, constant, normalize_axis
from onnx_passes.ops.domains.block_terms import Form, joined
from onnx_passes.ops.domains.blocks import Blocks, Node, Place, moved, taken
from onnx_passes.ops.input_hints import (
    Choices,
    Known,
    Operand,
    StaticShape,
    Use,
    ValueHint,
    between,
    exactly,
    first,
)
from onnx_passes.ops.operator_class import Algebra, Operator
from onnx_passes.ops.semantics import Misfit, Unsupported

MOVES = Algebra(monotone={0: 1}, linear=(0,))
"""What moves elements about is linear, and keeps any order."""


class Move(Operator, abstract=True):
    """An operator whose results consist of elements of its first operand."""

    moves = (0,)
    algebra = MOVES


class Transpose(Move):
    """The same elements with axes in another order."""

    def evaluate(self, call: Call) -> Tensor:
        x = call.required(0)
        return Tensor(np.transpose(x.data, call.integers("perm")), x.dtype)

    def blocks(self, node: Node) -> Blocks:
        x = node.required(0)
        perm = node.attribute("perm", None)
        return moved(x, [int(p) for p in perm] if perm else list(range(x.rank))[::-1])


class Expand(Move):
    """The elements repeated, as broadcasting does."""

    steers = (1,)

    def evaluate(self, call: Call) -> Tensor:
        x = call.required(0)
        try:
            shape = np.broadcast_shapes(x.shape, tuple(call.small(call.static_ints(1))))
        except ValueError as error:
            raise Misfit(f"Expand: {error}") from None
        return Tensor(np.broadcast_to(x.data, shape), x.dtype)

    def admits(self, use: Use) -> ValueHint | None:
        data, output, length = use.input_shape(0), use.output_shape(), use.length()
        if data is None or use.index != 1:
            return None
        if output is None:
            return exactly(_padded(data, len(data) if length is None else length))
        return exactly(output[-length:] if length else output)

    def suggest(self, c: Choices, index: int, known: Known) -> Operand:
        if index == 0:
            return c.data(c.pick(((3,), (1, 3), (2, 1), (2, 3))))
        shape = first(known, (3,))
        higher = (1, *shape)
        return c.integers(
            *c.pick((shape or (1,), (2, *shape), higher, higher, (2, 3), (1, 1)))
        )


def _padded(shape: StaticShape, rank: int) -> StaticShape:
    return (1,) * (rank - len(shape)) + shape[len(shape) - min(rank, len(shape)) :]


class Tile(Move):
    """The whole tensor repeated."""

    changes = versions.TILE

    steers = (1,)

    def evaluate(self, call: Call) -> Tensor:
        x = call.required(0)
        repeats = call.static_ints(1)
        call.small([d * r for d, r in zip(x.shape, repeats, strict=True)])
        return Tensor(np.tile(x.data, repeats), x.dtype)

    def admits(self, use: Use) -> ValueHint | None:
        data, output = use.input_shape(0), use.output_shape()
        if data is None or use.index != 1:
            return None
        if output is None:
            return exactly([2] * len(data))
        return exactly([o // d if d else 1 for d, o in zip(data, output, strict=True)])

    def suggest(self, c: Choices, index: int, known: Known) -> Operand:
        if index == 0:
            return c.data(c.shape())
        rank = len(first(known, (2, 3)))
        return c.integers(*(c.pick((1, 1, 1, 2)) for _ in range(rank)))


class Concat(Operator):
    """Tensors joined along an axis."""

    changes = versions.CONCAT

    moves, joins = range(2**31), True
    algebra = Algebra(associative="bif", monotone={0: 1, 1: 1}, affine=(0, 1))

    def evaluate(self, call: Call) -> Tensor:
        tensors = [call.required(i) for i in range(len(call.inputs))]
        axis = call.axis(1, len(tensors[0].shape))
        try:
            data = np.concatenate([t.data for t in tensors], axis)
        except ValueError as error:
            raise Misfit(f"Concat: {error}") from None
        return Tensor(data, tensors[0].dtype)

    def suggest(self, c: Choices, index: int, known: Known) -> Operand:
        others = [s for s in known if s is not None]
        return c.data(others[0] if others else c.pick(((2, 3), (3,), (2, 3, 4))))

    def blocks(self, node: Node) -> Blocks:
        parts = [node.required(i) for i in range(len(node.inputs))]
        first = parts[0]
        axis = normalize_axis(int(node.attribute("axis", 1)), first.rank)
        for part in parts[1:]:
            for i in range(first.rank):
                if i != axis:
                    node.sizes.unify(first.words[i], part.words[i])
        forms: dict[Place, Form] = {}
        offset = 0
        for part in parts:
            for place, form in part.forms.items():
                forms[(*place[:axis], place[axis] + offset, *place[axis + 1 :])] = form
            offset += len(part.words[axis])
        words = list(first.words)
        words[axis] = joined([p.words[axis] for p in parts])
        return Blocks(tuple(words), forms, first.dtype)


class Split(Move):
    """A tensor cut along an axis."""

    changes = versions.SPLIT

    steers = (1,)

    def evaluate(self, call: Call) -> tuple[Tensor, ...]:
        x = call.required(0)
        axis, outputs = call.axis(0, len(x.shape)), len(call.node.outputs)
        given, count = call.ints_of(1, "split"), call.integer("num_outputs", outputs)
        sizes = split_sizes(x.shape[axis], given, count)
        bounds = np.cumsum(sizes)[:-1].tolist()
        return tuple(Tensor(part, x.dtype) for part in np.split(x.data, bounds, axis))

    def admits(self, use: Use) -> ValueHint | None:
        data, parts = use.input_shape(0), len(use.node.outputs)
        axis = use.integer("axis")
        shapes = [use.output_shape(index) for index in range(parts)]
        if use.index != 1:
            return None
        if all(shape is not None for shape in shapes):
            return exactly([shape[axis] for shape in shapes if shape is not None])
        if data is None:
            return None
        whole, rest = divmod(data[axis], parts)
        return exactly([whole + (index < rest) for index in range(parts)])

    def suggest(self, c: Choices, index: int, known: Known) -> Operand:
        return c.data((4, 6)) if index == 0 else c.integers(*c.pick(((2, 4), (3, 3), (2, 2))))

    cuts = True

    def blocks(self, node: Node) -> tuple[Blocks, ...]:
        x = node.required(0)
        axis = normalize_axis(int(node.attribute("axis", 0)), x.rank)
        cuts = [node.sizes.remembered((*node.key, k)) for k in range(len(node.node.outputs))]
        if None in cuts:
            size = node.sizes.template(x.words[axis])
            if size is None:
                raise Unsupported("Split at sizes other than the template's")
            count = int(node.attribute("num_outputs", len(node.node.outputs)))
            ends = np.cumsum(split_sizes(size, node.ints(1, "split"), count)).tolist()
            edges = [node.sizes.cut_at(x.words[axis], end) for end in [0, *ends]]
            for k, (start, end) in enumerate(itertools.pairwise(edges)):
                node.sizes.remember((*node.key, k), x.words[axis][start:end])
            cuts = [node.sizes.remembered((*node.key, k)) for k in range(len(edges) - 1)]
        words = [cut for cut in cuts if cut is not None]
        node.sizes.unify(x.words[axis], joined(words))
        edges = np.cumsum([0, *(len(w) for w in words)]).tolist()
        pairs = itertools.pairwise(edges)
        return tuple(taken(x, axis, start, end) for start, end in pairs)


def split_sizes(size: int, given: list[int] | None, count: int) -> list[int]:
    """Return the sizes that Split cuts an axis into; equal ones if none are given."""
    if given is None:
        # The last part is the smaller one where the axis does not divide evenly.
        chunk = -(-size // count)
        given = [max(min(chunk, size - i * chunk), 0) for i in range(count)]
    if sum(given) != size:
        raise Misfit(f"Split into {given} of an axis of size {size}")
    return given


class Trilu(Operator):
    """The upper or lower triangle, and zeros."""

    steers, moves = (1,), (0,)
    algebra = Algebra(idempotent=True, monotone={0: 1}, linear=(0,))

    def evaluate(self, call: Call) -> Tensor:
        x = call.required(0)
        k = call.static_ints(1)[0] if call.given(1) is not None else 0
        mask = np.ones(x.shape, np.bool_)
        kept = np.triu(mask, k) if call.flag("upper", 1) else np.tril(mask, k)
        data = x.data.copy()
        data[~kept] = call.literal(0, x.dtype)
        return Tensor(data, x.dtype)

    def fill_of(self, node: ir.Node) -> float | None:
        return 0.0

    def admits(self, use: Use) -> ValueHint | None:
        return between(-1, 1) if use.index == 1 else None


class DepthToSpace(Move):
    """Channels laid out in space."""

    images = True

    def evaluate(self, call: Call) -> Tensor:
        x, block = call.required(0), call.integer("blocksize", 1)
        n, c, h, w = x.shape
        if call.text("mode", "DCR") == "DCR":
            split, order = (n, block, block, c // block**2, h, w), (0, 3, 4, 1, 5, 2)
        else:
            split, order = (n, c // block**2, block, block, h, w), (0, 1, 4, 2, 5, 3)
        moved = x.data.reshape(split).transpose(order)
        return Tensor(moved.reshape(n, c // block**2, h * block, w * block), x.dtype)

    def suggest(self, c: Choices, index: int, known: Known) -> Operand:
        return c.data(c.pick(((1, 4, 2, 2), (2, 8, 4, 2), (1, 4, 4, 6))))


class SpaceToDepth(Move):
    """Blocks of space laid out in channels."""

    images = True

    def evaluate(self, call: Call) -> Tensor:
        x, block = call.required(0), call.integer("blocksize", 1)
        n, c, h, w = x.shape
        split = x.data.reshape(n, c, h // block, block, w // block, block)
        first = call.text("mode", "DCR") == "CRD"
        moved = split.transpose((0, 1, 3, 5, 2, 4) if first else (0, 3, 5, 1, 2, 4))
        return Tensor(moved.reshape(n, c * block**2, h // block, w // block), x.dtype)

    suggest = DepthToSpace.suggest


class ReverseSequence(Move):
    """Sequences of a batch, each turned around up to its length."""

    steers = (1,)

    def evaluate(self, call: Call) -> Tensor:
        x, lengths = call.required(0), call.static_ints(1)
        batch, time = call.integer("batch_axis", 1), call.integer("time_axis", 0)
        data = np.moveaxis(x.data, (batch, time), (0, 1)).copy()
        for row, length in zip(data, lengths, strict=True):
            row[:length] = row[:length][::-1].copy()
        return Tensor(np.moveaxis(data, (0, 1), (batch, time)), x.dtype)

    def admits(self, use: Use) -> ValueHint | None:
        most = use.dimension(0, use.integer("time_axis")) or 1
        return between(1, most) if use.index == 1 else None

    def suggest(self, c: Choices, index: int, known: Known) -> Operand:
        if index == 0:
            return c.data((3, 3, 2))
        return c.integers(*(c.pick((1, 2, 3)) for _ in range(3)))


_INT32_MAX = 2**31 - 1


class Slice(Move):
    """The elements between bounds, by steps of either sign."""

    changes = versions.SLICE

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


def _ends(
    use: Use, data: StaticShape | None, output: StaticShape | None, length: int
) -> ValueHint:
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

    ``axes`` are the first ones if None. Raises ``Unsupported`` if a step is 0, or an axis does
    not exist.
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

    changes = versions.PAD

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


def _padded_axes(data: StaticShape, output: StaticShape | None, count: int) -> list[int]:
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
