"""Plausible operands for a node, given what is known of its other inputs.

A guide for the template search, not a specification: what does not fit is thrown away when
the template is evaluated.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from onnx_passes.verify.rules.draws import Draws

Shape: TypeAlias = tuple[int, ...]

# Sizes of 3 and more, so that a rule which forgets to fold an axis shows itself.
SHAPES: tuple[Shape, ...] = ((2, 3), (3,), (2, 3, 4), (3, 4), (), (1, 3), (3, 1))

RANKED: tuple[Shape, ...] = ((), (3,), (2, 3), (2, 3, 4), (2, 3, 2, 4))
"""A shape of each rank that is asked for."""

SIZES = (1, 2, 2, 3, 3, 4, 5)
"""What the sizes that a hint names are drawn from; one in a hundred is 0."""


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

    def __init__(self, rng: Draws, dtype: ir.DataType, numbers: Sequence[float]) -> None:
        """Choose by ``rng``; ``numbers`` are what attributes and constants may be.

        ``near`` says afterwards whether a constant is only almost the number asked for, which
        happens only with ``slack``. ``rank`` is that of the next operand, and ``edge`` the
        shape of all, if they are enumerated. ``target`` is what was last reshaped to.
        """
        self.rng, self.dtype, self.numbers = rng, dtype, numbers
        self._shapes = SHAPES
        self.square: int | None = None
        self.near = False
        self.slack = True
        self.finite = False
        self.sizes: Sequence[int] = SIZES
        self.rank: int | None = None
        self.edge: Shape | None = None
        self.target: Shape | None = None

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

    def literal(self, pattern: Any, dtype: ir.DataType) -> npt.NDArray[Any]:
        """Return a constant that a pattern spells out, or one that it still takes for it."""
        value = np.asarray(pattern.value, np.float64)
        if self.slack and dtype.is_floating_point() and self.rng.random() < 0.35:
            slack = np.abs(value) * getattr(pattern, "_rel_tol", 0.0)
            slack = np.maximum(slack, getattr(pattern, "_abs_tol", 0.0))
            value = value + slack * self.pick((0.9, -0.9))
            self.near |= bool(np.any(slack))
        if value.ndim == 0 and self.rng.random() < 0.1:
            value = value.reshape(self.pick(((1,), (1, 1), (1, 1, 1, 1))))
        return value.astype(dtype.numpy())

    def content(self, operand: Operand) -> npt.NDArray[Any]:
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

    def wanted(self, operand: Operand, numbers: Sequence[float]) -> npt.NDArray[Any]:
        """Return a constant of one element that a guard asks for, or one just beside it."""
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
            return self._planned(rule(self, index, known), index)
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
        """Return data of the template's element type."""
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


def _first(known: Sequence[Shape | None], default: Shape) -> Shape:
    shape = known[0] if known else None
    return default if shape is None else shape


def _matmul(c: Chooser, index: int, known: Sequence[Shape | None]) -> Operand:
    other = known[1 - index] if len(known) > 1 else None
    if c.square is not None and c.rank in (None, 2):
        return c.data((c.square, c.square))
    if other is None:
        return c.data(c.shape() if c.rank else c.pick(((2, 3), (3, 3), (2, 3, 4), (3,))))
    if not other:
        return c.data((3,))  # no product takes a scalar: the engine refuses this one
    inner = other[-1] if index or len(other) == 1 else other[-2]
    draw, rank = c.rng.random(), c.rank
    if rank == 1 or (rank is None and draw < 0.15):
        return c.data((inner,))
    batch: Shape = ()
    if (rank or 0) > 2 or (rank is None and len(other) > 2 and draw > 0.5):
        count = len(other) - 2 if rank is None else rank - 2
        batch = ((2,) * count + tuple(other[:-2]))[-count:]
    return c.data((*batch, 5, inner) if index == 0 else (*batch, inner, 5))


