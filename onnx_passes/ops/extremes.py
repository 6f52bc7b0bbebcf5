"""Operators that give the place of the greatest or least element: ArgMax, ArgMin."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import onnx_ir as ir

from onnx_passes.ops.call import Call, Tensor
from onnx_passes.ops.domains.interval_ends import Interval
from onnx_passes.ops.operands import Operands
from onnx_passes.ops.operator_class import Operator
from onnx_passes.ops.primitives import TypedPrimitives
from onnx_passes.ops.rows import gathered
from onnx_passes.ops.semantics import Elements, Scalar, Unsupported, columns, is_float


class _Arg(Operator, abstract=True):
    """The place of an extreme: the first one, or with an attribute the last."""

    in_range = (0,)
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

    def _place(self, call: Call, a: TypedPrimitives, terms: Elements) -> Scalar:
        if not terms.shape[-1]:
            raise Unsupported("the place of the extreme of nothing")
        last, index = call.flag("select_last_index"), call.primitives(ir.DataType.INT64)
        if is_float(a.dtype) and not call.semantics.expands:
            # What a NaN is held for depends on the kernel.
            return index.function(f"{self.op_type}[{last:d}]", *terms)
        return first_extreme(a, index, terms, least=self.least, last=last)


def first_extreme(
    a: TypedPrimitives,
    index: TypedPrimitives,
    row: Elements,
    *,
    least: bool = False,
    last: bool = False,
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
