"""Plausible operands for a node, given what is known of its other inputs.

A guide for the template search, not a specification: what does not fit is thrown away when
the template is evaluated.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

Shape: TypeAlias = tuple[int, ...]

# Sizes of 3 and more, so that a rule which forgets to fold an axis shows itself.
SHAPES: tuple[Shape, ...] = ((2, 3), (3,), (2, 3, 4), (3, 4), (), (1, 3), (3, 1))


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


class Chooser:
    """Random choices for one template, of one element type."""

    def __init__(
        self, rng: np.random.Generator, dtype: ir.DataType, numbers: Sequence[float]
    ) -> None:
        """Choose by ``rng``; ``numbers`` are what attributes and constants may be."""
        self.rng, self.dtype, self.numbers = rng, dtype, numbers
        self._shapes = SHAPES

    def prefer(self, op_types: Collection[str]) -> None:
        """Keep to shapes that the most demanding of some operators takes."""
        if any("Conv" in o or "Pool" in o or o == "BatchNormalization" for o in op_types):
            self._shapes = ((1, 2, 5, 5),)
        elif "Gemm" in op_types:
            self._shapes = ((2, 3), (3, 4), (3, 3))

    def content(self, operand: Operand) -> npt.NDArray[Any]:
        """Return numbers for a constant."""
        if operand.positive:
            numbers = self.rng.integers(1, 5, operand.shape)
        elif self.rng.random() < 0.6:
            numbers = np.full(operand.shape, self.pick(self.numbers))
        else:
            numbers = self.rng.integers(-4, 5, operand.shape)
        with np.errstate(invalid="ignore", over="ignore"):
            return np.asarray(numbers).astype(operand.dtype.numpy())

    def pick(self, options: Sequence[Any]) -> Any:
        """Return one of the options."""
        return options[int(self.rng.integers(len(options)))]

    def operand(self, op_type: str, index: int, known: Sequence[Shape | None]) -> Operand:
        """Return something that fits input ``index`` of an operator.

        Args:
            op_type: The operator.
            index: Which of its inputs.
            known: Shapes of all its inputs, None for those not chosen yet.
        """
        rule = _OPERANDS.get(op_type)
        if rule is not None:
            return rule(self, index, known)
        others = [shape for shape in known if shape is not None]
        return self.data(self.broadcastable(others[0]) if others else self.shape())

    def shape(self) -> Shape:
        """Return a shape of data."""
        return tuple(self.pick(self._shapes))

    def data(self, shape: Shape, *, constant: bool | None = None) -> Operand:
        """Return data of the template's element type."""
        return Operand(shape, self.dtype, constant=constant)

    def integers(self, *values: int) -> Operand:
        """Return known integers."""
        return Operand((len(values),), ir.DataType.INT64, values, True)

    def broadcastable(self, shape: Shape) -> Shape:
        """Return a shape that broadcasts with another, often the same one."""
        options: list[Shape] = [shape, shape, shape, ()]
        if shape:
            options += [shape[-1:], (1,) * len(shape), (*shape[:-1], 1), (2, *shape)]
        return tuple(self.pick(options))


def _first(known: Sequence[Shape | None], default: Shape) -> Shape:
    shape = known[0] if known else None
    return default if shape is None else shape


def _matmul(c: Chooser, index: int, known: Sequence[Shape | None]) -> Operand:
    other = known[1 - index] if len(known) > 1 else None
    if other is None:
        return c.data(c.pick(((2, 3), (3, 3), (2, 3, 4))))
    if len(other) < 2:
        return c.data((4, *other) if index == 0 else (*other, 4))
    return c.data((5, other[-2]) if index == 0 else (other[-1], 5))


def _gemm(c: Chooser, index: int, known: Sequence[Shape | None]) -> Operand:
    if index < 2:
        operand = _matmul(c, index, known[:2])
        return c.data(operand.shape[-2:] if len(operand.shape) > 1 else (3, 4))
    columns = known[1][-1] if len(known) > 1 and known[1] else 4
    return c.data(c.pick(((columns,), (1, columns), ())))


def _conv(c: Chooser, index: int, known: Sequence[Shape | None]) -> Operand:
    channels = _first(known, (1, 2, 5, 5))[1] if len(_first(known, (1, 2, 5, 5))) > 1 else 2
    features = known[1][0] if len(known) > 1 and known[1] else 3
    shapes = ((1, 2, 5, 5), (3, channels, 3, 3), (features,))
    return c.data(shapes[min(index, 2)], constant=None if index == 0 else True)


def _batch_norm(c: Chooser, index: int, known: Sequence[Shape | None]) -> Operand:
    x = _first(known, (2, 3, 4, 4))
    if index == 0:
        return c.data(c.pick(((2, 3), (2, 3, 4, 4))))
    shape = (x[1] if len(x) > 1 else 1,)
    return Operand(shape, c.dtype, constant=True, positive=index == 4)


def _clip(c: Chooser, index: int, known: Sequence[Shape | None]) -> Operand:
    return c.data(c.shape()) if index == 0 else c.data((), constant=True)


def _where(c: Chooser, index: int, known: Sequence[Shape | None]) -> Operand:
    others = [s for s in known if s is not None]
    shape = c.broadcastable(others[0]) if others else c.shape()
    return Operand(shape, ir.DataType.BOOL) if index == 0 else c.data(shape)


