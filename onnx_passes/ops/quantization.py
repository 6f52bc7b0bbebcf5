"""Operators between floats and the integers that stand for them."""

from __future__ import annotations

from typing import ClassVar

import onnx_ir as ir

from onnx_passes.ops.base import Algebra, Operator
from onnx_passes.ops.call import Call, Tensor, normalize_axis
from onnx_passes.ops.hints import Hint, between
from onnx_passes.ops.linear import conv_cost, matmul, matmul_cost
from onnx_passes.ops.operands import Operands
from onnx_passes.ops.semantics import Scalar, Unsupported, is_float
from onnx_passes.ops.use import Use

SCALE, ZERO = between(0.01, 0.1), between(0, 0)


class _Quantizer(Operator, abstract=True):
    """A conversion by a scale and a zero point, of all elements or by an axis."""

    algebra = Algebra(monotone={0: 1})

    def parameter(self, call: Call, index: int) -> Tensor | None:
        """Return a scale or zero point in a shape that broadcasts with the data."""
        given, rank = call.given(index), len(call.required(0).shape)
        if given is None or given.data.size == 1:
            return None if given is None else Tensor(given.data.reshape(()), given.dtype)
        if len(given.shape) > 1 or call.integer("block_size", 0):
            raise Unsupported(f"{self.op_type} by blocks")
        axis = normalize_axis(call.integer("axis", 1), rank)
        shape = [-1 if i == axis else 1 for i in range(rank)]
        return Tensor(given.data.reshape(shape), given.dtype)

    def admits(self, use: Use) -> Hint | None:
        if use.index == 1:
            return SCALE
        # Only integers up to 16 bits have a zero point other than zero.
        value = use.input(2)
        dtype = None if value is None else value.dtype
        wide = dtype is None or dtype.is_floating_point() or dtype == ir.DataType.INT32
        return ZERO if use.index == 2 and wide else None


class QuantizeLinear(_Quantizer):
    """The nearest integer of a quotient, plus a zero point, within an integer type."""

    def evaluate(self, call: Call) -> Tensor:
        x, scale, zero = call.required(0), self.parameter(call, 1), self.parameter(call, 2)
        default = ir.DataType(call.integer("output_dtype", 0) or ir.DataType.UINT8)
        target = default if zero is None else zero.dtype
        if scale is None or not target.is_integer() or not is_float(x.dtype):
            raise Unsupported(f"{self.op_type} of or to this type")
        a, cast = call.primitives(x.dtype), call.semantics.cast
        ends = float(int(target.min)), float(int(target.max))

        def quantize(v: Scalar, s: Scalar, *z: Scalar) -> Scalar:
            if not call.semantics.expands:
                return call.semantics.function(self.op_type, target, v, s, *z)
            level = a.round(a.div(v, s))
            level = a.add(level, cast(z[0], target, x.dtype)) if z else level
            return cast(a.clip(level, *ends), x.dtype, target)

        operands = [x, scale] if zero is None else [x, scale, zero]
        return call.map(quantize, target, *operands)


class DequantizeLinear(_Quantizer):
    """An integer less a zero point, times a scale."""

    algebra = Algebra(monotone={0: 1}, affine=(0,), linear=(1,))

    def evaluate(self, call: Call) -> Tensor:
        x, scale, zero = call.required(0), self.parameter(call, 1), self.parameter(call, 2)
        if scale is None or not x.dtype.is_integer() or not is_float(scale.dtype):
            raise Unsupported(f"{self.op_type} of or to this type")
        wide, cast = scale.dtype, call.semantics.cast
        a = call.primitives(wide)

        def dequantize(v: Scalar, s: Scalar, *z: Scalar) -> Scalar:
            if not call.semantics.expands:
                return call.semantics.function(self.op_type, wide, v, s, *z)
            level = cast(v, x.dtype, wide)
            level = a.sub(level, cast(z[0], x.dtype, wide)) if z else level
            return a.mul(level, s)

        operands = [x, scale] if zero is None else [x, scale, zero]
        return call.map(dequantize, wide, *operands)


class _Integers(Operator, abstract=True):
    """Sums of products of integers, less their zero points.

    Attributes:
        scales: Operands that are scales.
        zeros: Operands that are zero points which engines want to be zero.
    """

    scales: ClassVar[tuple[int, ...]] = ()
    zeros: ClassVar[tuple[int, ...]] = (3,)

    def admits(self, use: Use) -> Hint | None:
        return SCALE if use.index in self.scales else ZERO if use.index in self.zeros else None


class MatMulInteger(_Integers):
    """A product of matrices of integers, in 32 bits."""

    def evaluate(self, call: Call) -> Tensor:
        wide, sides = ir.DataType.INT32, []
        for index in (0, 1):
            x, zero = call.required(index), call.given(index + 2)
            side = _widened(call, x)
            if zero is not None:
                if zero.data.size != 1:
                    raise Unsupported("MatMulInteger with a zero point for each row")
                lowered = _widened(call, Tensor(zero.data.reshape(()), zero.dtype))
                side = call.map(call.primitives(wide).sub, wide, side, lowered)
            sides.append(side)
        return matmul(call, *sides)

    def cost(self, operands: Operands) -> int | None:
        return matmul_cost(operands)


def _widened(call: Call, x: Tensor) -> Tensor:
    wide = ir.DataType.INT32
    return call.map(lambda v: call.semantics.cast(v, x.dtype, wide), wide, x)


class QLinearMatMul(_Integers):
    """A product of quantized matrices, quantized."""

    scales, zeros = (1, 4, 6), (5,)

    def cost(self, operands: Operands) -> int | None:
        return matmul_cost(operands)


class ConvInteger(_Integers):
    """A convolution of integers, in 32 bits."""

    def cost(self, operands: Operands) -> int | None:
        return conv_cost(operands, weight=1, bias=99)


class QLinearConv(_Integers):
    """A convolution of quantized images, quantized."""

    scales, zeros = (1, 4, 6), (5,)

    def cost(self, operands: Operands) -> int | None:
        return conv_cost(operands, weight=3, bias=8)