def _gemm(c: Chooser, index: int, known: Sequence[Shape | None]) -> Operand:
    if index < 2:
        operand = _matmul(c, index, known[:2])
        return c.data(operand.shape[-2:] if len(operand.shape) > 1 else (3, 4))
    columns = known[1][-1] if len(known) > 1 and known[1] else 4
    rows = _first(known, (2, 3))[0] if _first(known, (2, 3)) else 1
    return c.data(c.pick(((columns,), (1, columns), (), (rows, columns), (rows, 1))))


def _conv(c: Chooser, index: int, known: Sequence[Shape | None]) -> Operand:
    x = _first(known, (1, 2, 5, 5))
    channels, spatial = (x[1] if len(x) > 1 else 2), max(len(x) - 2, 1)
    if channels % 2 == 0 and c.rng.random() < 0.4:
        channels //= 2  # two groups
    features = known[1][0] if len(known) > 1 and known[1] else 4
    kernel = tuple(min(c.pick((1, 3)), d) for d in x[2:]) or (1,) * spatial
    shapes = (c.shape(), (4, channels, *kernel), (features,))
    return c.data(shapes[min(index, 2)], constant=None if index == 0 else True)


def _conv_integer(c: Chooser, index: int, known: Sequence[Shape | None]) -> Operand:
    bytes_ = (ir.DataType.INT8, ir.DataType.UINT8)
    dtype = c.dtype if c.dtype in bytes_ and index in (0, 2) else ir.DataType.UINT8
    if index < 2:
        operand = _conv(c, index, known)
        return Operand(operand.shape, dtype, constant=operand.constant)
    return Operand((), dtype, constant=True)


def _qlinear_conv(c: Chooser, index: int, known: Sequence[Shape | None]) -> Operand:
    if index in (1, 4, 6):
        return Operand((), ir.DataType.FLOAT, constant=True, positive=True)
    if index in (2, 5, 7):
        return Operand((), ir.DataType.UINT8, constant=True)
    x = _first(known, (1, 2, 5, 5))
    if index == 8:
        w = known[3] if len(known) > 3 else None
        return Operand((w[0] if w else 4,), ir.DataType.INT32, constant=True)
    operand = _conv(c, 1 if index == 3 else 0, [x])
    return Operand(operand.shape, ir.DataType.UINT8, constant=index == 3)


def _batch_norm(c: Chooser, index: int, known: Sequence[Shape | None]) -> Operand:
    x = _first(known, (2, 3, 4, 4))
    if index == 0:
        return c.data(c.pick(((2, 3), (2, 3, 4, 4))))
    shape = (x[1] if len(x) > 1 else 1,)
    # From opset 15 on, statistics may be wider than the data.
    wide = c.dtype in (ir.DataType.FLOAT16, ir.DataType.BFLOAT16) and c.rng.random() < 0.5
    dtype = ir.DataType.FLOAT if wide else c.dtype
    return Operand(shape, dtype, constant=True, positive=index == 4)


def _clip(c: Chooser, index: int, known: Sequence[Shape | None]) -> Operand:
    return c.data(c.shape()) if index == 0 else c.data((), constant=True)


def _logical(c: Chooser, index: int, known: Sequence[Shape | None]) -> Operand:
    others = [s for s in known if s is not None]
    shape = c.broadcastable(others[0]) if others else c.shape()
    return Operand(shape, ir.DataType.BOOL)


def _where(c: Chooser, index: int, known: Sequence[Shape | None]) -> Operand:
    others = [s for s in known if s is not None]
    shape = c.broadcastable(others[0]) if others else c.shape()
    return Operand(shape, ir.DataType.BOOL) if index == 0 else c.data(shape)


