"""Operators of quantised numbers: conversions from and to floats, and products of integers."""

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np
import onnx_ir as ir

from onnx_passes.ops import versions
from onnx_passes.ops.call import Call, Operands, Tensor, constant, normalize_axis
from onnx_passes.ops.convolution import Conv, conv_cost
from onnx_passes.ops.input_hints import Choices, Known, Operand, Use, ValueHint, between, first
from onnx_passes.ops.linear import matmul, matmul_cost
from onnx_passes.ops.operator_class import Algebra, Operator
from onnx_passes.ops.semantics import Elements, Misfit, Scalar, Unsupported, is_float

SCALE, ZERO = between(0.01, 0.1), between(0, 0)


class _Quantizer(Operator, abstract=True):
    """A conversion by a scale and a zero point, of all elements or by an axis."""

    algebra = Algebra(monotone={0: 1})

    def parameter(self, call: Call, index: int) -> Tensor | None:
        """Return a scale or zero point in a shape that broadcasts with the data."""
        given, rank = call.given(index), len(call.required(0).shape)
        if given is None or given.data.size == 1:
            return None if given is None else Tensor(given.data.reshape(()), given.dtype)
        axis = normalize_axis(call.integer("axis", 1), rank)
        if block := call.integer("block_size", 0):
            size = call.required(0).shape[axis]
            spread = np.repeat(given.data, block, axis)
            return Tensor(spread[(slice(None),) * axis + (slice(size),)], given.dtype)
        if len(given.shape) > 1:
            raise Misfit(f"{self.op_type} by a scale of rank {len(given.shape)}")
        shape = [-1 if i == axis else 1 for i in range(rank)]
        return Tensor(given.data.reshape(shape), given.dtype)

    def operand_type(self, c: Choices) -> ir.DataType:
        """Return the type of the first operand of a template."""
        raise NotImplementedError

    def suggest(self, c: Choices, index: int, known: Known) -> Operand:
        if index == 0:
            return Operand(c.shape(), self.operand_type(c))
        if index == 2:
            scale = known[1] if len(known) > 1 else None
            return Operand(scale or (), c.levels)
        wide = c.dtype if is_float(c.dtype) else ir.DataType.FLOAT
        x, axis = first(known, ()), int(c.fixed.get("axis", 1))
        each = x[axis : axis + 1 or None]
        return Operand(c.pick(((), (), each)), wide, positive=True)

    def admits(self, use: Use) -> ValueHint | None:
        if use.index == 1:
            return SCALE
        # Only integers up to 16 bits have a zero point other than zero.
        value = use.input(2)
        dtype = None if value is None else value.dtype
        wide = dtype is None or dtype.is_floating_point() or dtype == ir.DataType.INT32
        return ZERO if use.index == 2 and wide else None


class QuantizeLinear(_Quantizer):
    """The nearest integer of a quotient, plus a zero point, within an integer type."""

    changes = versions.QUANTIZE

    def operand_type(self, c: Choices) -> ir.DataType:
        return c.dtype if is_float(c.dtype) else ir.DataType.FLOAT

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

    changes = versions.QUANTIZE

    algebra = Algebra(monotone={0: 1}, affine=(0,), linear=(1,))

    def operand_type(self, c: Choices) -> ir.DataType:
        return c.levels

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


class DynamicQuantizeLinear(Operator):
    """The nearest of 256 levels over the range of all elements and 0, and these levels."""

    def evaluate(self, call: Call) -> tuple[Tensor, ...]:
        x, target = call.required(0), ir.DataType.UINT8
        if not call.semantics.expands:
            raise Unsupported(f"{self.op_type} in this arithmetic")
        a, cast = call.primitives(x.dtype), call.semantics.cast
        row = np.append(
            x.data.reshape(-1), constant(np.zeros(1), x.dtype, call.semantics).data
        )
        least, most = a.fold("min", row), a.fold("max", row)
        width = a.sub(most, least)
        scale = a.select(a.equal(width, 0.0), 1.0, a.div(width, 255.0))
        zero = a.round(a.clip(a.neg(a.div(least, scale)), 0.0, 255.0))

        def quantize(v: Scalar) -> Scalar:
            level = a.add(a.round(a.div(v, scale)), zero)
            return cast(a.clip(level, 0.0, 255.0), x.dtype, target)

        return (
            call.map(quantize, target, x),
            Tensor(np.asarray(scale), x.dtype),
            Tensor(np.asarray(cast(zero, x.dtype, target)), target),
        )


_CONV = Conv()


class _Integers(Operator, abstract=True):
    """Sums of products of integers, less their zero points.

    ``scales`` are operands. ``zeros`` are zero points which engines want to be zero.
    """

    scales: ClassVar[tuple[int, ...]] = ()
    zeros: ClassVar[tuple[int, ...]] = (3,)

    def admits(self, use: Use) -> ValueHint | None:
        return SCALE if use.index in self.scales else ZERO if use.index in self.zeros else None


def _lowered(call: Call, index: int, zero: int, axis: int | None = None) -> Tensor:
    """Return an operand less its zero point along ``axis``, in 32 bits."""
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

    ``scales`` number the operands with the scales of both factors, the scale of the result,
    and its zero point. Scales of the second factor go along ``axis``.
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
