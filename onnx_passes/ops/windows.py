"""Operators that pool the elements of an image, under a kernel or all."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import onnx_ir as ir

from onnx_passes.ops import early_changes
from onnx_passes.ops.call import Call, Tensor, constant
from onnx_passes.ops.domains.interval_ends import ULPS, UNBOUNDED, Interval, hull, resolution
from onnx_passes.ops.norms import norm
from onnx_passes.ops.operands import Operands
from onnx_passes.ops.operator_class import Algebra, Operator
from onnx_passes.ops.primitives import TypedPrimitives
from onnx_passes.ops.semantics import Elements, Scalar, Unsupported, present
from onnx_passes.ops.window_places import SlidingWindow


class _Pool(Operator, abstract=True):
    """A function of the elements under a kernel."""

    fill: ClassVar[float]

    def cost(self, operands: Operands) -> int | None:
        size = operands.node.attributes.get_ints("kernel_shape", ())
        return operands.made() * math.prod(size)

    def bounds(self, operands: Operands) -> Interval | None:
        found, size = operands.hull(0), operands.node.attributes.get_ints("kernel_shape", (1,))
        if self.fill:
            return found
        low, high = hull(found, (0.0, 0.0))
        dtype = operands.node.outputs[0].dtype or ir.DataType.FLOAT
        error = (ULPS + math.prod(size)) * resolution(dtype) * max(abs(low), abs(high))
        return (low - error, high + error) if math.isfinite(error) else UNBOUNDED

    def pooled(
        self, call: Call, a: TypedPrimitives, rows: Elements, counts: Elements
    ) -> Elements:
        """Return what rows of elements become if ``counts`` of them lie in the image."""
        raise NotImplementedError

    def evaluate(self, call: Call) -> Tensor:
        if len([o for o in call.node.outputs if o.name]) > 1:
            raise Unsupported(f"{self.op_type} with indices")
        x = call.required(0)
        kernel = call.integers("kernel_shape") or []
        dilated = set(call.integers("dilations") or ()) - {1}
        if dilated and call.text("auto_pad", "NOTSET").startswith("SAME"):
            raise Unsupported("a dilated pool of the same size, where engines differ")
        window = SlidingWindow.of(call, x.shape[2:], kernel)
        inside = (window.places() >= 0).sum(-1)
        if not inside.all():
            raise Unsupported("a pooling window that lies in the padding")
        counts = np.full_like(inside, math.prod(kernel)) if self._whole(call) else inside
        rows = window.rows(call, x, self.fill)
        found = self.pooled(call, call.primitives(x.dtype), rows, counts)
        return Tensor(found.reshape(*x.shape[:2], *window.output), x.dtype)

    def _whole(self, call: Call) -> bool:
        """Whether padding counts."""
        return call.flag("count_include_pad")


class MaxPool(_Pool):
    """The greatest element under the kernel."""

    fill, chooses = -math.inf, (0,)
    algebra = Algebra(monotone={0: 1})

    def pooled(
        self, call: Call, a: TypedPrimitives, rows: Elements, counts: Elements
    ) -> Elements:
        exact = call.semantics.expands or a.dtype.is_integer()
        return _largest(call, a, rows, exact, "MaxPool")


class AveragePool(_Pool):
    """The mean of the elements under the kernel."""

    fill = 0.0
    algebra = Algebra(monotone={0: 1}, linear=(0,))

    def pooled(
        self, call: Call, a: TypedPrimitives, rows: Elements, counts: Elements
    ) -> Elements:
        if call.flag("ceil_mode"):
            raise Unsupported("AveragePool with ceil_mode")
        return _averaged(call, a, rows, counts, "AveragePool[{}]")


class LpPool(_Pool):
    """The norm of the elements under the kernel."""

    changes = early_changes.EXPONENT

    fill = 0.0

    def bounds(self, operands: Operands) -> Interval | None:
        return 0.0, math.inf

    def pooled(
        self, call: Call, a: TypedPrimitives, rows: Elements, counts: Elements
    ) -> Elements:
        return _norms(call, a, rows)


class _GlobalPool(Operator, abstract=True):
    def cost(self, operands: Operands) -> int | None:
        return operands.elements(0)

    def representatives(self, operands: Operands) -> Sequence[Sequence[int]]:
        return [(1, 1, *operands.sizes(0)[2:])]

    def pooled(self, call: Call, a: TypedPrimitives, rows: Elements) -> Elements:
        raise NotImplementedError

    def evaluate(self, call: Call) -> Tensor:
        x = call.required(0)
        rows = x.data.reshape(*x.shape[:2], math.prod(x.shape[2:]))
        found = self.pooled(call, call.primitives(x.dtype), rows)
        return Tensor(found.reshape(*x.shape[:2], *[1] * (len(x.shape) - 2)), x.dtype)


class GlobalMaxPool(_GlobalPool):
    """The greatest element of each channel."""

    algebra = Algebra(monotone={0: 1})

    def pooled(self, call: Call, a: TypedPrimitives, rows: Elements) -> Elements:
        return _largest(call, a, rows, call.semantics.expands, "GlobalMaxPool")


class GlobalAveragePool(_GlobalPool):
    """The mean of each channel."""

    algebra = Algebra(monotone={0: 1}, linear=(0,))

    def pooled(self, call: Call, a: TypedPrimitives, rows: Elements) -> Elements:
        counts = np.full(1, rows.shape[-1])
        return _averaged(call, a, rows, counts, "GlobalAveragePool")


class GlobalLpPool(_GlobalPool):
    """The norm of each channel."""

    changes = early_changes.EXPONENT

    def bounds(self, operands: Operands) -> Interval | None:
        return 0.0, math.inf

    def pooled(self, call: Call, a: TypedPrimitives, rows: Elements) -> Elements:
        return _norms(call, a, rows)


def _norms(call: Call, a: TypedPrimitives, rows: Elements) -> Elements:
    if call.semantics.expands:
        return call.semantics.along(lambda row: norm(call, a, row, 2), rows)
    label = f"Norm[{call.integer('p', 2)}]"
    return call.semantics.along(lambda row: a.function(label, *present(row)), rows)


def _largest(
    call: Call, a: TypedPrimitives, rows: Elements, exact: bool, label: str
) -> Elements:
    def largest(row: Elements) -> Scalar:
        if exact or len(present(row)) == 1:
            return a.fold("max", row)
        return a.function(label, *present(row))

    return call.semantics.along(largest, rows)


def _averaged(
    call: Call, a: TypedPrimitives, rows: Elements, counts: Elements, label: str
) -> Elements:
    if call.semantics.expands or rows.shape[-1] == 1:
        totals = call.semantics.along(a.total, rows)
        divisors = constant(counts.astype(a.dtype.numpy()), a.dtype, call.semantics)
        return call.semantics.map(a.div, totals, divisors.data)

    def opaque(row: Elements, count: Elements) -> Scalar:
        terms = present(row)
        if len(terms) == 1:
            return a.div(terms[0], float(count[0]))
        return a.function(label.format(int(count[0])), *terms)

    return call.semantics.along(opaque, rows, counts[..., None])
