"""What operands must be, and which ones a template may give.

A ``Use`` is one operand of a node as a question. A ``ValueHint`` is the answer. An ``Operand``
is a suggestion on which rules are tried.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, TypeVar

import numpy as np
import onnx_ir as ir

from onnx_passes.arrays import Array
from onnx_passes.plain import PlainMapping

Bound = float | Array | None


@dataclass(frozen=True)
class ValueHint:
    """Constraints on one value; the empty hint allows anything.

    A bound is a number, or an array that broadcasts to the value. ``exact`` is the only value
    that fits. Along the axis ``distinct``, integers must not repeat. ``words`` are the strings
    to choose from. ``filled`` says that an optional must hold a value.
    """

    low: Bound = None
    high: Bound = None
    exact: Array | None = None
    distinct: int | None = None
    nonzero: bool = False
    words: tuple[str, ...] = ()
    filled: bool = False

    def __and__(self, other: ValueHint) -> ValueHint:
        """Return what satisfies both, or the first where they contradict each other."""
        low = _tighter(np.maximum, self.low, other.low)
        high = _tighter(np.minimum, self.high, other.high)
        if low is not None and high is not None and np.any(np.greater(low, high)):
            low, high = (self.low, self.high) if self.bounded else (other.low, other.high)
        return ValueHint(
            low=low,
            high=high,
            exact=other.exact if self.exact is None else self.exact,
            distinct=other.distinct if self.distinct is None else self.distinct,
            nonzero=self.nonzero or other.nonzero,
            words=self.words or other.words,
            filled=self.filled or other.filled,
        )

    @property
    def empty(self) -> bool:
        """Whether it says nothing."""
        return not (
            self.bounded
            or self.exact is not None
            or self.distinct is not None
            or self.nonzero
            or self.words
            or self.filled
        )

    @property
    def bounded(self) -> bool:
        """Whether it limits the elements from either side."""
        return self.low is not None or self.high is not None

    def admits(self, number: int) -> bool:
        """Whether every element may be a number, whatever its place."""
        low, high = self.low, self.high
        return (
            self.exact is None
            and self.distinct is None
            and not (self.nonzero and number == 0)
            and (low is None or number >= np.max(low))
            and (high is None or number <= np.min(high))
        )

    def without_layout(self) -> ValueHint:
        """Return what still holds for elements that were rearranged or picked."""
        low, high = self.low, self.high
        if self.exact is not None and self.exact.size and self.exact.dtype.kind in "iuf":
            low, high = self.exact.min(), self.exact.max()
        return ValueHint(
            low=None if low is None else float(np.max(low)),
            high=None if high is None else float(np.min(high)),
            nonzero=self.nonzero,
            words=self.words,
            filled=self.filled,
        )


def _tighter(choose: np.ufunc, a: Bound, b: Bound) -> Bound:
    if a is None or b is None:
        return b if a is None else a
    try:
        return np.asarray(choose(a, b))
    except ValueError:  # bounds of different layouts
        return a


def between(low: Bound, high: Bound) -> ValueHint:
    """Return the hint for elements in a closed interval; None for no bound."""
    return ValueHint(low=low, high=high)


def exactly(values: object) -> ValueHint:
    """Return the hint for one value, given as anything numpy makes an array of."""
    return ValueHint(exact=np.asarray(values))


StaticShape = tuple[int, ...]


@dataclass(frozen=True)
class Use:
    """A value as one node sees it, in a model whose shapes are those of one sample."""

    node: ir.Node
    index: int
    rng: np.random.Generator

    @property
    def shape(self) -> StaticShape | None:
        """Shape of the value itself."""
        return self.input_shape(self.index)

    def input(self, index: int) -> ir.Value | None:
        """Return an input of the node; None if it is left out."""
        return self.node.inputs[index] if index < len(self.node.inputs) else None

    def input_shape(self, index: int) -> StaticShape | None:
        """Return the shape of an input, if it is known and static."""
        return static_shape(self.input(index))

    def output_shape(self, index: int = 0) -> StaticShape | None:
        """Return the shape of an output, if it is known and static."""
        if index >= len(self.node.outputs):
            return None
        return static_shape(self.node.outputs[index])

    def dimension(self, index: int, axis: int) -> int | None:
        """Return one size of an input, if it is known and static."""
        value = self.input(index)
        if value is None or value.shape is None:
            return None
        rank = len(value.shape)
        known = -rank <= axis < rank and isinstance(value.shape[axis], int)
        return int(str(value.shape[axis])) if known else None

    def length(self) -> int | None:
        """Return the number of elements of the value, if it is a vector of known length."""
        shape = self.shape
        return shape[0] if shape is not None and len(shape) == 1 else None

    def constant(self, index: int) -> Array | None:
        """Return the value of an input, if it is a small constant."""
        return constant_of(self.input(index))

    def integer(self, name: str, default: int = 0) -> int:
        attribute = self.node.attributes.get(name)
        if attribute is None or attribute.is_ref():
            return default
        return attribute.as_int()

    def number(self, name: str) -> float | None:
        """Return a float attribute, None if it is absent."""
        attribute = self.node.attributes.get(name)
        return None if attribute is None or attribute.is_ref() else attribute.as_float()

    def integers(self, name: str) -> list[int] | None:
        """Return a list attribute, None if it is absent."""
        attribute = self.node.attributes.get(name)
        if attribute is None or attribute.is_ref():
            return None
        return list(attribute.as_ints())

    def strings(self, name: str) -> tuple[str, ...]:
        """Return an attribute of strings, empty if it is absent."""
        attribute = self.node.attributes.get(name)
        if attribute is None or attribute.is_ref():
            return ()
        if attribute.type == ir.AttributeType.STRING:
            return (attribute.as_string(),)
        return tuple(attribute.as_strings())


def static_shape(value: ir.Value | None) -> StaticShape | None:
    """Return the shape of a value as integers, None where any dimension is not known."""
    if value is None or value.shape is None or not value.shape.is_static():
        return None
    return tuple(value.shape.numpy())


def constant_of(value: ir.Value | None) -> Array | None:
    """Return the value of an initializer or Constant whose data is at hand."""
    if value is None:
        return None
    tensor, node = value.const_value, value.producer()
    if tensor is None and node is not None and node.op_type == "Constant":
        held = node.attributes.get("value")  # a check of its type by protocol is slow
        tensor = held.value if held is not None and not held.is_ref() else None
        tensor = tensor if tensor is not None else ir.convenience.get_const_tensor(value)
    if tensor is None or isinstance(tensor, ir.ExternalTensor):
        return None
    array: Array = tensor.numpy()
    return array


def below(size: int | None) -> ValueHint:
    """Return the hint for indices into so many elements."""
    # Where the size is not known, the first element is the only one sure to be there.
    return between(0, max(0, (size or 1) - 1))


T = TypeVar("T")

Shape: TypeAlias = tuple[int, ...]
Known: TypeAlias = Sequence[Shape | None]
"""Shapes of a node's inputs; None for those not chosen yet."""


