"""Functions of one number that are a primitive of the arithmetic: Sin, Tanh, Erf, ..."""

from __future__ import annotations

from onnx_passes.ops.elementwise_base import Primitive
from onnx_passes.ops.input_hints import between
from onnx_passes.ops.operator_class import Algebra

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
