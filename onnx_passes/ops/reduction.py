"""Operators that fold axes into one element: ReduceSum, ReduceMax, ..."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import onnx_ir as ir

from onnx_passes.ops import later_changes
from onnx_passes.ops.call import Call, Tensor, normalize_axis
from onnx_passes.ops.domains.block_products import reduced
from onnx_passes.ops.domains.block_values import Blocks, Node, dropped
from onnx_passes.ops.domains.counting import CountingSemantics, blank
from onnx_passes.ops.input_hints import ValueHint, between, exactly
from onnx_passes.ops.operands import Operands
from onnx_passes.ops.operator_class import Algebra, Operator
from onnx_passes.ops.primitives import TypedPrimitives
from onnx_passes.ops.rows import finite_top, gathered
from onnx_passes.ops.semantics import Elements, Scalar, Unsupported, is_float
from onnx_passes.ops.suggestions import Choices, Known, Operand, axes
from onnx_passes.ops.use import Shape, Use

_RISING = Algebra(monotone={0: 1})


class Reduce(Operator, abstract=True):
    """A Reduce operator: a function of the elements along some axes.

    Where no axes are named that is all of them, or, with ``noop_with_empty_axes``, none.
    """

    changes = later_changes.REDUCTION

    steers, exact = (1,), (1,)
    # ONNX Runtime adds integers in double precision, and cuts what is too large.
    exact_bits: ClassVar[int | None] = 20

    def row(self, call: Call, a: TypedPrimitives, terms: Elements) -> Scalar:
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
        a = TypedPrimitives(semantics, dtype or ir.DataType.FLOAT)
        self.row(operands.call(semantics=semantics), a, row)
        return rows * semantics.count

    def admits(self, use: Use) -> ValueHint | None:
        return _axes(use) if use.index == 1 else None

    def suggest(self, c: Choices, index: int, known: Known) -> Operand:
        return axes(c, index, none=True)


def _axes(use: Use) -> ValueHint:
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

    changes = later_changes.REDUCE_SUM

    algebra = Algebra(monotone={0: 1}, linear=(0,))

    def row(self, call: Call, a: TypedPrimitives, terms: Elements) -> Scalar:
        return a.total(terms)

    def blocks(self, node: Node) -> Blocks:
        return _block_sums(node, mean=False)


class ReduceMean(Reduce):
    """The mean, which nothing has none of."""

    algebra = Algebra(monotone={0: 1}, linear=(0,))

    def row(self, call: Call, a: TypedPrimitives, terms: Elements) -> Scalar:
        if not terms.shape[-1]:
            raise Unsupported("the mean of nothing")
        # ONNX Runtime divides the sum it has for ReduceSum, bit for bit.
        return a.div(a.total(terms), float(terms.shape[-1]))

    def blocks(self, node: Node) -> Blocks:
        return _block_sums(node, mean=True)


class _Extreme(Reduce, abstract=True):
    primitive: ClassVar[str]
    algebra = _RISING
    exact_bits = None

    def row(self, call: Call, a: TypedPrimitives, terms: Elements) -> Scalar:
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

    def row(self, call: Call, a: TypedPrimitives, terms: Elements) -> Scalar:
        if is_float(a.dtype) and not call.semantics.expands and terms.shape[-1] > 2:
            return a.function("Product", *terms)
        return a.fold("mul", terms) if terms.shape[-1] else a.scalar(1)


class ReduceSumSquare(Reduce):
    """The sum of squares."""

    exact_bits = 10
    algebra = Algebra(even=True)

    def row(self, call: Call, a: TypedPrimitives, terms: Elements) -> Scalar:
        return a.dot(terms, terms)


class ReduceL1(Reduce):
    """The sum of absolute values."""

    algebra = Algebra(even=True)

    def row(self, call: Call, a: TypedPrimitives, terms: Elements) -> Scalar:
        return a.total(call.semantics.map(a.abs, terms))


class ReduceL2(Reduce):
    """The root of the sum of squares."""

    exact_bits = 10
    algebra = Algebra(even=True)

    def row(self, call: Call, a: TypedPrimitives, terms: Elements) -> Scalar:
        return a.sqrt(a.dot(terms, terms))


class ReduceLogSum(Reduce):
    """The logarithm of the sum."""

    algebra = _RISING

    def row(self, call: Call, a: TypedPrimitives, terms: Elements) -> Scalar:
        return a.log(a.total(terms))

    def admits(self, use: Use) -> ValueHint | None:
        return between(0.1, None) if use.index == 0 else super().admits(use)


class ReduceLogSumExp(Reduce):
    """The logarithm of the sum of exponentials."""

    algebra = _RISING

    def row(self, call: Call, a: TypedPrimitives, terms: Elements) -> Scalar:
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


def _block_sums(node: Node, *, mean: bool) -> Blocks:
    x = node.required(0)
    axes = node.ints(1, "axes")
    if not axes and node.attribute("noop_with_empty_axes", 0):
        return x
    folded = sorted({normalize_axis(a, x.rank) for a in axes or range(x.rank)})
    result = reduced(node, x, folded, mean=mean)
    if node.attribute("keepdims", 1):
        return result
    return dropped(result, [i for i in range(x.rank) if i not in folded])