def _reshape(c: Chooser, index: int, known: Sequence[Shape | None]) -> Operand:
    if index == 0:
        return c.data(c.shape() if c.square else c.pick(((2, 3), (2, 3, 4), (4, 6), (0, 3))))
    shape = _first(known, (2, 3))
    size = int(np.prod(shape, dtype=np.int64))
    options: list[Shape] = [(size,), (-1,), (1, -1), shape, (-1, shape[-1] if shape else 1)]
    if len(shape) == 2:
        options += [shape[::-1], (1, *shape), (0, -1)]
    if size % 16 == 0:
        options += [(size // 4, 2, 2), (size // 4, 2, 2), (size // 4, 4), (4, 4)]
    if c.target is not None and c.rng.random() < 0.5:
        # What two operands are reshaped to is often the same.
        return c.integers(*c.target)
    c.target = c.pick(options)
    return c.integers(*c.target)


def _axes(c: Chooser, index: int, known: Sequence[Shape | None]) -> Operand:
    if index == 0:
        return c.data(c.pick(((2, 3), (2, 3, 4), (1, 3), (1, 1, 3), (3,), (1,))))
    return c.integers(*c.pick(((0,), (1,), (-1,), (0, 1), (1, 2))))


def _expand(c: Chooser, index: int, known: Sequence[Shape | None]) -> Operand:
    if index == 0:
        return c.data(c.pick(((3,), (1, 3), (2, 1), (2, 3))))
    shape = _first(known, (3,))
    higher = (1, *shape)
    return c.integers(*c.pick((shape or (1,), (2, *shape), higher, higher, (2, 3), (1, 1))))


def _tile(c: Chooser, index: int, known: Sequence[Shape | None]) -> Operand:
    if index == 0:
        return c.data(c.shape())
    rank = len(_first(known, (2, 3)))
    return c.integers(*(c.pick((1, 1, 1, 2)) for _ in range(rank)))


def _slice(c: Chooser, index: int, known: Sequence[Shape | None]) -> Operand:
    if index == 0:
        return c.data(c.pick(((4, 4), (4, 4, 4), (3, 5), (4, 5), (2, 3, 2, 4))))
    shape = _first(known, (4, 4))
    last = shape[-1] if shape else 4
    starts = (0, 0, 1, last // 2, -1, -last)
    ends = (last // 2, last, last, 2**63 - 1, 2**63 - 1, -1)
    options: tuple[tuple[int, ...], ...] = (starts, ends, (0, 1, -1, -1, 3), (1, 1, -1, 2))
    if index == 4 and c.rng.random() < 0.1:
        return c.integers(-1)
    return c.integers(c.pick(options[min(index - 1, 3)]))


def _gather(c: Chooser, index: int, known: Sequence[Shape | None]) -> Operand:
    if index == 0:
        return c.data(c.pick(((4, 3), (3, 2, 3))))
    if c.rng.random() < 0.3:
        return Operand((), ir.DataType.INT64, (c.pick((0, 1, -1)),), True)
    shape = _first(known, (4, 3))
    whole = (tuple(range(shape[0])), tuple(range(shape[-1]))) if shape else ()
    return c.integers(*c.pick(((0,), (0, 2), (1, 0, 2), *whole)))


def _pad(c: Chooser, index: int, known: Sequence[Shape | None]) -> Operand:
    if index == 0:
        return c.data(c.pick(((2, 3), (1, 2, 5, 5))))
    if index == 1:
        rank = len(_first(known, (2, 3)))
        spatial = [0 if axis < rank - 2 else 1 for axis in range(rank)]
        return c.integers(*c.pick(([0] * 2 * rank, [*spatial, *spatial])))
    if index == 3:
        return c.integers(*range(len(_first(known, (2, 3)))))
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
    spatial = max(len(x) - 2, 1)
    w = known[1] if len(known) > 1 and known[1] and len(known[1]) > 1 else (2, 3)
    shapes = (
        c.shape(),
        (x[1] if len(x) > 1 else 2, 3, *(3,) * spatial),
        (c.pick((w[1], 2 * w[1])),),
    )
    return c.data(shapes[min(index, 2)], constant=None if index == 0 else True)


def _constant_of_shape(c: Chooser, index: int, known: Sequence[Shape | None]) -> Operand:
    return c.integers(*c.pick(((2, 3), (3,))))


def _scatter_nd(c: Chooser, index: int, known: Sequence[Shape | None]) -> Operand:
    if index == 0:
        return c.data((4, 3))
    data = _first(known, (4, 3))
    rows = data[0] if data else 4
    if index == 1:
        # In order, in another one, none at all; and of depth 0, which names the whole tensor.
        every = tuple(range(rows))
        shape, places = c.pick(
            (((rows, 1), every), ((rows, 1), every[::-1]), ((0, 1), ()), ((1, 0), ()))
        )
        return Operand(shape, ir.DataType.INT64, places, True)
    indices = known[1] if len(known) > 1 and known[1] else (rows, 1)
    return c.data((*indices[:-1], *data[indices[-1] :]))


def _dropout(c: Chooser, index: int, known: Sequence[Shape | None]) -> Operand:
    if index == 2:
        return Operand((), ir.DataType.BOOL, constant=True)
    return c.data(c.shape()) if index == 0 else c.data((), constant=True)


def _channelwise(c: Chooser, index: int, known: Sequence[Shape | None]) -> Operand:
    x = _first(known, (2, 4, 3))
    shapes = ((1, 2, 3, 3), (2, 4, 5), (1, 4, 2, 2), (2, 6, 3))
    return c.data(c.pick(shapes) if index == 0 else x[1:2])


def _heads(c: Chooser, index: int, known: Sequence[Shape | None]) -> Operand:
    q = _first(known, (1, 2, 3, 4))
    shapes = ((1, 2, 3, 4), (2, 2, 3, 4), (1, 3, 4, 4))
    return c.data(c.pick(shapes) if index == 0 else q)


def _blocks(c: Chooser, index: int, known: Sequence[Shape | None]) -> Operand:
    return c.data(c.pick(((1, 4, 2, 2), (2, 8, 4, 2), (1, 4, 4, 6))))


def _sequences(c: Chooser, index: int, known: Sequence[Shape | None]) -> Operand:
    return c.data((3, 3, 2)) if index == 0 else c.integers(*(c.pick((1, 2, 3)) for _ in "123"))


def _one_hot(c: Chooser, index: int, known: Sequence[Shape | None]) -> Operand:
    if index == 0:
        return Operand((3,), ir.DataType.INT64, tuple(c.pick((0, 1, 2, -1)) for _ in "123"))
    return Operand((), ir.DataType.INT64, (4,)) if index == 1 else c.data((2,))


def _contracted(c: Chooser, index: int, known: Sequence[Shape | None]) -> Operand:
    return c.data((2, 3, 4) if index == 0 else (2, 4, 5))


def _rotary(c: Chooser, index: int, known: Sequence[Shape | None]) -> Operand:
    return c.data((2, 3, 4, 6) if index == 0 else (2, 4, 3))


_REDUCTIONS = ("Sum", "Mean", "Max", "Min", "Prod", "L1", "L2", "SumSquare", "LogSum")
_Rule: TypeAlias = Callable[[Chooser, int, Sequence[Shape | None]], Operand]
_OPERANDS: dict[str, _Rule] = {
    "MatMul": _matmul,
    "Gemm": _gemm,
    "Conv": _conv,
    "ConvInteger": _conv_integer,
    "QLinearConv": _qlinear_conv,
    "FusedMatMul": _matmul,
    "ConvTranspose": _conv_transpose,
    "ConstantOfShape": _constant_of_shape,
    "ScatterND": _scatter_nd,
    "Dropout": _dropout,
    "BatchNormalization": _batch_norm,
    "Clip": _clip,
    "Where": _where,
    **dict.fromkeys(("Not", "And", "Or", "Xor"), _logical),
    "Reshape": _reshape,
    "Squeeze": _axes,
    "Unsqueeze": _axes,
    **{f"Reduce{name}": _axes for name in _REDUCTIONS},
    "Expand": _expand,
    "Tile": _tile,
    "Slice": _slice,
    "Gather": _gather,
    "Pad": _pad,
    "Concat": _concat,
    "Split": _split,
    "InstanceNormalization": _channelwise,
    "GroupNormalization": _channelwise,
    "Attention": _heads,
    "LayerNormalization": _norm,
    "RMSNormalization": _norm,
    "DepthToSpace": _blocks,
    "SpaceToDepth": _blocks,
    "ReverseSequence": _sequences,
    "OneHot": _one_hot,
    "Einsum": _contracted,
    "RotaryEmbedding": _rotary,
}
