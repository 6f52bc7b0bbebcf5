"""Operators between floats and the integers that represent them."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from onnx_passes.ops import later_changes
from onnx_passes.ops.call import Call, Tensor, constant, normalize_axis
from onnx_passes.ops.input_hints import ValueHint, between
from onnx_passes.ops.operator_class import Algebra, Operator
from onnx_passes.ops.semantics import Misfit, Scalar, Unsupported, is_float
from onnx_passes.ops.suggestions import Choices, Known, Operand, first
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

    changes = later_changes.QUANTIZE

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

    changes = later_changes.QUANTIZE

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
