"""Products of integers, and of quantised numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

import onnx_ir as ir

from onnx_passes.ops.call import Call, Tensor
from onnx_passes.ops.convolution import Conv, conv_cost
from onnx_passes.ops.input_hints import ValueHint
from onnx_passes.ops.linear import matmul, matmul_cost
from onnx_passes.ops.operands import Operands
from onnx_passes.ops.operator_class import Operator
from onnx_passes.ops.quantization import SCALE, ZERO
from onnx_passes.ops.semantics import Elements, Scalar, Unsupported
from onnx_passes.ops.suggestions import Choices, Known, Operand, first
from onnx_passes.ops.use import Use

_CONV = Conv()


class _Integers(Operator, abstract=True):
    """Sums of products of integers, less their zero points.

    Attributes:
        scales: Operands that are scales.
        zeros: Operands that are zero points which engines want to be zero.
    """

    scales: ClassVar[tuple[int, ...]] = ()
    zeros: ClassVar[tuple[int, ...]] = (3,)

    def admits(self, use: Use) -> ValueHint | None:
        return SCALE if use.index in self.scales else ZERO if use.index in self.zeros else None


def _lowered(call: Call, index: int, zero: int, axis: int | None = None) -> Tensor:
    """Return an operand less its zero point, in 32 bits.

    Args:
        call: The call.
        index: Number of the operand.
        zero: Number of the operand that is the zero point.
        axis: The axis that zero points of rank 1 go along; None where there is one number.
    """
    x, less = call.required(index), call.given(zero)
    if less is None:
        return _widened(call, x)
    wide = ir.DataType.INT32
    per_axis = Tensor(_along(call, less, axis, len(x.shape)), less.dtype)
    subtract = call.primitives(wide).sub
    return call.map(subtract, wide, _widened(call, x), _widened(call, per_axis))


def _along(call: Call, given: Tensor, axis: int | None, rank: int) -> Elements:
    """Return one number, or numbers along an axis, so that they broadcast."""
    if given.data.size == 1:
        return given.data.reshape(())
    if axis is None or len(given.shape) > 1:
        raise Unsupported(f"{call.node.op_type} with parameters of shape {given.shape}")
    return given.data.reshape([-1 if i == axis % rank else 1 for i in range(rank)])


def _widened(call: Call, x: Tensor) -> Tensor:
    wide = ir.DataType.INT32
    return call.map(lambda v: call.semantics.cast(v, x.dtype, wide), wide, x)


def _requantized(call: Call, sums: Tensor, scales: Sequence[int], axis: int) -> Tensor:
    """Return sums of products as levels of the result.

    Args:
        call: The call.
        sums: The sums, in 32 bits.
        scales: Numbers of the scales of both factors, of the result, and of its zero point.
        axis: The axis that scales of the second factor go along.
    """
    first, second, made = (call.required(i) for i in scales[:3])
    zero = call.required(scales[3])
    a, cast = call.primitives(first.dtype), call.semantics.cast
    target, ends = zero.dtype, (float(int(zero.dtype.min)), float(int(zero.dtype.max)))
    rank = len(sums.shape)
    parts = [
        Tensor(_along(call, t, x, rank), t.dtype)
        for t, x in ((first, None), (second, axis), (made, None), (zero, None))
    ]

    def level(total: Scalar, p: Scalar, q: Scalar, r: Scalar, z: Scalar) -> Scalar:
        ratio = a.div(a.mul(p, q), r)
        found = a.round(a.mul(cast(total, ir.DataType.INT32, first.dtype), ratio))
        found = a.add(found, cast(z, target, first.dtype))
        return cast(a.clip(found, *ends), first.dtype, target)

    if not call.semantics.expands:
        raise Unsupported(f"{call.node.op_type} in this arithmetic")
    return call.map(level, target, sums, *parts)


class MatMulInteger(_Integers):
    """A product of matrices of integers, in 32 bits."""

    def evaluate(self, call: Call) -> Tensor:
        return matmul(call, _lowered(call, 0, 2, -2), _lowered(call, 1, 3, -1))

    def cost(self, operands: Operands) -> int | None:
        return matmul_cost(operands)


class QLinearMatMul(_Integers):
    """A product of quantized matrices, quantized."""

    scales, zeros = (1, 4, 6), (5,)

    def evaluate(self, call: Call) -> Tensor:
        sums = matmul(call, _lowered(call, 0, 2), _lowered(call, 3, 5, -1))
        return _requantized(call, sums, (1, 4, 6, 7), -1)

    def cost(self, operands: Operands) -> int | None:
        return matmul_cost(operands)

    def suggest(self, c: Choices, index: int, known: Known) -> Operand:
        if index in (1, 4, 6):
            return Operand((), ir.DataType.FLOAT, constant=True, positive=True)
        if index in (2, 5, 7):
            return Operand((), ir.DataType.UINT8, constant=True)
        return Operand(
            (2, 3) if index == 0 else (3, 4), ir.DataType.UINT8, constant=index == 3
        )


class ConvInteger(_Integers):
    """A convolution of integers, in 32 bits."""

    def evaluate(self, call: Call) -> Tensor:
        sides = [_lowered(call, 0, 2), _lowered(call, 1, 3, 0)]
        return _CONV.evaluate(replace(call, inputs=sides))

    def cost(self, operands: Operands) -> int | None:
        return conv_cost(operands, weight=1, bias=99)

    def suggest(self, c: Choices, index: int, known: Known) -> Operand:
        bytes_ = (ir.DataType.INT8, ir.DataType.UINT8)
        dtype = c.dtype if c.dtype in bytes_ and index in (0, 2) else ir.DataType.UINT8
        if index < 2:
            operand = _CONV.suggest(c, index, known)
            return Operand(operand.shape, dtype, constant=operand.constant)
        return Operand((), dtype, constant=True)


class QLinearConv(_Integers):
    """A convolution of quantized images, quantized."""

    scales, zeros = (1, 4, 6), (5,)

    def evaluate(self, call: Call) -> Tensor:
        sides = [_lowered(call, 0, 2), _lowered(call, 3, 5, 0), call.given(8)]
        sums = _CONV.evaluate(replace(call, inputs=sides))
        return _requantized(call, sums, (1, 4, 6, 7), 1)

    def cost(self, operands: Operands) -> int | None:
        return conv_cost(operands, weight=3, bias=8)

    def suggest(self, c: Choices, index: int, known: Known) -> Operand:
        if index in (1, 4, 6):
            return Operand((), ir.DataType.FLOAT, constant=True, positive=True)
        if index in (2, 5, 7):
            return Operand((), ir.DataType.UINT8, constant=True)
        x = first(known, (1, 2, 5, 5))
        if index == 8:
            w = known[3] if len(known) > 3 else None
            return Operand((w[0] if w else 4,), ir.DataType.INT32, constant=True)
        operand = _CONV.suggest(c, 1 if index == 3 else 0, [x])
        return Operand(operand.shape, ir.DataType.UINT8, constant=index == 3)
