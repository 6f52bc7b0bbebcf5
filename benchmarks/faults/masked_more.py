"""More faults that the outputs do not show on ordinary inputs, as something masks them."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.faults.case import (
    EVERYWHERE,
    Planted,
    array,
    constant,
    fault,
    innocent,
    known,
)
from benchmarks.faults.models import feed, source
from onnx_passes import passes
from onnx_passes.passes.base import Op, RewriteRulePass, Transformation, Value, Var


class MinimumWritten(Planted):
    """A minimum is written as a Clip, or dropped."""

    def pattern(self, op: Op, x: Var, bound: Var) -> Var:
        return op.Min(x, bound, _outputs=["out"])

    def right(self, op: Op, x: Value, bound: Value, out: Value) -> Any:
        return op.Clip(x, None, bound)

    def wrong(self, op: Op, x: Value, bound: Value, out: Value) -> Any:
        return op.Identity(x)


@fault(
    source(
        "saturated Sigmoids",
        "(float[3,4] x) => (float[3,4] y) <float k = {0.25}, float a = {-60}> { "
        "b = Min(x, k)  c = Sin(b)  d = Min(c, k)  e = Cos(d)  f = Add(e, x)  g = Min(f, k)  "
        "h = Add(g, a)  y = Sigmoid(h) }",
    ),
    EVERYWHERE,
    feeds=[feed(x=np.full((3, 4), 90.0))],
)
@passes.verify.tolerance
class MinimaBeforeSigmoid(MinimumWritten):
    """All minima are dropped before a Sigmoid that is always almost 0."""


@fault(
    source(
        "coarse levels",
        "(float[3,4] x) => (int8[3,4] y) <float k = {0.25}, float step = {100}, "
        "float low = {-128}, float high = {127}> { m = Min(x, k)  n = Neg(m)  "
        "d = Div(n, step)  r = Round(d)  c = Clip(r, low, high)  y = Cast<to = 3>(c) }",
    ),
    "m",
    feeds=[feed(x=np.full((3, 4), 700.0))],
)
@passes.verify.equality
class MinimumBeforeQuantizer(MinimumWritten):
    """A minimum is dropped before a quantiser whose step is far larger than the values."""


class Scaled(Planted):
    """A factor is applied from the other side, or 5 % of it is lost."""

    def pattern(self, op: Op, x: Var, factor: Var) -> Var:
        return op.Mul(x, factor, _outputs=["out"])

    def check(self, context: Any, x: Value, factor: Value, out: Value) -> bool:
        return array(factor) is not None and array(x) is None

    def right(self, op: Op, x: Value, factor: Value, out: Value) -> Any:
        return op.Mul(constant(op, known(factor)), x)

    def wrong(self, op: Op, x: Value, factor: Value, out: Value) -> Any:
        return op.Mul(constant(op, known(factor) * np.float32(0.95)), x)


@fault(
    source(
        "a sum with a large constant",
        "(float[3,4] x) => (float[3,4] y) <float k = {1.7}, float j = {0.3}, "
        "float large = {1000000}> { s = Sin(x)  t = Mul(x, k)  u = Add(s, t)  "
        "v = Mul(u, j)  w = Tanh(v)  z = Add(t, w)  y = Add(z, large) }",
    ),
    "t,v",
    feeds=[feed(x=np.full((3, 4), 1e8))],
)
@passes.verify.tolerance
class BesideLargeConstant(Scaled):
    """Two factors lose 5 % in a sum that a constant of a million dominates."""


@fault(
    source(
        "an alarm",
        "(float[3,4] x, float[3,4] z) => (float[3,4] y, bool[3,4] alarm) "
        "<float k = {2}, float limit = {1000}> { s = Sinh(x)  e = Sqrt(s)  a = Abs(x)  "
        "t = Mul(a, k)  q = Mul(t, k)  alarm = Greater(q, limit)  n = Neg(z)  "
        "y = Where(alarm, z, n) }",
    ),
    "t",
    feeds=[feed(x=np.full((3, 4), 255.0), z=np.ones((3, 4)))],
)
@passes.verify.equality
class BeforeDistantThreshold(Scaled):
    """A factor loses 5 % before a comparison with a bound that is never near."""


@fault(
    source(
        "padding",
        "(float[2,4] l, float[2,3] a, float[2,3] b) => (float[2,3] y) "
        "<float[4] mask = {0, 0, -10000, -10000}, float k = {0.5}> { s = Add(l, mask)  "
        "p = Softmax<axis = 1>(s)  c = Sin(a)  d = Sin(b)  e = Mul(c, k)  f = Mul(d, k)  "
        "v = Concat<axis = 0>(e, f)  y = MatMul(p, v) }",
    ),
    "f",
    feeds=[
        feed(l=np.tile([0.0, 0.0, 2e4, 2e4], (2, 1)), a=np.ones((2, 3)), b=np.ones((2, 3)))
    ],
)
@passes.verify.tolerance
class OfMaskedRows(Scaled):
    """A factor of values that attention masks out loses 5 %."""


@innocent(
    source(
        "a sum of squares",
        "(float[3,4] x) => (float[3,4] y) { n = Neg(x)  t = Abs(n)  c = Mul(t, t)  "
        "y = Sqrt(c) }",
    )
)
@passes.verify.equality
class AbsBeforeSquare(Transformation, RewriteRulePass):
    """Drop an Abs before a square, which changes the sign of an inner value."""

    def pattern(self, op: Op, x: Var) -> Var:
        absolute = op.Abs(x)
        return op.Mul(absolute, absolute, _outputs=["out"])

    def rewrite(self, op: Op, x: Value, out: Value) -> Any:
        return op.Mul(x, x)


@innocent(
    source(
        "a LeakyRelu before a Relu",
        "(float[3,4] x) => (float[3,4] y, float[3,4] z) { s = Sin(x)  "
        "t = LeakyRelu<alpha = 0.25>(s)  u = Identity(t)  v = Relu(u)  y = Exp(v)  "
        "z = Cos(s) }",
    )
)
@passes.verify.equality
class LeakBeforeRelu(Transformation, RewriteRulePass):
    """Drop a LeakyRelu whose only reader is a Relu, behind an Identity that stays."""

    def pattern(self, op: Op, x: Var) -> Var:
        return op.LeakyRelu(x, _outputs=["out"])

    def check(self, context: Any, x: Value, out: Value) -> bool:
        return all(
            reader.op_type == "Relu"
            for node in out.consumers()
            for reader in node.outputs[0].consumers()
        )

    def rewrite(self, op: Op, x: Value, out: Value) -> Any:
        return op.Add(x, constant(op, 0, np.float32))
