"""Faults that only some sizes show: odd ones, 1, and 0."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.faults.case import Planted, constant, fault, innocent
from benchmarks.faults.models import blocks, feed
from onnx_passes import passes
from onnx_passes.passes.base import Op, RewriteRulePass, Transformation, Value, Var


def ints(op: Op, *numbers: int) -> Any:
    """Make a Constant node of int64."""
    return constant(op, numbers, np.int64)


def rows(count: int) -> np.ndarray[Any, Any]:
    """Return float32 values of shape [count, 4]."""
    return np.linspace(-1, 2, count * 4, dtype=np.float32).reshape(count, 4)


_ROWS: dict[str, Any] = {"x": "float[N,4] x", "y": "float[M,4]", "count": 6}


@fault(
    blocks("rows in two halves", "s# = Sin(x)  y# = Relu(s#)", **_ROWS),
    "s4",
    feeds=[feed(x=rows(7))],
)
@passes.verify.equality
class LastRowLost(Planted):
    """A Sin is computed in two halves of equal size, which loses the last of an odd number."""

    def pattern(self, op: Op, x: Var) -> Var:
        return op.Sin(x, _outputs=["out"])

    def check(self, context: Any, x: Value, out: Value) -> bool:
        return x.is_graph_input()

    def right(self, op: Op, x: Value, out: Value) -> Any:
        return self.halves(op, x, op.Shape(x, start=0, end=1))

    def wrong(self, op: Op, x: Value, out: Value) -> Any:
        half = op.Div(op.Shape(x, start=0, end=1), ints(op, 2))
        return self.halves(op, x, op.Add(half, half))

    def halves(self, op: Op, x: Value, end: Any) -> Any:
        """Compute the first half, then the rest up to an end."""
        middle = op.Div(op.Shape(x, start=0, end=1), ints(op, 2))
        first = op.Slice(x, ints(op, 0), middle, ints(op, 0))
        rest = op.Slice(x, middle, end, ints(op, 0))
        return op.Concat(op.Sin(first), op.Sin(rest), axis=0)


@fault(
    blocks(
        "means",
        "m# = ReduceMean<keepdims = 1>(x, a)  y# = Sub(x, m#)",
        constants="int64[1] a = {0}",
        **_ROWS,
    ),
    "m4",
    feeds=[feed(x=rows(3))],
)
@passes.verify.tolerance
class MeanOfMeans(Planted):
    """A mean becomes the mean of those of two halves, also where one of them is longer."""

    def pattern(self, op: Op, x: Var, axes: Var) -> Var:
        return op.ReduceMean(x, axes, _outputs=["out"])

    def check(self, context: Any, x: Value, axes: Value, out: Value) -> bool:
        return x.is_graph_input()

    def right(self, op: Op, x: Value, axes: Value, out: Value) -> Any:
        size = op.CastLike(op.Shape(x, start=0, end=1), x)
        return op.Div(op.ReduceSum(x, axes, keepdims=1), size)

    def wrong(self, op: Op, x: Value, axes: Value, out: Value) -> Any:
        size = op.Shape(x, start=0, end=1)
        middle = op.Div(op.Add(size, ints(op, 1)), ints(op, 2))
        parts = op.Slice(x, ints(op, 0), middle, axes), op.Slice(x, middle, size, axes)
        # Where there is a single row, the second half is empty, and the first is the mean.
        means = [
            op.Div(
                op.ReduceSum(part, axes, keepdims=1),
                op.CastLike(op.Max(op.Shape(part, start=0, end=1), ints(op, 1)), x),
            )
            for part in parts
        ]
        used = op.Min(size, ints(op, 2))
        return op.Div(op.Add(*means), op.CastLike(used, x))


@fault(
    blocks(
        "features without a middle axis",
        "s# = Squeeze(x, a)  y# = Sin(s#)",
        x="float[N,1,4] x",
        y="float[N,4]",
        count=6,
        constants="int64[1] a = {1}",
    ),
    "s4",
    feeds=[feed(x=rows(1)[None])],
)
@passes.verify.equality
class SqueezedAll(Planted):
    """A Squeeze loses its axes, and removes a batch of 1 as well."""

    def pattern(self, op: Op, x: Var, axes: Var) -> Var:
        return op.Squeeze(x, axes, _outputs=["out"])

    def right(self, op: Op, x: Value, axes: Value, out: Value) -> Any:
        return op.Reshape(x, ints(op, -1, 4))

    def wrong(self, op: Op, x: Value, axes: Value, out: Value) -> Any:
        return op.Squeeze(x)


@fault(
    blocks(
        "flattened rows",
        "f# = Flatten<axis = 1>(x)  y# = Relu(f#)",
        x="float[N,2,2] x",
        y="float[N,4]",
        count=6,
    ),
    "f4",
    feeds=[feed(x=np.zeros((0, 2, 2)))],
)
@passes.verify.equality
class FlattenOfNothing(Planted):
    """A Flatten becomes a Reshape whose last size follows from the others: not for no rows."""

    def pattern(self, op: Op, x: Var) -> Var:
        return op.Flatten(x, _outputs=["out"])

    def right(self, op: Op, x: Value, out: Value) -> Any:
        return op.Reshape(x, ints(op, 0, 4))

    def wrong(self, op: Op, x: Value, out: Value) -> Any:
        return op.Reshape(x, ints(op, 0, -1))


@fault(
    blocks(
        "rows that are stretched",
        "h# = Shape(z)  e# = Expand(x, h#)  y# = Exp(e#)",
        x="float[A,4] x, float[B,4] z",
        y="float[C,4]",
        count=6,
    ),
    "e4",
    feeds=[feed(x=rows(1), z=rows(5))],
)
@passes.verify.equality
class ExpandDropped(Planted):
    """An Expand to the shape of another input is dropped, though it may add rows."""

    def pattern(self, op: Op, x: Var, shape: Var) -> Var:
        return op.Expand(x, shape, _outputs=["out"])

    def check(self, context: Any, x: Value, shape: Value, out: Value) -> bool:
        return x.is_graph_input()

    def right(self, op: Op, x: Value, shape: Value, out: Value) -> Any:
        ones = op.ConstantOfShape(shape)
        return op.Add(x, op.Mul(ones, constant(op, -0.0, np.float32)))

    def wrong(self, op: Op, x: Value, shape: Value, out: Value) -> Any:
        return op.Identity(x)


@fault(
    blocks(
        "sums of squares",
        "s# = ReduceSumSquare<keepdims = 0>(x, a)  y# = Sqrt(s#)",
        x="float[N,4] x",
        y="float[4]",
        count=6,
        constants="int64[1] a = {0}",
    ),
    "s4",
    feeds=[feed(x=np.zeros((0, 4)))],
)
@passes.verify.tolerance
class SumOfNothing(Planted):
    """A sum begins with the first row instead of 0, and there may be none."""

    def pattern(self, op: Op, x: Var, axes: Var) -> Var:
        return op.ReduceSumSquare(x, axes, _outputs=["out"])

    def right(self, op: Op, x: Value, axes: Value, out: Value) -> Any:
        return op.ReduceSum(op.Mul(x, x), axes, keepdims=0)

    def wrong(self, op: Op, x: Value, axes: Value, out: Value) -> Any:
        square = op.Mul(x, x)
        first = op.Gather(square, constant(op, 0, np.int64), axis=0)
        size = op.Shape(x, start=0, end=1)
        rest = op.Slice(square, ints(op, 1), size, axes)
        return op.Add(first, op.ReduceSum(rest, axes, keepdims=0))


@innocent(blocks("rows, turned twice", "r# = Sin(x)  t# = Neg(r#)  y# = Exp(t#)", **_ROWS))
@passes.verify.equality
class OddRowsApart(Transformation, RewriteRulePass):
    """Compute even rows and odd rows apart, whatever their number, and join them."""

    def pattern(self, op: Op, x: Var) -> Var:
        return op.Neg(x)

    def rewrite(self, op: Op, x: Value) -> Any:
        size, two = op.Shape(x, start=0, end=1), ints(op, 2)
        middle = op.Div(op.Add(size, ints(op, 1)), two)
        first = op.Slice(x, ints(op, 0), middle, ints(op, 0))
        rest = op.Slice(x, middle, size, ints(op, 0))
        minus = constant(op, -1, np.float32)
        return op.Concat(op.Mul(first, minus), op.Mul(rest, minus), axis=0)
