"""Operators that ONNX once tried out, and that ONNX Runtime still runs."""

from __future__ import annotations

import numpy as np

from onnx_passes.ops.call import Call, Tensor
from onnx_passes.ops.composition import Composition
from onnx_passes.ops.elementwise_base import Elementwise
from onnx_passes.ops.normalization import RMSNormalization
from onnx_passes.ops.operator_class import Algebra
from onnx_passes.ops.primitives import TypedPrimitives
from onnx_passes.ops.semantics import Misfit, Scalar
from onnx_passes.ops.slicing import Slice


class Affine(Elementwise):
    """A factor times the operand, plus a number."""

    attributes = (("alpha", 1.0), ("beta", 0.0))
    algebra = Algebra(affine=(0,))

    def formula(self, a: TypedPrimitives, x: Scalar, alpha: float, beta: float) -> Scalar:
        return a.add(a.mul(alpha, x), beta)


class Scale(Elementwise):
    """A factor times the operand."""

    attributes = (("scale", 1.0),)
    algebra = Algebra(linear=(0,))

    def formula(self, a: TypedPrimitives, x: Scalar, scale: float) -> Scalar:
        return a.mul(x, scale)


class ScaledTanh(Elementwise):
    """A factor times tanh of the operand times another."""

    opaque, attributes = True, (("alpha", 1.0), ("beta", 1.0))

    def formula(self, a: TypedPrimitives, x: Scalar, alpha: float, beta: float) -> Scalar:
        return a.mul(alpha, a.tanh(a.mul(beta, x)))


class ParametricSoftplus(Elementwise):
    """A factor times log(1 + exp(x)) of the operand times another."""

    opaque, size, attributes = True, 1.0, (("alpha", 1.0), ("beta", 1.0))

    def formula(self, a: TypedPrimitives, x: Scalar, alpha: float, beta: float) -> Scalar:
        t = a.mul(beta, x)
        rest = a.log(a.add(1.0, a.exp(a.neg(a.abs(t)))))
        return a.mul(alpha, a.add(a.max(t, 0.0), rest))


class SimplifiedLayerNormalization(RMSNormalization):
    """The last axes by the root of the mean of their squares, times a factor."""


class DynamicSlice(Slice):
    """The elements between computed bounds."""


class ImageScaler(Composition):
    """An image times a factor, plus a number for each channel."""

    def computed(self, call: Call) -> Tensor:
        x, a = call.required(0), call.primitives(call.required(0).dtype)
        bias = np.float32(call.attribute("bias", ())).reshape(-1, 1, 1)
        if bias.size != x.shape[1]:
            raise Misfit(f"{bias.size} numbers for {x.shape[1]} channels")
        numbers = call.semantics.constant(bias.astype(x.dtype.numpy()), x.dtype)
        factor = call.literal(call.number("scale", 1.0), x.dtype)
        found = call.semantics.map(lambda v, b: a.add(a.mul(factor, v), b), x.data, numbers)
        return Tensor(found, x.dtype)


class Crop(Composition):
    """A part of an image."""

    rounds = False

    def computed(self, call: Call) -> Tensor:
        x, scale = call.required(0), call.integers("scale")
        left, top, right, bottom = call.integers("border") or [0, 0, 0, 0]
        height, width = x.shape[2:]
        ends = (height - bottom, width - right)
        if scale:
            ends = (top + scale[0], left + scale[1])
        if not (top < ends[0] <= height and left < ends[1] <= width):
            raise Misfit(f"a part of {height} by {width} up to {ends}")
        return Tensor(x.data[:, :, top : ends[0], left : ends[1]], x.dtype)
