"""Functions of one number: transcendental ones, and activations behind a layer."""

import math
from collections.abc import Mapping

import numpy as np
import onnx_ir as ir

from onnx_passes.ops import (
    elementwise,  # noqa: F401 (makes operators known)
    versions,
)
from onnx_passes.ops.call import Call
from onnx_passes.ops.elementwise import Elementwise, Primitive, ScalarRule
from onnx_passes.ops.input_hints import between
from onnx_passes.ops.operator_class import Algebra
from onnx_passes.ops.semantics import Scalar, TypedPrimitives

_RISING = Algebra(monotone={0: 1})
_EVEN = Algebra(even=True)


class Sin(Primitive):
    """The sine."""

    primitive = "sin"


class Cos(Primitive):
    """The cosine."""

    primitive, algebra = "cos", _EVEN


class Tan(Primitive):
    """The tangent."""

    primitive = "tan"


class Asin(Primitive):
    """The arc sine."""

    primitive, algebra, domain_of = "asin", _RISING, ((0, between(-0.9, 0.9)),)


class Acos(Primitive):
    """The arc cosine."""

    primitive, domain_of = "acos", ((0, between(-0.9, 0.9)),)
    algebra = Algebra(monotone={0: -1})


class Atan(Primitive):
    """The arc tangent."""

    primitive, algebra = "atan", _RISING


class Sinh(Primitive):
    """The hyperbolic sine."""

    primitive, algebra = "sinh", _RISING


class Cosh(Primitive):
    """The hyperbolic cosine."""

    primitive, algebra = "cosh", _EVEN


class Tanh(Primitive):
    """The hyperbolic tangent."""

    primitive, algebra = "tanh", _RISING


class Asinh(Primitive):
    """The inverse of the hyperbolic sine."""

    primitive, algebra = "asinh", _RISING


class Acosh(Primitive):
    """The inverse of the hyperbolic cosine, from 1 on."""

    primitive, algebra, domain_of = "acosh", _RISING, ((0, between(1.1, None)),)


class Atanh(Primitive):
    """The inverse of the hyperbolic tangent, between -1 and 1."""

    primitive, algebra, domain_of = "atanh", _RISING, ((0, between(-0.9, 0.9)),)


class Erf(Primitive):
    """The error function."""

    primitive, algebra = "erf", _RISING


_KINK = (0.0,)


class Relu(Primitive):
    """The operand, and 0 below 0."""

    primitive, kinks = "relu", _KINK
    exact_bits = 31
    algebra = Algebra(idempotent=True, monotone={0: 1})


class LeakyRelu(Elementwise):
    """The operand; below 0, a multiple of it."""

    attributes, kinks = (("alpha", 0.01),), _KINK

    def monotone_in(self, node: ir.Node) -> Mapping[int, int]:
        return {0: 1} if node.attributes.get_float("alpha", 0.01) >= 0 else {}

    def formula(self, a: TypedPrimitives, x: Scalar, alpha: float) -> Scalar:
        return a.select(a.less(x, 0.0), a.mul(alpha, x), x)


class PRelu(Elementwise):
    """The operand; below 0, a multiple that the second operand gives."""

    changes = versions.PRELU

    kinks = _KINK

    def formula(self, a: TypedPrimitives, x: Scalar, slope: Scalar) -> Scalar:
        return a.select(a.less(x, 0.0), a.mul(slope, x), x)


class ThresholdedRelu(Elementwise):
    """The operand where it is above a threshold, else 0."""

    attributes = (("alpha", 1.0),)

    def formula(self, a: TypedPrimitives, x: Scalar, alpha: float) -> Scalar:
        return a.select(a.less(alpha, x), x, 0.0)


def _sigmoid(a: TypedPrimitives, x: Scalar) -> Scalar:
    return a.div(1.0, a.add(1.0, a.exp(a.neg(x))))


def _elu(a: TypedPrimitives, x: Scalar, alpha: float) -> Scalar:
    return a.select(a.less(x, 0.0), a.mul(alpha, a.sub(a.exp(x), 1.0)), x)


def _softplus(a: TypedPrimitives, x: Scalar) -> Scalar:
    # ONNX Runtime lets the power overflow in half precision.
    if not a.overflows or a.dtype == ir.DataType.FLOAT16:
        return a.log(a.add(a.exp(x), 1.0))
    return a.add(a.max(x, 0.0), a.log(a.add(a.exp(a.neg(a.abs(x))), 1.0)))


class Sigmoid(Elementwise):
    """1 / (1 + exp(-x))."""

    opaque, size, algebra = True, 1.0, _RISING

    def formula(self, a: TypedPrimitives, x: Scalar) -> Scalar:
        return _sigmoid(a, x)


class HardSigmoid(Elementwise):
    """A line, kept between 0 and 1."""

    opaque, size, attributes = True, 1.0, (("alpha", 0.2), ("beta", 0.5))
    kinks = (-2.5, 2.5)

    def formula(self, a: TypedPrimitives, x: Scalar, alpha: float, beta: float) -> Scalar:
        line = a.add(a.mul(alpha, x), beta)
        return a.clip(line, 0.0, 1.0)