@dataclass(frozen=True, slots=True)
class Operand:
    """What to put at an input of a node.

    ``ints`` are its values where they must be known: axes, a shape, indices. If ``constant``
    is ``None``, it may be either. ``positive`` numbers are those of a variance, say.
    """

    shape: Shape
    dtype: ir.DataType
    ints: tuple[int, ...] | None = None
    constant: bool | None = None
    positive: bool = False


class Choices(Protocol):
    """Random choices for one template, of one element type.

    ``rank`` is that of the next operand, if it is enumerated. ``square`` is the size of all
    axes of matrices, if they have one. ``target`` was last reshaped to. ``parts`` is the
    number of integers in the next operand, if a pattern joins as many. ``fixed`` are
    attributes that the pattern gives the node.
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
        """Return data of the template's element type."""

    def integers(self, *values: int) -> Operand:
        """Return known integers."""

    def broadcastable(self, shape: Shape) -> Shape:
        """Return a shape that broadcasts with another, often the same one."""


def first(known: Known, default: Shape) -> Shape:
    """Return the shape of the first input, or ``default`` if it is not known."""
    shape = known[0] if known else None
    return default if shape is None else shape


def conditions(c: Choices, known: Known) -> Operand:
    """Return booleans that broadcast with the other operands."""
    others = [s for s in known if s is not None]
    return Operand(c.broadcastable(others[0]) if others else c.shape(), ir.DataType.BOOL)


def axes(c: Choices, index: int, *, none: bool) -> Operand:
    """Return data, or axes of it; engines differ on a Squeeze of no axes (``none``)."""
    if index == 0:
        return c.data(c.pick(((2, 3), (2, 3, 4), (1, 3), (1, 1, 3), (3,), (1,))))
    if none and c.rng.random() < 0.1:
        return c.integers()
    return c.integers(*c.pick(((0,), (1,), (-1,), (0, 1), (1, 2))))
