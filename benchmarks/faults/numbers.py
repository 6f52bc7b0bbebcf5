"""Numbers that are lost, scaled or written with too few digits."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np

from benchmarks.faults.case import Planted, array, constant, fault, known
from benchmarks.faults.models import LLAMA, TRANSFORMER
from onnx_passes import passes
from onnx_passes.passes.base import Op, Value, Var


class _BiasLast(Planted):
    """Write ``bias + x`` as ``x + bias``."""

    def pattern(self, op: Op, bias: Var, x: Var) -> Var:
        return op.Add(bias, x, _outputs=["out"])

    def check(self, context: Any, bias: Value, x: Value, out: Value) -> bool:
        weight = array(bias)
        return weight is not None and weight.ndim == 1 and array(x) is None

    def right(self, op: Op, bias: Value, x: Value, out: Value) -> Any:
        return op.Add(x, bias)


@fault(TRANSFORMER, 0.9)
@passes.verify.tolerance
class BiasScaled(_BiasLast):
    """A bias times 1.01, deep in the network."""

    def wrong(self, op: Op, bias: Value, x: Value, out: Value) -> Any:
        return op.Add(x, constant(op, known(bias) * np.float32(1.01)))


@fault(TRANSFORMER, 0.9)
@passes.verify.tolerance
class BiasRounded(_BiasLast):
    """A bias is rounded to bfloat16's eight bits, deep in the network."""

    def wrong(self, op: Op, bias: Value, x: Value, out: Value) -> Any:
        rounded = known(bias).astype(ml_dtypes.bfloat16).astype(np.float32)
        return op.Add(x, constant(op, rounded))


@fault(TRANSFORMER, 0.5)
@passes.verify.equality
class BiasLost(_BiasLast):
    """A bias left out."""

    def wrong(self, op: Op, bias: Value, x: Value, out: Value) -> Any:
        return op.Identity(x)


@fault(TRANSFORMER, 0.3)
@passes.verify.equality
class WeightElementLost(Planted):
    """One element of a weight matrix becomes 0."""

    def pattern(self, op: Op, x: Var, weight: Var, bias: Var) -> Var:
        return op.Add(bias, op.MatMul(x, weight), _outputs=["out"])

    def check(self, context: Any, x: Value, weight: Value, bias: Value, out: Value) -> bool:
        return array(weight) is not None and array(bias) is not None

    def right(self, op: Op, x: Value, weight: Value, bias: Value, out: Value) -> Any:
        return op.Add(op.MatMul(x, weight), bias)

    def wrong(self, op: Op, x: Value, weight: Value, bias: Value, out: Value) -> Any:
        changed = known(weight).copy()
        changed[3, 5] = 0
        return op.Add(op.MatMul(x, constant(op, changed)), bias)


class _Reciprocal(Planted):
    """Write ``x / c`` as ``x * (1 / c)``."""

    def pattern(self, op: Op, x: Var, c: Var) -> Var:
        return op.Div(x, c, _outputs=["out"])

    def check(self, context: Any, x: Value, c: Value, out: Value) -> bool:
        divisor = array(c)
        return divisor is not None and divisor.size == 1 and array(x) is None

    def right(self, op: Op, x: Value, c: Value, out: Value) -> Any:
        return op.Mul(x, constant(op, np.float32(1) / known(c)))


@fault(TRANSFORMER, 0.4)
@passes.verify.tolerance
class ScaleLost(_Reciprocal):
    """The scale of attention scores is lost."""

    def check(self, context: Any, x: Value, c: Value, out: Value) -> bool:
        return super().check(context, x, c, out) and float(known(c)) > 2

    def wrong(self, op: Op, x: Value, c: Value, out: Value) -> Any:
        return op.Identity(x)


@fault(TRANSFORMER, 0.6)
@passes.verify.tolerance
class ReciprocalForgotten(_Reciprocal):
    """``x / c`` becomes ``x * c``."""

    def wrong(self, op: Op, x: Value, c: Value, out: Value) -> Any:
        return op.Mul(x, c)


