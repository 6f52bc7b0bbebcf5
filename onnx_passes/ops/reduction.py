"""Operators that fold axes into one element, and those built on such folds."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np
import onnx_ir as ir

from onnx_passes.ops.base import Algebra, Operator
from onnx_passes.ops.call import Call, Tensor, normalize_axis
from onnx_passes.ops.domains.counting import CountingSemantics, blank
from onnx_passes.ops.domains.intervals import ULPS, Interval, resolution
from onnx_passes.ops.hints import Hint, between, exactly
from onnx_passes.ops.operands import Operands
from onnx_passes.ops.semantics import (
    Elements,
    Primitives,
    Scalar,
    Unsupported,
    columns,
    is_float,
)
from onnx_passes.ops.suggestions import Choices, Known, Operand, axes
from onnx_passes.ops.use import Shape, Use

_RISING = Algebra(monotone={0: 1})


def gathered(x: Elements, axes: list[int]) -> tuple[Elements, tuple[int, ...]]:
    """Return an array with some axes flattened into one at the end, and the sizes before.

    Args:
        x: Elements of any shape.
        axes: Axes counted from the front.
    """
    rest = [i for i in range(x.ndim) if i not in axes]
    moved = x.transpose([*rest, *axes])
    outer = moved.shape[: len(rest)]
    size = int(np.prod(moved.shape[len(rest) :], dtype=np.int64))
    return moved.reshape((*outer, size)), outer


class Reduce(Operator, abstract=True):
    """A Reduce operator: a function of the elements along some axes.

    Where no axes are named that is all of them, or, with ``noop_with_empty_axes``, none.
    """

    steers, exact = (1,), (1,)
    # ONNX Runtime adds integers in double precision, and cuts what is too large.
    exact_bits: ClassVar[int | None] = 20

    def row(self, call: Call, a: Primitives, terms: Elements) -> Scalar:
        """Return what the elements along the last axis become.

        Args:
            call: The call, for attributes.
            a: Primitives of the element type.
            terms: Elements [..., n].
        """
        raise NotImplementedError

    def evaluate(self, call: Call) -> Tensor:
        x = call.required(0)
        rank = len(x.shape)
        given = call.ints_of(1, "axes")
        axes = sorted({normalize_axis(axis, rank) for axis in given or ()})
        if not axes and not call.flag("noop_with_empty_axes"):
            axes = list(range(rank))
        # Over no axes, each element is a row of its own.
        rows, _ = gathered(x.data, axes)
        a = call.primitives(x.dtype)
        found = call.semantics.along(lambda terms: self.row(call, a, terms), rows)
        if call.flag("keepdims", 1):
            found = found.reshape([1 if i in axes else d for i, d in enumerate(x.shape)])
        return Tensor(found, x.dtype)

    def representatives(self, operands: Operands) -> Sequence[Sequence[int]]:
        sizes, axes = operands.sizes(0), operands.axes(1)
        if axes is None and not operands.node.attributes.get_int("noop_with_empty_axes", 0):
            return [sizes, ()]
        kept = {normalize_axis(axis, len(sizes)) for axis in axes or ()}
        return [[d if i in kept else min(d, 1) for i, d in enumerate(sizes)], ()]

    def cost(self, operands: Operands) -> int | None:
        sizes, axes = operands.sizes(0), None
        with contextlib.suppress(Unsupported):  # computed ones hardly change the count
            axes = operands.axes(1)
        rows = math.prod(sizes[i] for i in range(len(sizes)) if axes and i not in axes)
        row = np.broadcast_to(blank(()), (math.prod(sizes) // max(rows, 1),))
        semantics = CountingSemantics()
        dtype = operands.node.inputs[0].dtype if operands.node.inputs[0] else None
        a = Primitives(semantics, dtype or ir.DataType.FLOAT)
        self.row(operands.call(semantics=semantics), a, row)
        return rows * semantics.count

    def admits(self, use: Use) -> Hint | None:
        return _axes(use) if use.index == 1 else None

    def suggest(self, c: Choices, index: int, known: Known) -> Operand:
        return axes(c, index, none=True)


def _axes(use: Use) -> Hint:
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


class ReduceSum(Reduce):
    """The sum."""

    algebra = Algebra(monotone={0: 1}, linear=(0,))

    def row(self, call: Call, a: Primitives, terms: Elements) -> Scalar:
        return a.total(terms)


class ReduceMean(Reduce):
    """The mean, which nothing has none of."""

    algebra = Algebra(monotone={0: 1}, linear=(0,))

    def row(self, call: Call, a: Primitives, terms: Elements) -> Scalar:
        if not terms.shape[-1]:
            raise Unsupported("the mean of nothing")
        # ONNX Runtime divides the sum it has for ReduceSum, bit for bit.
        return a.div(a.total(terms), float(terms.shape[-1]))


class _Extreme(Reduce, abstract=True):
    primitive: ClassVar[str]
    algebra = _RISING
    exact_bits = None

    def row(self, call: Call, a: Primitives, terms: Elements) -> Scalar:
        if not terms.shape[-1]:
            raise Unsupported("the extreme of nothing")
        inexact = is_float(a.dtype) and not call.semantics.expands
        if inexact and terms.shape[-1] > 1:
            # Which NaN a kernel sees depends on its order, so that only a function is known.
            return a.function(f"Reduce_{self.primitive}", *terms)
        return a.fold(self.primitive, terms)


class ReduceMax(_Extreme):
    """The greatest element."""

    primitive = "max"


class ReduceMin(_Extreme):
    """The least element."""

    primitive = "min"


class ReduceProd(Reduce):
    """The product."""

    exact_bits = 4

    def row(self, call: Call, a: Primitives, terms: Elements) -> Scalar:
        if is_float(a.dtype) and not call.semantics.expands and terms.shape[-1] > 2:
            return a.function("Product", *terms)
        return a.fold("mul", terms) if terms.shape[-1] else a.scalar(1)


class ReduceSumSquare(Reduce):
    """The sum of squares."""

    exact_bits = 10
    algebra = Algebra(even=True)

    def row(self, call: Call, a: Primitives, terms: Elements) -> Scalar:
        return a.dot(terms, terms)


class ReduceL1(Reduce):
    """The sum of absolute values."""

    algebra = Algebra(even=True)

    def row(self, call: Call, a: Primitives, terms: Elements) -> Scalar:
        return a.total(call.semantics.map(a.abs, terms))


class ReduceL2(Reduce):
    """The root of the sum of squares."""

    exact_bits = 10
    algebra = Algebra(even=True)

    def row(self, call: Call, a: Primitives, terms: Elements) -> Scalar:
        return a.sqrt(a.dot(terms, terms))


class ReduceLogSum(Reduce):
    """The logarithm of the sum."""

    algebra = _RISING

    def row(self, call: Call, a: Primitives, terms: Elements) -> Scalar:
        return a.log(a.total(terms))

    def admits(self, use: Use) -> Hint | None:
        return between(0.1, None) if use.index == 0 else super().admits(use)


class ReduceLogSumExp(Reduce):
    """The logarithm of the sum of exponentials."""

    algebra = _RISING

    def row(self, call: Call, a: Primitives, terms: Elements) -> Scalar:
        semantics = call.semantics
        if is_float(a.dtype) and not semantics.expands:
            return a.function("LogSumExp", *terms)
        if not is_float(a.dtype):
            # Signed and unsigned integers share a sort; their exponentials are not the same.
            return a.function(f"LogSumExp of {a.dtype.name}", *terms)
        if not semantics.overflows or not terms.shape[-1]:
            return a.log(a.total(semantics.map(a.exp, terms)))
        most = finite_top(a, terms)
        powers = semantics.map(lambda t, m: a.exp(a.sub(t, m)), terms, most[..., None])
        return a.add(a.log(a.total(powers)), most)


def finite_top(a: Primitives, terms: Elements) -> Elements:
    """Return the greatest element along the last axis, within the finite numbers.

    Args:
        a: Primitives of the element type.
        terms: Elements [..., n].
    """
    return np.asarray(a.clip(a.fold("max", terms), *a.extremes()))


class _Arg(Operator, abstract=True):
    """The place of an extreme: the first one, or with an attribute the last."""

    least: ClassVar[bool]

    def cost(self, operands: Operands) -> int | None:
        return operands.elements(0)

    def bounds(self, operands: Operands) -> Interval | None:
        shape = operands.sizes(0)
        size = shape[operands.node.attributes.get_int("axis", 0)] if shape else 1
        return 0.0, float(max(0, size - 1))

    def evaluate(self, call: Call) -> Tensor:
        x = call.required(0)
        axis = call.axis(0, len(x.shape))
        a = call.primitives(x.dtype)
        rows, _ = gathered(x.data, [axis])
        found = call.semantics.along(lambda terms: self._place(call, a, terms), rows)
        if call.flag("keepdims", 1):
            found = np.expand_dims(found, axis)
        return Tensor(found, ir.DataType.INT64)

    def _place(self, call: Call, a: Primitives, terms: Elements) -> Scalar:
        if not terms.shape[-1]:
            raise Unsupported("the place of the extreme of nothing")
        last, index = call.flag("select_last_index"), call.primitives(ir.DataType.INT64)
        if is_float(a.dtype) and not call.semantics.expands:
            # What a NaN is held for depends on the kernel.
            return index.function(f"{self.op_type}[{last:d}]", *terms)
        return first_extreme(a, index, terms, least=self.least, last=last)


def first_extreme(
    a: Primitives, index: Primitives, row: Elements, *, least: bool = False, last: bool = False
) -> Scalar:
    """Return the place of the greatest element along the last axis.

    Args:
        a: Primitives of the element type.
        index: Primitives of places.
        row: Elements [..., n], with n from 1.
        least: Whether the least element is meant.
        last: Whether the last of equal elements is.
    """
    test = a.less_equal if last else a.less
    best, *rest = columns(row)
    place = index.scalar(0)
    for i, term in enumerate(rest, 1):
        better = test(term, best) if least else test(best, term)
        best, place = a.select(better, term, best), index.select(better, i, place)
    return np.broadcast_to(place, np.shape(best)) if np.ndim(best) else place


class ArgMax(_Arg):
    """The place of the greatest element."""

    least = False


class ArgMin(_Arg):
    """The place of the least element."""

    least = True


class _Cumulative(Operator, abstract=True):
    """What the elements up to each place come to."""

    steers = (1,)

    def cost(self, operands: Operands) -> int | None:
        return operands.elements(0)

    def row(self, a: Primitives, terms: Elements) -> Scalar:
        raise NotImplementedError

    def evaluate(self, call: Call) -> Tensor:
        x = call.required(0)
        axis = normalize_axis(call.static_ints(1)[0], len(x.shape))
        step = -1 if call.flag("reverse") else 1
        moved, a = np.moveaxis(x.data, axis, -1)[..., ::step], call.primitives(x.dtype)
        more = 0 if call.flag("exclusive") else 1
        ends = range(more, moved.shape[-1] + more)
        parts = [
            call.semantics.along(lambda terms: self.row(a, terms), moved[..., :end])
            for end in ends
        ]
        found = np.stack(parts, -1) if parts else moved
        return Tensor(np.moveaxis(found[..., ::step], -1, axis), x.dtype)

    def admits(self, use: Use) -> Hint | None:
        shape = use.input_shape(0)
        rank = 1 if shape is None else len(shape)
        return between(0, max(0, rank - 1)) if use.index == 1 else None


class CumSum(_Cumulative):
    """Sums of the elements up to each place."""

    algebra = Algebra(monotone={0: 1}, linear=(0,))

    def row(self, a: Primitives, terms: Elements) -> Scalar:
        return a.total(terms)


class CumProd(_Cumulative):
    """Products of the elements up to each place."""

    def row(self, a: Primitives, terms: Elements) -> Scalar:
        shape = terms.shape[:-1]
        if not terms.shape[-1]:
            return np.broadcast_to(a.scalar(1), shape) if shape else a.scalar(1)
        return a.fold("mul", terms)


class _Normal(Operator, abstract=True):
    """A function of each element and all along an axis, or before opset 13 behind it."""

    def rows(self, call: Call, a: Primitives, x: Elements) -> Elements:
        raise NotImplementedError

    def cost(self, operands: Operands) -> int | None:
        return operands.counted([operands.sizes(0)], self)

    def evaluate(self, call: Call) -> Tensor:
        x = call.required(0)
        rank = len(x.shape)
        axis = call.axis(-1 if call.opset >= 13 else 1, rank)
        axes = [axis] if call.opset >= 13 else list(range(axis, rank))
        rest = [i for i in range(rank) if i not in axes]
        rows, outer = gathered(x.data, axes)
        a = call.primitives(x.dtype)
        if not call.semantics.expands:
            found = opaque_rows(call, a, rows, self.op_type)
        else:
            found = self.rows(call, a, rows)
        shape = (*outer, *(x.shape[i] for i in axes))
        return Tensor(found.reshape(shape).transpose(np.argsort([*rest, *axes])), x.dtype)


def opaque_rows(call: Call, a: Primitives, rows: Elements, label: str) -> Elements:
    """Take each element of a row as a function of the whole row.

    Args:
        call: The call, for its arithmetic.
        a: Primitives of the element type.
        rows: Elements [..., n].
        label: Name of the function.
    """
    parts = [
        call.semantics.along(lambda row, i=i: a.function(f"{label}[{i}]", *row), rows)
        for i in range(rows.shape[-1])
    ]
    return np.stack(parts, -1) if parts else rows


def _lowered(call: Call, a: Primitives, rows: Elements) -> Elements:
    """Return rows less their greatest element, where powers of them would overflow."""
    if not call.semantics.overflows or not rows.shape[-1]:
        return rows
    return call.semantics.map(a.sub, rows, finite_top(a, rows)[..., None])


def summed(call: Call, function: Callable[..., Any], *rows: Elements) -> Elements:
    """Return a function of rows, as columns that broadcast with them.

    Args:
        call: The call, for its arithmetic.
        function: Gets a row of each array.
        *rows: Elements [..., n].
    """
    return call.semantics.along(function, *rows)[..., None]


def softmax(call: Call, a: Primitives, rows: Elements) -> Elements:
    """Return exponentials over their sum along the last axis.

    Args:
        call: The call, for its arithmetic.
        a: Primitives of the element type.
        rows: Elements [..., n].
    """
    powers = call.semantics.map(a.exp, _lowered(call, a, rows))
    return call.semantics.map(a.div, powers, summed(call, a.total, powers))


class Softmax(_Normal):
    """Exponentials over their sum."""

    def bounds(self, operands: Operands) -> Interval | None:
        dtype = operands.node.outputs[0].dtype or ir.DataType.FLOAT
        return 0.0, 1.0 + ULPS * resolution(dtype)

    def rows(self, call: Call, a: Primitives, x: Elements) -> Elements:
        return softmax(call, a, x)


class LogSoftmax(_Normal):
    """The logarithm of the softmax."""

    def rows(self, call: Call, a: Primitives, x: Elements) -> Elements:
        lowered = _lowered(call, a, x)
        powers = call.semantics.map(a.exp, lowered)
        logs = call.semantics.map(a.log, summed(call, a.total, powers))
        return call.semantics.map(a.sub, lowered, logs)


class Hardmax(_Normal):
    """One at the first of the greatest elements, zeros elsewhere."""

    def bounds(self, operands: Operands) -> Interval | None:
        return 0.0, 1.0

    def rows(self, call: Call, a: Primitives, x: Elements) -> Elements:
        if not x.shape[-1]:
            return x
        index = call.primitives(ir.DataType.INT64)
        place = call.semantics.along(lambda row: first_extreme(a, index, row), x)
        parts = [
            call.semantics.map(lambda at, i=i: a.select(index.equal(at, i), 1.0, 0.0), place)
            for i in range(x.shape[-1])
        ]
        return np.stack(parts, -1)
