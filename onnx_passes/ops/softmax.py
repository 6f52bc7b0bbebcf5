"""Operators that weigh each element against all along an axis: Softmax and its kin."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from onnx_passes.ops import later_changes
from onnx_passes.ops.call import Call, Tensor
from onnx_passes.ops.domains.interval_ends import ULPS, Interval, resolution
from onnx_passes.ops.extremes import first_extreme
from onnx_passes.ops.operands import Operands
from onnx_passes.ops.operator_class import Operator
from onnx_passes.ops.primitives import TypedPrimitives
from onnx_passes.ops.rows import along_axes, finite_top, summed
from onnx_passes.ops.semantics import Elements


class _Normal(Operator, abstract=True):
    """A function of each element and all along an axis, or before opset 13 behind it."""

    changes = later_changes.SOFTMAX

    def rows(self, call: Call, a: TypedPrimitives, x: Elements) -> Elements:
        raise NotImplementedError

    def cost(self, operands: Operands) -> int | None:
        return operands.counted([operands.sizes(0)], self.evaluate)

    def evaluate(self, call: Call) -> Tensor:
        x = call.required(0)
        rank = len(x.shape)
        axis = call.axis(-1 if call.opset >= 13 else 1, rank)
        axes = [axis] if call.opset >= 13 else list(range(axis, rank))
        return along_axes(call, x, axes, self.op_type, self.rows)


def _lowered(call: Call, a: TypedPrimitives, rows: Elements) -> Elements:
    """Return rows less their greatest element, where powers of them would overflow."""
    if not call.semantics.overflows or not rows.shape[-1]:
        return rows
    return call.semantics.map(a.sub, rows, finite_top(a, rows)[..., None])


def softmax(call: Call, a: TypedPrimitives, rows: Elements) -> Elements:
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

    def rows(self, call: Call, a: TypedPrimitives, x: Elements) -> Elements:
        return softmax(call, a, x)


class LogSoftmax(_Normal):
    """The logarithm of the softmax."""

    def rows(self, call: Call, a: TypedPrimitives, x: Elements) -> Elements:
        lowered = _lowered(call, a, x)
        powers = call.semantics.map(a.exp, lowered)
        logs = call.semantics.map(a.log, summed(call, a.total, powers))
        return call.semantics.map(a.sub, lowered, logs)


class Hardmax(_Normal):
    """One at the first of the greatest elements, zeros elsewhere."""

    def bounds(self, operands: Operands) -> Interval | None:
        return 0.0, 1.0

    def rows(self, call: Call, a: TypedPrimitives, x: Elements) -> Elements:
        if not x.shape[-1]:
            return x
        index = call.primitives(ir.DataType.INT64)
        place = call.semantics.along(lambda row: first_extreme(a, index, row), x)
        parts = [
            call.semantics.map(lambda at, i=i: a.select(index.equal(at, i), 1.0, 0.0), place)
            for i in range(x.shape[-1])
        ]
        return np.stack(parts, -1)