@fault(TRANSFORMER, 0.8)
@passes.verify.tolerance
class FewDigits(_Reciprocal):
    """The root of 2 in a GELU is written with four digits."""

    def check(self, context: Any, x: Value, c: Value, out: Value) -> bool:
        return super().check(context, x, c, out) and float(known(c)) < 2

    def wrong(self, op: Op, x: Value, c: Value, out: Value) -> Any:
        rounded = [float(f"{v:.4g}") for v in np.ravel(np.float32(1) / known(c))]
        return op.Mul(x, constant(op, np.reshape(rounded, known(c).shape), np.float32))


@fault(TRANSFORMER, 0.6)
@passes.verify.tolerance
class FiveDigits(_Reciprocal):
    """The root of 2 in a GELU is written with five digits."""

    def check(self, context: Any, x: Value, c: Value, out: Value) -> bool:
        return super().check(context, x, c, out) and float(known(c)) < 2

    def wrong(self, op: Op, x: Value, c: Value, out: Value) -> Any:
        rounded = [float(f"{v:.5g}") for v in np.ravel(np.float32(1) / known(c))]
        return op.Mul(x, constant(op, np.reshape(rounded, known(c).shape), np.float32))


class _RmsEpsilon(Planted):
    """Write the root of a mean square with epsilon as a power."""

    def pattern(self, op: Op, mean: Var, epsilon: Var) -> Var:
        return op.Sqrt(op.Add(mean, epsilon), _outputs=["out"])

    def check(self, context: Any, mean: Value, epsilon: Value, out: Value) -> bool:
        constant = array(epsilon)
        return constant is not None and float(constant) > 2e-6

    def right(self, op: Op, mean: Value, epsilon: Value, out: Value) -> Any:
        return op.Pow(op.Add(mean, epsilon), constant(op, 0.5, np.float32))


@fault(LLAMA, 0.0)
@passes.verify.tolerance
class EpsilonLost(_RmsEpsilon):
    """The epsilon of the first RMSNorm is lost, where activations are small."""

    def wrong(self, op: Op, mean: Value, epsilon: Value, out: Value) -> Any:
        return op.Sqrt(mean)


@fault(LLAMA, 0.8)
@passes.verify.tolerance
class EpsilonLostDeep(_RmsEpsilon):
    """The epsilon of a late RMSNorm is lost, where activations are large."""

    def wrong(self, op: Op, mean: Value, epsilon: Value, out: Value) -> Any:
        return op.Sqrt(mean)


@fault(LLAMA, 0.0)
@passes.verify.tolerance
class EpsilonChanged(_RmsEpsilon):
    """The epsilon of an RMSNorm becomes that of LayerNorm, 1e-6."""

    def wrong(self, op: Op, mean: Value, epsilon: Value, out: Value) -> Any:
        return op.Sqrt(op.Add(mean, constant(op, 1e-6, np.float32)))


@fault(TRANSFORMER, 0.5)
@passes.verify.tolerance
class GeluByTanh(Planted):
    """A GELU by the error function is computed by the hyperbolic tangent."""

    def pattern(self, op: Op, x: Var, root: Var, one: Var, half: Var) -> Var:
        erf = op.Erf(op.Div(x, root))
        return op.Mul(op.Mul(x, op.Add(erf, one)), half, _outputs=["out"])

    def right(self, op: Op, x: Value, root: Value, one: Value, half: Value, out: Value) -> Any:
        erf = op.Erf(op.Div(x, root))
        return op.Mul(op.Mul(x, half), op.Add(erf, one))

    def wrong(self, op: Op, x: Value, root: Value, one: Value, half: Value, out: Value) -> Any:
        cube = op.Mul(op.Mul(op.Mul(x, x), x), constant(op, 0.044715, np.float32))
        inner = op.Mul(op.Add(x, cube), constant(op, math.sqrt(2 / math.pi), np.float32))
        return op.Mul(op.Mul(x, half), op.Add(op.Tanh(inner), one))