def _reshape(c: Chooser, index: int, known: Sequence[Shape | None]) -> Operand:
    if index == 0:
        return c.data(c.pick(((2, 3), (2, 3, 4), (4, 6))))
    shape = _first(known, (2, 3))
    size = int(np.prod(shape, dtype=np.int64))
    options: list[Shape] = [(size,), (-1,), (1, -1), shape, (-1, shape[-1] if shape else 1)]
    if len(shape) == 2:
        options += [shape[::-1], (1, *shape), (0, -1)]
    return c.integers(*c.pick(options))


def _axes(c: Chooser, index: int, known: Sequence[Shape | None]) -> Operand:
    if index == 0:
        return c.data(c.pick(((2, 3), (2, 3, 4), (1, 3), (1, 1, 3), (3,), (1,))))
    return c.integers(*c.pick(((0,), (1,), (-1,), (0, 1), (1, 2))))


def _expand(c: Chooser, index: int, known: Sequence[Shape | None]) -> Operand:
    if index == 0:
        return c.data(c.pick(((3,), (1, 3), (2, 1), (2, 3))))
    shape = _first(known, (3,))
    return c.integers(*c.pick((shape or (1,), (2, *shape), (2, 3), (1, 1))))


def _slice(c: Chooser, index: int, known: Sequence[Shape | None]) -> Operand:
    if index == 0:
        return c.data(c.pick(((4, 4), (4, 4, 4))))
    options: tuple[tuple[int, ...], ...] = ((0, 1, 2), (2, 4, 2**63 - 1), (0, 1, -1), (1,))
    return c.integers(c.pick(options[min(index - 1, 3)]))


def _gather(c: Chooser, index: int, known: Sequence[Shape | None]) -> Operand:
    if index == 0:
        return c.data(c.pick(((4, 3), (3, 2, 3))))
    return c.integers(*c.pick(((0,), (0, 2), (1, 0, 2))))


def _pad(c: Chooser, index: int, known: Sequence[Shape | None]) -> Operand:
    if index == 0:
        return c.data(c.pick(((2, 3), (1, 2, 5, 5))))
    if index == 1:
        rank = len(_first(known, (2, 3)))
        spatial = [0 if axis < rank - 2 else 1 for axis in range(rank)]
        return c.integers(*c.pick(([0] * 2 * rank, [*spatial, *spatial])))
    return c.data((), constant=True)


def _concat(c: Chooser, index: int, known: Sequence[Shape | None]) -> Operand:
    others = [s for s in known if s is not None]
    return c.data(others[0] if others else c.pick(((2, 3), (3,), (2, 3, 4))))


def _split(c: Chooser, index: int, known: Sequence[Shape | None]) -> Operand:
    return c.data((4, 6)) if index == 0 else c.integers(*c.pick(((2, 4), (3, 3), (2, 2))))


def _norm(c: Chooser, index: int, known: Sequence[Shape | None]) -> Operand:
    shape = _first(known, (2, 3))
    return c.data(c.pick(((2, 3), (2, 3, 4))) if index == 0 else shape[-1:])


def _conv_transpose(c: Chooser, index: int, known: Sequence[Shape | None]) -> Operand:
    x = _first(known, (1, 2, 5, 5))
    shapes = (x, (x[1] if len(x) > 1 else 2, 3, 3, 3), (3,))
    return c.data(shapes[min(index, 2)], constant=None if index == 0 else True)


def _constant_of_shape(c: Chooser, index: int, known: Sequence[Shape | None]) -> Operand:
    return c.integers(*c.pick(((2, 3), (3,))))


def _scatter_nd(c: Chooser, index: int, known: Sequence[Shape | None]) -> Operand:
    if index == 0:
        return c.data((4, 3))
    if index == 1:
        return Operand((4, 1), ir.DataType.INT64, tuple(range(4)), True)
    return c.data((4, 3))


def _dropout(c: Chooser, index: int, known: Sequence[Shape | None]) -> Operand:
    if index == 2:
        return Operand((), ir.DataType.BOOL, constant=True)
    return c.data(c.shape()) if index == 0 else c.data((), constant=True)


_REDUCTIONS = ("Sum", "Mean", "Max", "Min", "Prod", "L1", "L2", "SumSquare", "LogSum")
_Rule: TypeAlias = Callable[[Chooser, int, Sequence[Shape | None]], Operand]
_OPERANDS: dict[str, _Rule] = {
    "MatMul": _matmul,
    "Gemm": _gemm,
    "Conv": _conv,
    "ConvTranspose": _conv_transpose,
    "ConstantOfShape": _constant_of_shape,
    "ScatterND": _scatter_nd,
    "Dropout": _dropout,
    "BatchNormalization": _batch_norm,
    "Clip": _clip,
    "Where": _where,
    "Reshape": _reshape,
    "Squeeze": _axes,
    "Unsqueeze": _axes,
    **{f"Reduce{name}": _axes for name in _REDUCTIONS},
    "Expand": _expand,
    "Slice": _slice,
    "Gather": _gather,
    "Pad": _pad,
    "Concat": _concat,
    "Split": _split,
    "LayerNormalization": _norm,
    "RMSNormalization": _norm,
}
