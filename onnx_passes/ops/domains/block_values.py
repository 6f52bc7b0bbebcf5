"""Tensors cut into blocks, and the state that operators on them share."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias

import numpy as np
import onnx_ir as ir

from onnx_passes.arrays import Array
from onnx_passes.ops.domains.block_sizes import ONE, Sizes, Word
from onnx_passes.ops.domains.block_terms import Form, factor, function, number, substitute
from onnx_passes.ops.semantics import Unsupported
from onnx_passes.plain import Plain

Place: TypeAlias = tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Blocks:
    """A tensor as a grid of normal forms.

    Attributes:
        words: Per axis, how it is cut.
        forms: The form of the block at each place of the grid.
        dtype: Its ONNX type.
        known: Its elements, where it is a constant whose numbers matter.
    """

    words: tuple[Word, ...]
    forms: Mapping[Place, Form]
    dtype: ir.DataType
    known: Array | None = None

    @property
    def rank(self) -> int:
        """Number of axes."""
        return len(self.words)


def grid(words: Sequence[Word]) -> Iterator[Place]:
    """Yield every place of a grid of blocks."""
    return itertools.product(*(range(len(w)) for w in words))


def axis_index(rank: int, axis: int) -> tuple[str, int]:
    """Return the index of an axis; axes are counted from the last, as broadcasting does.

    Args:
        rank: Rank of the tensor.
        axis: The axis, from the front.
    """
    return ("o", rank - 1 - axis)


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    """A node about to be evaluated on blocks.

    Attributes:
        node: The node.
        inputs: Its inputs; None where one is omitted.
        sizes: The sizes of all atoms.
        ring: Whether addition and multiplication may be reordered and distributed; else they
            are functions like any other, as rounding demands.
        key: A name for the node that stays the same from one evaluation to the next.
        opset: Version of its operator set.
    """

    node: ir.Node
    inputs: Sequence[Blocks | None]
    sizes: Sizes
    ring: bool
    key: tuple[Hashable, ...]
    opset: int

    def required(self, index: int) -> Blocks:
        """Return an input that must be there.

        Raises:
            Unsupported: It is not.
        """
        value = self.inputs[index] if index < len(self.inputs) else None
        if value is None:
            raise Unsupported(f"{self.node.op_type} without its input {index}")
        return value

    def given(self, index: int) -> Blocks | None:
        """Return an input, or None where it is omitted."""
        return self.inputs[index] if index < len(self.inputs) else None

    def ints(self, index: int, name: str) -> list[int] | None:
        """Return integers that are an input in newer opsets and an attribute in older ones.

        Args:
            index: Number of the input.
            name: Name of the attribute.

        Raises:
            Unsupported: The input is not a constant.
        """
        value = self.given(index)
        if value is None:
            attr = self.attribute(name, None)
            return None if attr is None else [int(v) for v in attr]
        if value.known is None:
            raise Unsupported(
                f"{self.node.op_type} with an input {index} that is not constant"
            )
        return [int(v) for v in value.known.reshape(-1)]

    def attribute(self, name: str, default: object) -> Plain:
        """Return the value of an attribute.

        Args:
            name: Name of the attribute.
            default: Its value if it is left out.
        """
        attr = self.node.attributes.get(name)
        if attr is not None and attr.is_ref():
            raise Unsupported(f"{self.node.op_type} with a reference for attribute {name}")
        return default if attr is None else attr.value

    def label(self) -> str:
        """Return the operator with its attributes, as the name of a function."""
        settings = sorted(f"{a.name}={a.value}" for a in self.node.attributes.values())
        return f"{self.node.op_type}[{','.join(settings)}]"


def symbol(name: str, shape: Sequence[int], dtype: ir.DataType, sizes: Sizes) -> Blocks:
    """Return an input as unknown blocks.

    Args:
        name: Name of the input.
        shape: Its shape in the graphs at hand.
        dtype: Its element type.
        sizes: The words of all axes.
    """
    words = tuple(sizes.named(("axis", name, i), d) for i, d in enumerate(shape))
    forms = {}
    for place in grid(words):
        axes = [i for i, w in enumerate(words) if w[place[i]] != ONE]
        indices = tuple(axis_index(len(words), i) for i in axes)
        forms[place] = factor(("sym", name, place, indices))
    return Blocks(words, forms, dtype)


def literal(array: Array, dtype: ir.DataType, ring: bool) -> Blocks:
    """Return a constant of one element.

    Args:
        array: The number, an array with one element, of any rank.
        dtype: Its element type.
        ring: Whether numbers are those of a ring.

    Raises:
        Unsupported: A number that has no place in a ring.
    """
    words = ((ONE,),) * array.ndim
    value = array.reshape(-1)[0]
    if ring and np.isfinite(value):
        form = number(Fraction(int(value) if dtype.is_integer() else float(value)))
    else:
        form = function(f"literal[{value!r}]")
    return Blocks(words, {(0,) * array.ndim: form}, dtype, array)


def map_blocks(
    node: Node, dtype: ir.DataType, combine: Callable[..., Form], *operands: Blocks
) -> Blocks:
    """Apply a function of forms, element by element, to operands that broadcast together.

    Args:
        node: The node, for its sizes.
        dtype: Element type of the result.
        combine: Gets a form of each operand.
        *operands: The operands.

    Raises:
        Refined: Axes had to be cut alike first.
    """
    rank = max(o.rank for o in operands)
    words = []
    for axis in range(rank):
        there = [o.words[axis - rank + o.rank] for o in operands if axis >= rank - o.rank]
        wide = [w for w in there if w != (ONE,)]
        for other in wide[1:]:
            node.sizes.unify(wide[0], other)
        words.append(wide[0] if wide else (ONE,))
    forms = {}
    for place in grid(words):
        parts = [o.forms[broadcast_place(place, o, rank)] for o in operands]
        forms[place] = combine(*parts)
    return Blocks(tuple(words), forms, dtype)


def broadcast_place(place: Place, operand: Blocks, rank: int) -> Place:
    """Return the place of an operand's block that broadcasts to a place of the result.

    Args:
        place: A place of the result.
        operand: The operand.
        rank: Rank of the result.
    """
    own = place[rank - operand.rank :]
    return tuple(0 if w == (ONE,) else p for p, w in zip(own, operand.words, strict=True))


def moved(value: Blocks, order: Sequence[int | None]) -> Blocks:
    """Return axes in a new order; None puts a new axis of size 1.

    Args:
        value: The value.
        order: The old axis of each new one.
    """
    rank, new_rank = value.rank, len(order)
    words = tuple((ONE,) if axis is None else value.words[axis] for axis in order)
    renaming = {
        axis_index(rank, axis): axis_index(new_rank, i)
        for i, axis in enumerate(order)
        if axis is not None
    }
    forms = {}
    for place in grid(words):
        old = [0] * rank
        for i, axis in enumerate(order):
            if axis is not None:
                old[axis] = place[i]
        forms[place] = substitute(value.forms[tuple(old)], renaming)
    return Blocks(words, forms, value.dtype)


def dropped(x: Blocks, kept: list[int]) -> Blocks:
    """Remove axes of size 1; nothing depends on their index.

    Args:
        x: The value.
        kept: The axes that stay.
    """
    whole = moved(x, [*(i for i in range(x.rank) if i not in kept), *kept])
    skip = x.rank - len(kept)
    forms = {place[skip:]: form for place, form in whole.forms.items()}
    return Blocks(whole.words[skip:], forms, x.dtype)


def known_constant(node: Node, array: Array, dtype: ir.DataType) -> Blocks:
    """Return a constant: a number, a symbol for its content, or plain integers.

    Args:
        node: The node, for the kind of numbers.
        array: The numbers, of any shape.
        dtype: Their element type.
    """
    if array.size == 1:
        return literal(array, dtype, node.ring)
    if dtype.is_integer() and array.ndim <= 1:
        # Shapes, axes and bounds: read as numbers by the operators that take them.
        return Blocks(((ONE,),) * array.ndim, {}, dtype, array)
    raise Unsupported("a constant of more than one element")


def taken(x: Blocks, axis: int, start: int, end: int) -> Blocks:
    """Return some of the blocks along an axis.

    Args:
        x: The value.
        axis: The axis.
        start: Number of the first block.
        end: Number behind the last one.
    """
    words = list(x.words)
    words[axis] = x.words[axis][start:end]
    forms = {
        (*place[:axis], place[axis] - start, *place[axis + 1 :]): form
        for place, form in x.forms.items()
        if start <= place[axis] < end
    }
    return Blocks(tuple(words), forms, x.dtype)