class HardSwish(Elementwise):
    """The operand times its hard sigmoid, whose slope is 1/6 in single precision."""

    opaque, size, scaled, kinks = True, 1.0, True, (-3.0, 3.0)

    def formula(self, a: TypedPrimitives, x: Scalar) -> Scalar:
        line = a.add(a.mul(float(np.float32(1 / 6)), x), 0.5)
        return a.mul(x, a.clip(line, 0.0, 1.0))


class Elu(Elementwise):
    """The operand; below 0, a multiple of exp(x) - 1."""

    opaque, size, attributes, kinks = True, 1.0, (("alpha", 1.0),), _KINK

    def formula(self, a: TypedPrimitives, x: Scalar, alpha: float) -> Scalar:
        return _elu(a, x, alpha)


class Selu(Elementwise):
    """Elu, times a factor."""

    changes = versions.SELU

    opaque, size, kinks = True, 1.0, _KINK
    attributes = (("alpha", 1.67326319217681884765625), ("gamma", 1.05070102214813232421875))

    def formula(self, a: TypedPrimitives, x: Scalar, alpha: float, gamma: float) -> Scalar:
        return a.mul(gamma, _elu(a, x, alpha))


class Celu(Elementwise):
    """The operand; below 0, a curve that joins it without a kink."""

    opaque, size, attributes, kinks = True, 1.0, (("alpha", 1.0),), _KINK

    def formula(self, a: TypedPrimitives, x: Scalar, alpha: float) -> Scalar:
        inner = a.mul(alpha, a.sub(a.exp(a.div(x, alpha)), 1.0))
        return a.add(a.max(0.0, x), a.min(0.0, inner))


class Softplus(Elementwise):
    """log(1 + exp(x))."""

    opaque, size, algebra = True, 1.0, _RISING

    def formula(self, a: TypedPrimitives, x: Scalar) -> Scalar:
        return _softplus(a, x)


class Softsign(Elementwise):
    """x / (1 + |x|)."""

    opaque, algebra = True, _RISING

    def formula(self, a: TypedPrimitives, x: Scalar) -> Scalar:
        return a.div(x, a.add(1.0, a.abs(x)))


class Shrink(Elementwise):
    """The operand, moved towards 0; 0 near 0."""

    opaque, attributes, kinks = True, (("lambd", 0.5), ("bias", 0.0)), (-0.5, 0.5)
    # What is near a bias has no more digits than its operand in single precision.
    computed_in, size, scaled = ir.DataType.FLOAT, 1.0, True

    def scalar(self, call: Call) -> ScalarRule:
        dtype = call.required(0).dtype
        function, result = super().scalar(call)
        if not dtype.is_integer() or not call.semantics.expands:
            return function, result
        # Integers are shrunk in single precision.
        single, cast = ir.DataType.FLOAT, call.semantics.cast
        a, given = call.primitives(single), dict(self.attributes)
        lambd, bias = (call.number(name, given[name]) for name in given)

        def shrunk(x: Scalar) -> Scalar:
            return cast(self.formula(a, cast(x, dtype, single), lambd, bias), single, dtype)

        return shrunk, dtype

    def formula(self, a: TypedPrimitives, x: Scalar, lambd: float, bias: float) -> Scalar:
        raised = a.select(a.less(lambd, x), a.sub(x, bias), 0.0)
        return a.select(a.less(x, -lambd), a.add(x, bias), raised)


class Mish(Elementwise):
    """x * tanh(softplus(x))."""

    opaque, size, scaled = True, 1.0, True

    def formula(self, a: TypedPrimitives, x: Scalar) -> Scalar:
        return a.mul(x, a.tanh(_softplus(a, x)))


class Swish(Elementwise):
    """x * sigmoid(alpha * x)."""

    computed_in, scaled = ir.DataType.FLOAT, True
    opaque, size, attributes = True, 1.0, (("alpha", 1.0),)

    def formula(self, a: TypedPrimitives, x: Scalar, alpha: float) -> Scalar:
        return a.mul(x, _sigmoid(a, a.mul(alpha, x)))


class Gelu(Elementwise):
    """The operand times the normal distribution, or its approximation by tanh."""

    opaque, size, scaled, computed_in = True, 1.0, True, ir.DataType.FLOAT

    def scalar(self, call: Call) -> ScalarRule:
        dtype = call.required(0).dtype
        a, approximate = call.primitives(dtype), call.text("approximate", "none")

        def gelu(x: Scalar) -> Scalar:
            if not call.semantics.expands:
                return a.function(f"Gelu[{approximate}]", x)
            if approximate == "tanh":
                cubic = a.add(x, a.mul(0.044715, a.mul(x, a.mul(x, x))))
                bent = a.tanh(a.mul(math.sqrt(2 / math.pi), cubic))
            else:
                bent = a.erf(a.div(x, math.sqrt(2)))
            return a.mul(a.mul(0.5, x), a.add(1.0, bent))

        return gelu, dtype
