"""Operators that move elements about and compute nothing: Transpose, Expand, Concat, ..."""

from __future__ import annotations

import itertools

import numpy as np
import onnx_ir as ir

from onnx_passes.ops import early_changes, later_changes
from onnx_passes.ops.call import Call, Tensor, normalize_axis
from onnx_passes.ops.domains.block_sizes import joined
from onnx_passes.ops.domains.block_terms import Form
from onnx_passes.ops.domains.block_values import Blocks, Node, Place, moved, taken
from onnx_passes.ops.input_hints import ValueHint, between, exactly
from onnx_passes.ops.operator_class import Algebra, Operator
from onnx_passes.ops.semantics import Misfit, Unsupported
from onnx_passes.ops.suggestions import Choices, Known, Operand, first
from onnx_passes.ops.use import Shape, Use

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


def _padded(shape: Shape, rank: int) -> Shape:
    return (1,) * (rank - len(shape)) + shape[len(shape) - min(rank, len(shape)) :]


class Tile(Move):
    """The whole tensor repeated."""

    changes = early_changes.TILE

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

    changes = early_changes.CONCAT

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

    changes = later_changes.SPLIT

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
    """Return the sizes that Split cuts an axis into.

    Args:
        size: Size of the axis.
        given: Sizes of the parts; None for equal ones.
        count: How many parts there are.

    Raises:
        Unsupported: The given sizes do not add up.
    """
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
