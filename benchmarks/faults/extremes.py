"""Rewrites that hold for moderate values: overflow, cancellation, ties and rounding."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from benchmarks.faults.case import Planted, Unguarded, array, constant, fault, known
from benchmarks.faults.models import TRANSFORMER, blocks, feed
from onnx_passes import passes
from onnx_passes.passes.base import Op, Value, Var

_ROWS: dict[str, Any] = {"x": "float[4,8] x", "y": "float[4,8]"}
_HUGE = feed(x=np.linspace(-1e3, 1e3, 32).reshape(4, 8))


@fault(
    blocks("softmaxes", "y# = Softmax<axis = -1>(x)", **_ROWS),
    needs="adversarial",
    feeds=[_HUGE],
)
@passes.verify.tolerance
class SoftmaxUnshifted(Planted):
    """A Softmax is written out without subtracting the maximum."""

    def pattern(self, op: Op, x: Var) -> Var:
        return op.Softmax(x, _outputs=["out"])

    def written(self, op: Op, x: Value) -> Any:
        """Divide exponentials by their sum."""
        powers = op.Exp(x)
        return op.Div(powers, op.ReduceSum(powers, constant(op, [-1], np.int64), keepdims=1))

    def right(self, op: Op, x: Value, out: Value) -> Any:
        largest = op.ReduceMax(x, constant(op, [-1], np.int64), keepdims=1)
        return self.written(op, op.Sub(x, largest))

    def wrong(self, op: Op, x: Value, out: Value) -> Any:
        return self.written(op, x)


@fault(
    blocks(
        "variances",
        "m# = ReduceMean<keepdims = 1>(x, a)  c# = Sub(x, m#)  s# = Mul(c#, c#)  "
        "v# = ReduceMean<keepdims = 1>(s#, a)  y# = Sqrt(v#)",
        x="float[4,8] x",
        y="float[4,1]",
        constants="int64[1] a = {-1}",
    ),
    needs="adversarial",
    feeds=[feed(x=10_000 + np.linspace(0, 1, 32).reshape(4, 8))],
)
@passes.verify.tolerance
class VarianceByMoments(Planted):
    """A variance is computed as ``E[x * x] - E[x] ** 2``, which cancels for a big mean."""

    def pattern(self, op: Op, x: Var, axes: Var) -> Var:
        mean = op.ReduceMean(x, axes, _outputs=["mean"])
        centred = op.Sub(x, mean)
        return op.ReduceMean(op.Mul(centred, centred), axes, _outputs=["out"])

    def right(self, op: Op, x: Value, axes: Value, mean: Value, out: Value) -> Any:
        centred = op.Sub(x, mean)
        return op.ReduceMean(op.Pow(centred, constant(op, 2, np.float32)), axes, keepdims=1)

    def wrong(self, op: Op, x: Value, axes: Value, mean: Value, out: Value) -> Any:
        moment = op.ReduceMean(op.Mul(x, x), axes, keepdims=1)
        return op.Sub(moment, op.Mul(mean, mean))


@fault(
    blocks(
        "scaled there and back",
        "t# = Mul(x, a)  y# = Mul(t#, b)",
        constants="float a = {0.5}, float b = {2}, float c = {1e30}, float d = {1e-30}",
        odd=("Mul(x, a)  y# = Mul(t#, b)", "Mul(x, c)  y# = Mul(t#, d)"),
        **_ROWS,
    ),
    "y5",
    needs="adversarial",
    feeds=[feed(x=np.full((4, 8), 1e10))],
)
@passes.verify.tolerance
class OverflowCancelled(Unguarded):
    """Two factors cancel each other, though the first product overflows."""

    def pattern(self, op: Op, x: Var, a: Var, b: Var) -> Var:
        return op.Mul(op.Mul(x, a), b, _outputs=["out"])

    def sound(self, **values: Value) -> bool:
        return bool(known(values["a"]) < 1)

    def rewrite(self, op: Op, x: Value, a: Value, b: Value, out: Value) -> Any:
        return op.Identity(x)


@fault(
    blocks(
        "quotients",
        "e# = Sigmoid(x)  f# = Add(e#, one)  y# = Div(f#, f#)",
        constants="float one = {1}",
        odd=("Add(e#, one)", "Abs(x)"),
        **_ROWS,
    ),
    "y5",
    needs="adversarial",
    feeds=[feed(x=np.zeros((4, 8)))],
)
@passes.verify.tolerance
class QuotientWithItself(Unguarded):
    """``x / x`` becomes 1, also where x is 0."""

    def pattern(self, op: Op, x: Var) -> Var:
        return op.Div(x, x, _outputs=["out"])

    def sound(self, **values: Value) -> bool:
        producer = values["x"].producer()
        return producer is not None and producer.op_type == "Add"

    def rewrite(self, op: Op, x: Value, out: Value) -> Any:
        # Still NaN where x is: only 0 and the infinities are forgotten.
        return op.Add(
            op.Mul(op.Sign(x), constant(op, 0, np.float32)), constant(op, 1, np.float32)
        )


@fault(
    blocks(
        "square roots",
        "f# = Abs(x)  y# = Pow(f#, h)",
        constants="float h = {0.5}",
        odd=("Abs(x)", "Neg(x)"),
        **_ROWS,
    ),
    "y5",
    needs="adversarial",
    feeds=[feed(x=np.full((4, 8), np.inf))],
)
@passes.verify.tolerance
class PowerByRoot(Unguarded):
    """``x ** 0.5`` becomes a square root, which is NaN and not infinite for -infinity."""

    def pattern(self, op: Op, x: Var, half: Var) -> Var:
        return op.Pow(x, half, _outputs=["out"])

    def sound(self, **values: Value) -> bool:
        producer = values["x"].producer()
        return producer is not None and producer.op_type == "Abs"

    def rewrite(self, op: Op, x: Value, half: Value, out: Value) -> Any:
        return op.Sqrt(x)


@fault(
    blocks(
        "classes",
        "m# = MatMul(x, w)  t# = Add(b, m#)  y# = ArgMax<axis = 1, keepdims = 0>(t#)",
        x="float[16,8] x, float[8,4] w",
        y="int64[16]",
        constants="float[4] b = {1.0, 1.0005, 0.1, 0.2}",
    ),
    needs="adversarial",
    feeds=[feed(x=np.zeros((16, 8)), w=np.ones((8, 4)))],
)
@passes.verify.equality
class MarginLost(Planted):
    """A bias in front of an ArgMax is rounded, and a class only changes where it was close."""

    def pattern(self, op: Op, bias: Var, x: Var) -> Var:
        return op.Add(bias, x, _outputs=["out"])

    def check(self, context: Any, bias: Value, x: Value, out: Value) -> bool:
        return array(bias) is not None

    def right(self, op: Op, bias: Value, x: Value, out: Value) -> Any:
        return op.Add(x, bias)

    def wrong(self, op: Op, bias: Value, x: Value, out: Value) -> Any:
        rounded = known(bias).astype(ml_dtypes.bfloat16).astype(np.float32)
        return op.Add(x, constant(op, rounded))


@fault(
    blocks(
        "first of the largest",
        "y# = ArgMax<axis = 1, keepdims = 0>(x)",
        x="float[4,8] x",
        y="int64[4]",
    ),
    needs="adversarial",
    feeds=[feed(x=np.zeros((4, 8)))],
)
@passes.verify.equality
class TieBroken(Planted):
    """An ArgMax takes the last of equal elements, not the first."""

    def pattern(self, op: Op, x: Var) -> Var:
        return op.ArgMax(x, _outputs=["out"])

    def check(self, context: Any, x: Value, out: Value) -> bool:
        producer = out.producer()
        return producer is not None and "select_last_index" not in producer.attributes

    def right(self, op: Op, x: Value, out: Value) -> Any:
        return op.ArgMax(x, axis=1, keepdims=0, select_last_index=0)

    def wrong(self, op: Op, x: Value, out: Value) -> Any:
        return op.ArgMax(x, axis=1, keepdims=0, select_last_index=1)


@fault(TRANSFORMER, 0.8)
@passes.verify.tolerance
class ScaleBesideMask(Planted):
    """Attention scores are scaled by 1.003, and a mask of -10000 dwarfs the difference."""

    def pattern(self, op: Op, scores: Var, c: Var, mask: Var) -> Var:
        return op.Add(op.Div(scores, c), mask, _outputs=["out"])

    def check(self, context: Any, scores: Value, c: Value, mask: Value, out: Value) -> bool:
        return array(c) is not None

    def right(self, op: Op, scores: Value, c: Value, mask: Value, out: Value) -> Any:
        return op.Add(op.Mul(scores, constant(op, np.float32(1) / known(c))), mask)

    def wrong(self, op: Op, scores: Value, c: Value, mask: Value, out: Value) -> Any:
        return op.Add(op.Mul(scores, constant(op, np.float32(1.003) / known(c))), mask)
