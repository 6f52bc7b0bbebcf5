"""NaN, infinities and the sign of zero: what holds for real numbers and not for floats."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir

from benchmarks.faults.case import Unguarded, array, constant, fault, known
from benchmarks.faults.models import blocks, feed
from onnx_passes import passes
from onnx_passes.passes.base import Op, Value, Var

_ODD = np.array([np.nan, np.inf, -np.inf, -0.0, 0.0, 1.5, -2.5, 3e38], np.float32)
_MIXED: dict[str, Any] = {"x": "float[8] x, int32[8] n", "y": "float[8]"}
_INTS = np.arange(-4, 4, dtype=np.int32)
_FEEDS = [feed(x=_ODD, n=_INTS)]


class _FromIntegers(Unguarded):
    """Sound where a float was an integer just before."""

    operand = "x"

    def sound(self, **values: Value) -> bool:
        producer = values[self.operand].producer()
        source = producer.inputs[0] if producer is not None else None
        return source is not None and source.dtype == ir.DataType.INT32


@fault(
    blocks(
        "products with zero",
        "f# = Cast<to = 1>(n)  t# = Mul(f#, z)  y# = Abs(t#)",
        constants="float z = {0}",
        odd=("Mul(f#, z)", "Mul(x, z)"),
        **_MIXED,
    ),
    "t5",
    needs="adversarial",
    feeds=_FEEDS,
)
@passes.verify.equality
class ProductWithZero(_FromIntegers):
    """``x * 0`` becomes 0, and hides NaN and infinities."""

    def pattern(self, op: Op, x: Var, zero: Var) -> Var:
        return op.Mul(x, zero, _outputs=["out"])

    def applies(self, **values: Value) -> bool:
        zero = array(values["zero"])
        return zero is not None and not zero.any()

    def rewrite(self, op: Op, x: Value, zero: Value, out: Value) -> Any:
        return op.Expand(zero, op.Shape(x))


@fault(
    blocks(
        "differences",
        "f# = Cast<to = 1>(n)  t# = Sub(f#, f#)  y# = Exp(t#)",
        odd=("Sub(f#, f#)", "Sub(x, x)"),
        **_MIXED,
    ),
    "t5",
    needs="adversarial",
    feeds=_FEEDS,
)
@passes.verify.equality
class DifferenceWithItself(_FromIntegers):
    """``x - x`` becomes 0, also where x is infinite."""

    def pattern(self, op: Op, x: Var) -> Var:
        return op.Sub(x, x, _outputs=["out"])

    def rewrite(self, op: Op, x: Value, out: Value) -> Any:
        return op.Expand(constant(op, 0, np.float32), op.Shape(x))


@fault(
    blocks(
        "negated comparisons",
        "f# = Cast<to = 1>(n)  c# = Less(f#, k)  d# = Not(c#)  y# = Cast<to = 1>(d#)",
        constants="float k = {0.5}",
        odd=("Less(f#, k)", "Less(x, k)"),
        **_MIXED,
    ),
    "d5",
    needs="adversarial",
    feeds=_FEEDS,
)
@passes.verify.equality
class ComparisonNegated(_FromIntegers):
    """``not (x < k)`` becomes ``x >= k``, which is false for NaN as well."""

    def pattern(self, op: Op, x: Var, k: Var) -> Var:
        return op.Not(op.Less(x, k), _outputs=["out"])

    def rewrite(self, op: Op, x: Value, k: Value, out: Value) -> Any:
        return op.GreaterOrEqual(x, k)


@fault(
    blocks(
        "scrubbed values",
        "f# = Cast<to = 1>(n)  b# = IsNaN(f#)  t# = Where(b#, z, f#)  y# = Abs(t#)",
        constants="float z = {0}",
        odd=("IsNaN(f#)  t# = Where(b#, z, f#)", "IsNaN(x)  t# = Where(b#, z, x)"),
        **_MIXED,
    ),
    "t5",
    needs="adversarial",
    feeds=_FEEDS,
)
@passes.verify.equality
class ScrubbingRemoved(_FromIntegers):
    """A guard that replaces NaN is removed as if none could come."""

    def pattern(self, op: Op, x: Var, zero: Var) -> Var:
        return op.Where(op.IsNaN(x), zero, x, _outputs=["out"])

    def rewrite(self, op: Op, x: Value, zero: Value, out: Value) -> Any:
        return op.Identity(x)


@fault(
    blocks(
        "sums with zeros of both signs",
        "t# = Add(x, m)  y# = Reciprocal(t#)",
        x="float[8] x",
        y="float[8]",
        constants="float m = {-0.0}, float p = {0.0}",
        odd=("Add(x, m)", "Add(x, p)"),
    ),
    "t5",
    needs="adversarial",
    feeds=[feed(x=_ODD)],
)
@passes.verify.equality
class NegativeZeroKept(Unguarded):
    """``x + 0`` becomes ``x``, and -0 stays -0: its reciprocal has the other sign."""

    def pattern(self, op: Op, x: Var, zero: Var) -> Var:
        return op.Add(x, zero, _outputs=["out"])

    def sound(self, **values: Value) -> bool:
        return bool(np.signbit(known(values["zero"])))

    def rewrite(self, op: Op, x: Value, zero: Value, out: Value) -> Any:
        return op.Identity(x)


@fault(
    blocks(
        "square roots of squares",
        "f# = Abs(x)  t# = Mul(f#, f#)  y# = Sqrt(t#)",
        x="float[8] x",
        y="float[8]",
        odd=("Abs(x)", "Neg(x)"),
    ),
    "y5",
)
@passes.verify.tolerance
class RootOfSquare(Unguarded):
    """``sqrt(x * x)`` becomes ``x``, also where x is negative."""

    def pattern(self, op: Op, x: Var) -> Var:
        return op.Sqrt(op.Mul(x, x), _outputs=["out"])

    def sound(self, **values: Value) -> bool:
        producer = values["x"].producer()
        return producer is not None and producer.op_type == "Abs"

    def rewrite(self, op: Op, x: Value, out: Value) -> Any:
        return op.Identity(x)


@fault(
    blocks(
        "rows to normalise",
        "t# = Tanh(x)  y# = LayerNormalization<axis = -1, epsilon = 1e-5>(t#, g)",
        x="float[4,8] x",
        y="float[4,8]",
        constants="float[8] g = {1,1,1,1,1,1,1,1}",
        odd=("1e-5", "1e-12"),
    ),
    "y5",
    needs="adversarial",
    feeds=[feed(x=np.ones((4, 8)))],
)
@passes.verify.tolerance
class TinyEpsilonLost(Unguarded):
    """A LayerNorm is written out without its epsilon of 1e-12: NaN in constant rows."""

    def pattern(self, op: Op, x: Var, scale: Var) -> Var:
        return op.LayerNormalization(x, scale, _outputs=["out"])

    def sound(self, **values: Value) -> bool:
        return self.epsilon(values["out"]) > 1e-6

    def epsilon(self, out: Value) -> float:
        """Return the epsilon of a LayerNorm."""
        node = out.producer()
        assert node is not None
        return float(node.attributes["epsilon"].value)

    def rewrite(self, op: Op, x: Value, scale: Value, out: Value) -> Any:
        last = constant(op, [-1], np.int64)
        centred = op.Sub(x, op.ReduceMean(x, last, keepdims=1))
        variance = op.ReduceMean(op.Mul(centred, centred), last, keepdims=1)
        epsilon = self.epsilon(out)
        if epsilon > 1e-6:
            variance = op.Add(variance, constant(op, epsilon, np.float32))
        return op.Mul(op.Div(centred, op.Sqrt(variance)), scale)
