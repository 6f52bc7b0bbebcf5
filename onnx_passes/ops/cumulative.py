"""Operators on the elements up to each place of an axis: CumSum, CumProd."""

from __future__ import annotations

import numpy as np

from onnx_passes.ops.call import Call, Tensor, normalize_axis
from onnx_passes.ops.input_hints import ValueHint, between
from onnx_passes.ops.operands import Operands
from onnx_passes.ops.operator_class import Algebra, Operator
from onnx_passes.ops.primitives import TypedPrimitives
from onnx_passes.ops.semantics import Elements, Scalar
from onnx_passes.ops.use import Use


class _Cumulative(Operator, abstract=True):
    """What the elements up to each place come to."""

    steers = (1,)

    def cost(self, operands: Operands) -> int | None:
        return operands.elements(0)

    def row(self, a: TypedPrimitives, terms: Elements) -> Scalar:
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

    def admits(self, use: Use) -> ValueHint | None:
        shape = use.input_shape(0)
        rank = 1 if shape is None else len(shape)
        return between(0, max(0, rank - 1)) if use.index == 1 else None


class CumSum(_Cumulative):
    """Sums of the elements up to each place."""

    algebra = Algebra(monotone={0: 1}, linear=(0,))

    def row(self, a: TypedPrimitives, terms: Elements) -> Scalar:
        return a.total(terms)


class CumProd(_Cumulative):
    """Products of the elements up to each place."""

    def row(self, a: TypedPrimitives, terms: Elements) -> Scalar:
        shape = terms.shape[:-1]
        if not terms.shape[-1]:
            return np.broadcast_to(a.scalar(1), shape) if shape else a.scalar(1)
        return a.fold("mul", terms)
