"""Plausible operands for a node, given what is known of its other inputs.

A guide for the template search, not a specification: what does not fit is thrown away when
the template is evaluated.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TypeVar

import numpy as np
import onnx_ir as ir

from onnx_passes.arrays import Array
from onnx_passes.ops import families  # noqa: F401 (makes operators known)
from onnx_passes.ops.input_hints import Operand, Shape
from onnx_passes.ops.operator_class import find
from onnx_passes.plain import PlainMapping
from onnx_passes.verify.rules.draws import Draws
from onnx_passes.verify.rules.pattern import PatternPart

T = TypeVar("T")

# Sizes of 3 and more, so that a rule which forgets to fold an axis shows itself.
SHAPES: tuple[Shape, ...] = ((2, 3), (3,), (2, 3, 4), (3, 4), (), (1, 3), (3, 1))

RANKED: tuple[Shape, ...] = ((), (3,), (2, 3), (2, 3, 4), (2, 3, 2, 4))
"""A shape of each rank that is asked for."""

_LEVELS = (ir.DataType.INT8, ir.DataType.UINT8, ir.DataType.INT8, ir.DataType.INT16)

SIZES = (1, 2, 2, 3, 3, 4, 5)
"""What the sizes that a hint names are drawn from; one in a hundred is 0."""


class Chooser:
    """Random choices for one template, of one element type."""

    def __init__(self, rng: Draws, dtype: ir.DataType, numbers: Sequence[float]) -> None:
        """Choose by ``rng``; ``numbers`` are what attributes and constants may be.

        ``near`` says afterwards whether a constant is only almost the number asked for, which
        happens only with ``slack``, and wherever it can with ``keen``. ``rank`` is that of the
        next operand, and ``edge`` the shape of all, if they are enumerated. ``target`` is what
        was last reshaped to, ``parts`` the number of integers that the next operand has, and
        ``fixed`` what attributes its pattern gives the node.
        """
        self.rng, self.dtype, self.numbers = rng, dtype, numbers
        self._shapes = SHAPES
        self.square: int | None = None
        self.near = False
        self.slack = True
        self.keen = False
        self.finite = False
        self.sizes: Sequence[int] = SIZES
        self.rank: int | None = None
        self.edge: Shape | None = None
        self.target: Shape | None = None
        self.parts: int | None = None
        self.fixed: PlainMapping = {}

    @cached_property
    def levels(self) -> ir.DataType:
        """The type of the integers that quantisers make or read."""
        return self.dtype if self.dtype.is_integer() else self.pick(_LEVELS)

    def prefer(self, op_types: Collection[str]) -> None:
        """Keep to shapes that the most demanding of some operators takes.

        One template in three keeps to a single shape, so that branches fit one another, and
        one in six to squares of one size, so that products do.
        """
        if self.edge is not None:
            self._shapes = (self.edge,)
            return
        convolves = any("Conv" in o or "Pool" in o for o in op_types)
        if convolves and max(self.sizes) < min(SIZES[-2:]):
            self._shapes = ((1, 2, 3, 4), (1, 4, 3, 3), (2, 2, 5), (1, 2, 1, 4))
        elif convolves:
            self._shapes = ((1, 2, 5, 5), (1, 4, 5, 5), (2, 2, 6), (1, 2, 1, 5))
        elif "BatchNormalization" in op_types and "Gemm" not in op_types:
            self._shapes = ((1, 2, 5, 5), (2, 3))
        elif any((o := find("", name)) is not None and o.images for name in op_types):
            self._shapes = ((1, 2, 3, 4), (2, 1, 4, 4), (1, 4, 2, 2), (2, 2, 3))
        elif "Gemm" in op_types:
            self._shapes = ((2, 3), (3, 4), (3, 3))
        draw = self.rng.random()
        if draw < 0.33:
            self._shapes = (self.pick(self._shapes),)
        elif draw < 0.5 and not convolves:
            self.square = 4
            self._shapes = ((4, 4),) if "Gemm" in op_types else ((4, 4), (2, 4, 4))

    def source(self) -> str:
        """Return where the constants of a template come from."""
        draw = self.rng.random()
        return "nodes" if draw < 0.15 else "computed" if draw < 0.3 else "initializers"

    def literal(self, pattern: PatternPart, dtype: ir.DataType) -> Array:
        """Return a constant that a pattern spells out, or one that it still takes for it.

        Args:
            pattern: The constant of the pattern.
            dtype: Its element type.
        """
        value = np.asarray(pattern.value, np.float64)
        likely = 1.0 if self.keen else 0.35
        if self.slack and dtype.is_floating_point() and self.rng.random() < likely:
            slack = np.abs(value) * getattr(pattern, "_rel_tol", 0.0)
            slack = np.maximum(slack, getattr(pattern, "_abs_tol", 0.0))
            value = value + slack * self.pick((0.9, -0.9))
            self.near |= bool(np.any(slack))
        if value.ndim == 0 and self.rng.random() < 0.1:
            value = value.reshape(self.pick(((1,), (1, 1), (1, 1, 1, 1))))
        with np.errstate(over="ignore"):  # the pattern's number may be beyond the type
            return value.astype(dtype.numpy())

    def content(self, operand: Operand) -> Array:
        """Return numbers for a constant."""
        if operand.positive:
            numbers = self.rng.integers(1, 5, operand.shape)
        elif self.rng.random() < 0.6:
            numbers = np.full(operand.shape, self.pick(self.numbers))
        elif self.rng.random() < 0.1 and operand.dtype.is_integer():
            return np.full(operand.shape, np.iinfo(operand.dtype.numpy()).max)
        else:
            numbers = self.rng.integers(-4, 5, operand.shape)
        with np.errstate(invalid="ignore", over="ignore"):
            return np.asarray(numbers).astype(operand.dtype.numpy())

    def wanted(self, operand: Operand, numbers: Sequence[float]) -> Array:
        """Return a constant of one element that a guard asks for, or one just beside it.

        Args:
            operand: The operand.
            numbers: Numbers that the guard compares with.
        """
        number = self.pick(numbers)
        if operand.ints is not None:
            shape: Shape = (1,) if operand.shape else ()
            return np.full(shape, int(number), np.int64)
        beside = self.rng.random()
        if self.slack and beside < 0.1 and operand.dtype.is_floating_point():
            factor = self.pick((1.00009, 1.00011, 0.9, 1.1))
            self.near |= abs(factor - 1.0) < 1e-3 and number != 0
            number *= factor
        shape = self.pick(((), (), (), (1,)))
        return np.full(shape, number).astype(operand.dtype.numpy())

    def pick(self, options: Sequence[T]) -> T:
        """Return one of the options."""
        return options[int(self.rng.integers(len(options)))]

    def operand(self, op_type: str, index: int, known: Sequence[Shape | None]) -> Operand:
        """Return something that fits input ``index`` of an operator.

        Args:
            op_type: The operator.
            index: Which of its inputs.
            known: Shapes of all its inputs, None for those not chosen yet.
        """
        # Operators of ONNX Runtime's own take what those take that they fuse.
        operator = find("", op_type.removeprefix("Fused"))
        found = None if operator is None else operator.suggest(self, index, known)
        if found is not None:
            return self._planned(found, index)
        others = [shape for shape in known if shape is not None]
        return self.data(self.broadcastable(others[0]) if others else self.shape())

    def _planned(self, operand: Operand, index: int) -> Operand:
        """Return data with the shape that is enumerated, whatever an operator prefers."""
        if index or operand.ints is not None or operand.dtype != self.dtype:
            return operand
        if self.edge is not None:
            return replace(operand, shape=self.edge)
        if self.rank is not None and len(operand.shape) != self.rank:
            return replace(operand, shape=RANKED[self.rank])
        return operand

    def shape(self) -> Shape:
        """Return a shape of data, of the rank that is wanted if there is one."""
        if self.rank is None:
            return tuple(self.pick(self._shapes))
        fitting = [s for s in (*self._shapes, *RANKED) if len(s) == self.rank]
        return tuple(self.pick(fitting))

    def data(self, shape: Shape, *, constant: bool | None = None) -> Operand:
        """Return data of the template's element type.

        Args:
            shape: Its shape.
            constant: Whether it is a constant; None if that is open.
        """
        return Operand(shape, self.dtype, constant=constant)

    def integers(self, *values: int) -> Operand:
        """Return known integers."""
        return Operand((len(values),), ir.DataType.INT64, values, True)

    def broadcastable(self, shape: Shape) -> Shape:
        """Return a shape that broadcasts with another, often the same one."""
        if self.rank is not None:
            wider = (2,) * (self.rank - len(shape))
            kept = shape[len(shape) - min(self.rank, len(shape)) :]
            return (*wider, *self.pick((kept, kept, (1,) * len(kept))))
        options: list[Shape] = [shape, shape, shape, ()]
        if shape:
            options += [shape[-1:], (1,) * len(shape), (*shape[:-1], 1), (2, *shape)]
        return tuple(self.pick(options))
