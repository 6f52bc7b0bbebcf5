"""Operands that a template may give an operator, so that rules are tried on what fits it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, TypeVar

import onnx_ir as ir

from onnx_passes.plain import PlainMapping

T = TypeVar("T")

Shape: TypeAlias = tuple[int, ...]
Known: TypeAlias = Sequence[Shape | None]
"""Shapes of a node's inputs; None for those not chosen yet."""


@dataclass(frozen=True, slots=True)
class Operand:
    """What to put at an input of a node.

    Attributes:
        shape: Its shape.
        dtype: Its type.
        ints: Its values where they must be known: axes, a shape, indices.
        constant: Whether it must be a constant; None where it may be either.
        positive: Whether its numbers must be positive, as a variance is.
    """

    shape: Shape
    dtype: ir.DataType
    ints: tuple[int, ...] | None = None
    constant: bool | None = None
    positive: bool = False


class Choices(Protocol):
    """Random choices for one template, of one element type.

    Attributes:
        rng: Where they come from.
        dtype: The element type.
        rank: The rank that the next operand has, if it is enumerated.
        square: The size of all axes of matrices, if they have one.
        target: What was last reshaped to.
        parts: How many integers the next operand has, if a pattern joins as many.
        fixed: Attributes that the pattern gives the node.
    """

    rng: Any
    dtype: ir.DataType
    rank: int | None
    square: int | None
    target: Shape | None
    parts: int | None
    fixed: PlainMapping

    @property
    def levels(self) -> ir.DataType:
        """The type of the integers that quantisers make or read."""

    def pick(self, options: Sequence[T]) -> T:
        """Return one of the options."""

    def shape(self) -> Shape:
        """Return a shape of data."""

    def data(self, shape: Shape, *, constant: bool | None = None) -> Operand:
        """Return data of the template's element type.

        Args:
            shape: Its shape.
            constant: Whether it must be a constant; None if it may be either.
        """

    def integers(self, *values: int) -> Operand:
        """Return known integers."""

    def broadcastable(self, shape: Shape) -> Shape:
        """Return a shape that broadcasts with another, often the same one."""


def first(known: Known, default: Shape) -> Shape:
    """Return the shape of the first input.

    Args:
        known: Shapes of the inputs.
        default: The shape if that of the first is not known.
    """
    shape = known[0] if known else None
    return default if shape is None else shape


def conditions(c: Choices, known: Known) -> Operand:
    """Return booleans that broadcast with the other operands.

    Args:
        c: The choices.
        known: Shapes of the operands.
    """
    others = [s for s in known if s is not None]
    return Operand(c.broadcastable(others[0]) if others else c.shape(), ir.DataType.BOOL)


def axes(c: Choices, index: int, *, none: bool) -> Operand:
    """Return data, or axes of it.

    Args:
        c: The choices.
        index: Which operand.
        none: Whether there may be no axes. Of Squeeze, engines differ on that.
    """
    if index == 0:
        return c.data(c.pick(((2, 3), (2, 3, 4), (1, 3), (1, 1, 3), (3,), (1,))))
    if none and c.rng.random() < 0.1:
        return c.integers()
    return c.integers(*c.pick(((0,), (1,), (-1,), (0, 1), (1, 2))))
