"""Activation functions: compositions over the reals, opaque where each rounding matters.

ONNX gives the formulas; ONNX Runtime's kernels evaluate most of them by other routes
(polynomials, fused multiply-adds), so that in IEEE arithmetic only those are expanded whose
kernel is the formula itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import onnx_ir as ir

from onnx_passes.ops.call import Call
from onnx_passes.ops.elementwise import ScalarRule, pointwise
from onnx_passes.ops.semantics import Scalar


class Algebra:
    """Primitives on scalars of one float type, so that a formula reads as one."""

    def __init__(self, call: Call, dtype: ir.DataType) -> None:
        self._call, self._dtype = call, dtype

    def __getattr__(self, name: str) -> Callable[..., Scalar]:
        """Return the primitive ``name``, which takes scalars and numbers alike."""

        def apply(*args: Scalar | float) -> Scalar:
            return self._call.semantics.apply(name, self._dtype, *map(self._scalar, args))

        return apply

    def function(self, name: str, *args: Scalar | float) -> Scalar:
        """Apply an uninterpreted function."""
        return self._call.semantics.function(name, self._dtype, *map(self._scalar, args))

    def _scalar(self, value: Scalar | float) -> Scalar:
        number = isinstance(value, int | float) and not isinstance(value, bool)
        plain = number and type(value) in (int, float)
        return self._call.literal(value, self._dtype) if plain else value


for _name in (
    *("Sin", "Cos", "Tan", "Asin", "Acos", "Atan"),
    *("Sinh", "Cosh", "Tanh", "Asinh", "Acosh", "Atanh", "Erf"),
):

    @pointwise(_name)
    def _(call: Call, name: str = _name) -> ScalarRule:
        dtype = call.required(0).dtype
        return lambda x: call.semantics.function(name, dtype, x), dtype


@pointwise("Relu")
def _(call: Call) -> ScalarRule:
    dtype = call.required(0).dtype
    if dtype.is_integer():
        zero = call.literal(0, dtype)
        return lambda x: call.semantics.apply("max", dtype, x, zero), dtype
    return lambda x: call.semantics.apply("relu", dtype, x), dtype


@pointwise("LeakyRelu")
def _(call: Call) -> ScalarRule:
    dtype = call.required(0).dtype
    a, alpha = Algebra(call, dtype), call.number("alpha", 0.01)
    return lambda x: a.select(a.less(x, 0.0), a.mul(alpha, x), x), dtype


@pointwise("PRelu")
def _(call: Call) -> ScalarRule:
    dtype = call.required(0).dtype
    a = Algebra(call, dtype)
    return lambda x, slope: a.select(a.less(x, 0.0), a.mul(slope, x), x), dtype


@pointwise("ThresholdedRelu")
def _(call: Call) -> ScalarRule:
    dtype = call.required(0).dtype
    a, alpha = Algebra(call, dtype), call.number("alpha", 1.0)
    return lambda x: a.select(a.less(alpha, x), x, 0.0), dtype


def _activation(
    name: str, formula: Callable[..., Scalar], **defaults: float
) -> Callable[[Call], ScalarRule]:
    """Expand ``formula(algebra, x, **attributes)`` where rounding does not matter."""

    def rule(call: Call) -> ScalarRule:
        dtype = call.required(0).dtype
        a = Algebra(call, dtype)
        given = {key: call.number(key, value) for key, value in defaults.items()}
        if call.semantics.expands:
            return lambda x: formula(a, x, **given), dtype
        label = name + "".join(f"[{key}={value!r}]" for key, value in given.items())
        return lambda x: a.function(label, x), dtype

    return rule


def _sigmoid(a: Algebra, x: Scalar) -> Scalar:
    return a.div(1.0, a.add(1.0, a.exp(a.neg(x))))


def _hard_sigmoid(a: Algebra, x: Scalar, alpha: float, beta: float) -> Scalar:
    return a.clip(a.add(a.mul(alpha, x), beta), 0.0, 1.0)


def _elu(a: Algebra, x: Scalar, alpha: float) -> Scalar:
    return a.select(a.less(x, 0.0), a.mul(alpha, a.sub(a.exp(x), 1.0)), x)


def _selu(a: Algebra, x: Scalar, alpha: float, gamma: float) -> Scalar:
    return a.mul(gamma, _elu(a, x, alpha))


def _celu(a: Algebra, x: Scalar, alpha: float) -> Scalar:
    inner = a.mul(alpha, a.sub(a.exp(a.div(x, alpha)), 1.0))
    return a.add(a.max(0.0, x), a.min(0.0, inner))


def _softplus(a: Algebra, x: Scalar) -> Scalar:
    return a.log(a.add(a.exp(x), 1.0))


def _shrink(a: Algebra, x: Scalar, lambd: float, bias: float) -> Scalar:
    raised = a.select(a.less(lambd, x), a.sub(x, bias), 0.0)
    return a.select(a.less(x, -lambd), a.add(x, bias), raised)


_HARD_SWISH = {"alpha": float(np.float32(1 / 6)), "beta": 0.5}

pointwise("Sigmoid")(_activation("Sigmoid", _sigmoid))
pointwise("HardSigmoid")(_activation("HardSigmoid", _hard_sigmoid, alpha=0.2, beta=0.5))
pointwise("Elu")(_activation("Elu", _elu, alpha=1.0))
pointwise("Selu")(
    _activation(
        "Selu", _selu, alpha=1.67326319217681884765625, gamma=1.05070102214813232421875
    )
)
pointwise("Celu")(_activation("Celu", _celu, alpha=1.0))
pointwise("Softplus")(_activation("Softplus", _softplus))
pointwise("Softsign")(_activation("Softsign", lambda a, x: a.div(x, a.add(1.0, a.abs(x)))))
pointwise("Shrink")(_activation("Shrink", _shrink, lambd=0.5, bias=0.0))
pointwise("HardSwish")(
    _activation("HardSwish", lambda a, x: a.mul(x, _hard_sigmoid(a, x, **_HARD_SWISH)))
)
pointwise("Mish")(
    _activation("Mish", lambda a, x: a.mul(x, a.function("Tanh", _softplus(a, x))))
)
pointwise("Swish")(
    _activation("Swish", lambda a, x, alpha: a.mul(x, _sigmoid(a, a.mul(alpha, x))), alpha=1.0)
)


@pointwise("Gelu")
def _(call: Call) -> ScalarRule:
    dtype = call.required(0).dtype
    a, approximate = Algebra(call, dtype), call.text("approximate", "none")

    def gelu(x: Scalar) -> Scalar:
        if not call.semantics.expands:
            return a.function(f"Gelu[{approximate}]", x)
        if approximate == "tanh":
            cubic = a.add(x, a.mul(0.044715, a.mul(x, a.mul(x, x))))
            bent = a.function("Tanh", a.mul(math.sqrt(2 / math.pi), cubic))
        else:
            bent = a.function("Erf", a.div(x, math.sqrt(2)))
        return a.mul(a.mul(0.5, x), a.add(1.0, bent))

    return gelu, dtype
