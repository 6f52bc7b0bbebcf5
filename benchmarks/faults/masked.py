"""Faults that the outputs do not show on ordinary inputs, because something masks them."""

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

_LAYERS = " ".join(
    f"m{n} = MatMul({'x' if n == 0 else f'r{n - 1}'}, w{n})  r{n} = Relu(m{n})"
    for n in range(4)
)
_DIFFERENCES = "1,-1,0,0, 0,1,-1,0, 0,0,1,-1, -1,0,0,1"
_WEIGHTS = ", ".join(f"float[4,4] w{n} = {{{_DIFFERENCES}}}" for n in range(4))
_WIDE = 80 * np.array([[1, -2, 3, -1], [-3, 1, 0, 2], [2, 2, -5, 1]])
_LOW = np.full((3, 4), -80.0)


class ReluByMaximum(Planted):
    """A Relu becomes a maximum with 0, or nothing."""

    def pattern(self, op: Op, x: Var) -> Var:
        return op.Relu(x, _outputs=["out"])

    def right(self, op: Op, x: Value, out: Value) -> Any:
        return op.Max(x, constant(op, 0, np.float32))

    def wrong(self, op: Op, x: Value, out: Value) -> Any:
        return op.Identity(x)


@fault(
    source(
        "a saturated classifier",
        f"(float[3,4] x) => (float[3,4] y) <{_WEIGHTS}, float[4] b = {{0, 0, 60, 0}}> "
        f"{{ {_LAYERS} l = Add(r3, b)  y = Softmax<axis = 1>(l) }}",
    ),
    EVERYWHERE,
    feeds=[feed(x=1.0 * _WIDE)],
)
@passes.verify.tolerance
class RelusBeforeSoftmax(ReluByMaximum):
    """All Relus are dropped before a Softmax that always selects one class."""


@fault(
    source(
        "a classifier with a wide margin",
        f"(float[3,4] x) => (int64[3] y) <{_WEIGHTS}, float[4] b = {{0, 40, 0, 0}}> "
        f"{{ {_LAYERS} l = Add(r3, b)  y = ArgMax<axis = 1, keepdims = 0>(l) }}",
    ),
    "r1,r3",
    feeds=[feed(x=1.0 * _WIDE)],
)
@passes.verify.equality
class RelusBeforeArgMax(ReluByMaximum):
    """Two of four Relus are dropped before an ArgMax with a wide margin."""


@fault(
    source(
        "a saturated Clip",
        "(float[3,4] x) => (float[3,4] y) <float a = {30}, float low = {0}, float high = {6}> "
        "{ t = Tanh(x)  s = Add(x, t)  r = Relu(s)  u = Add(r, a)  y = Clip(u, low, high) }",
    ),
    "r",
    feeds=[feed(x=_LOW)],
)
@passes.verify.equality
class ReluBeforeClip(ReluByMaximum):
    """A Relu is dropped before a Clip whose upper bound always holds."""


class HalvedBias(Planted):
    """A bias is added from the other side, or half of it."""

    def pattern(self, op: Op, x: Var, bias: Var) -> Var:
        return op.Add(x, bias, _outputs=["out"])

    def check(self, context: Any, x: Value, bias: Value, out: Value) -> bool:
        return array(bias) is not None and array(x) is None

    def right(self, op: Op, x: Value, bias: Value, out: Value) -> Any:
        return op.Add(constant(op, known(bias)), x)

    def wrong(self, op: Op, x: Value, bias: Value, out: Value) -> Any:
        return op.Add(constant(op, known(bias) / np.float32(2)), x)


@fault(
    source(
        "gates that stay closed",
        "(float[3,4] x) => (float[3,4] y) <float limit = {500}, float[4] b = {1, 2, 3, 4}, "
        "float[4] d = {5, 6, 7, 8}> { "
        "open = Greater(x, limit)  t = Add(x, b)  u = Sin(t)  v = Add(u, d)  n = Neg(x)  "
        "y = Where(open, v, n) }",
    ),
    "t",
    feeds=[feed(x=np.full((3, 4), 600.0))],
)
@passes.verify.equality
class BehindClosedGate(HalvedBias):
    """A bias is halved in a part that a Where selects only for large inputs."""


@fault(
    source(
        "a layer scale of almost nothing",
        "(float[3,4] x, float[3,4] z) => (float[3,4] y) "
        "<float[4] b = {1, 2, 3, 4}, float gamma = {1e-12}> { "
        "c = Cos(z)  t = Add(c, b)  s = Mul(t, gamma)  y = Add(x, s) }",
    ),
    "t",
    feeds=[feed(x=np.zeros((3, 4)), z=np.ones((3, 4)))],
)
@passes.verify.equality
class BeforeTinyScale(HalvedBias):
    """A bias is halved in a residual branch that a scale of 1e-12 hides."""


@fault(
    source(
        "equal classes",
        "(float[3,4] x) => (float[3,3] y) <float[4,3] w = {1, 1, 1, 1, 1, 1, 1, 1, 1, "
        "1, 1, 1.0000001}> { "
        "e = Exp(x)  s = Sin(e)  r = Relu(s)  q = Relu(x)  t = Sub(q, r)  p = Relu(t)  "
        "l = MatMul(p, w)  y = Softmax<axis = 1>(l) }",
    ),
    EVERYWHERE,
    feeds=[feed(x=np.full((3, 4), -3e8))],
)
@passes.verify.tolerance
class BeforeEqualClasses(ReluByMaximum):
    """All Relus are dropped before logits that differ by one unit in the last place."""


@innocent(
    source(
        "Relus around a MaxPool",
        "(float[1,2,6,6] x) => (float[1,2,3,3] y, float[1,2,6,6] z) { s = Sin(x)  "
        "r = Relu(s)  p = MaxPool<kernel_shape = [2, 2], strides = [2, 2]>(r)  "
        "y = Relu(p)  z = Exp(s) }",
    )
)
@passes.verify.equality
class InnerReluDropped(Transformation, RewriteRulePass):
    """Drop the first of two Relus around a MaxPool, which changes an inner value."""

    def pattern(self, op: Op, x: Var) -> Var:
        return op.Relu(op.MaxPool(op.Relu(x), _outputs=["pooled"]), _outputs=["out"])

    def rewrite(self, op: Op, x: Value, pooled: Value, out: Value) -> Any:
        return op.Relu(op.MaxPool(x, kernel_shape=[2, 2], strides=[2, 2]))


@innocent(
    source(
        "Clips that are saturated",
        "(float[3,4] x) => (float[3,4] y) <float a = {-1}, float b = {1}, float z = {0}, "
        "float h = {6}> { t = Sin(x)  c = Max(t, a)  u = Clip(c, z, h)  y = Sqrt(u) }",
    )
)
@passes.verify.equality
class MaximumBeforeClip(Transformation, RewriteRulePass):
    """Drop a maximum with -1 before a Clip that starts at 0."""

    def pattern(self, op: Op, x: Var, bound: Var, low: Var, high: Var) -> Var:
        return op.Clip(op.Max(x, bound), low, high, _outputs=["out"])

    def rewrite(
        self, op: Op, x: Value, bound: Value, low: Value, high: Value, out: Value
    ) -> Any:
        return op.Clip(x, low, high)
