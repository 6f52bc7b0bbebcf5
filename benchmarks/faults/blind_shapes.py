"""Faults in shapes, axes and sizes, written without a look at how the gate works."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir

from benchmarks.faults.case import (
    Planted,
    Unguarded,
    array,
    attributes,
    constant,
    fault,
    known,
)
from benchmarks.faults.models import blocks, feed
from benchmarks.faults.sizes import ints, rows
from onnx_passes import passes
from onnx_passes.passes.base import Op, Value, Var


@fault(
    blocks(
        "classes as a column",
        "s# = Softmax<axis = -1>(x)  u# = Unsqueeze(s#, a)  y# = Neg(u#)",
        y="float[4,4,1]",
        constants="int64[1] a = {-1}",
    )
)
@passes.verify.tolerance
class NegativeAxisMoved(Planted):
    """A Softmax moves behind an Unsqueeze, and its axis -1 is the new one then."""

    def pattern(self, op: Op, x: Var, axes: Var) -> Var:
        return op.Unsqueeze(op.Softmax(x), axes, _outputs=["out"])

    def right(self, op: Op, x: Value, axes: Value, out: Value) -> Any:
        return op.Softmax(op.Unsqueeze(x, axes), axis=-2)

    def wrong(self, op: Op, x: Value, axes: Value, out: Value) -> Any:
        return op.Softmax(op.Unsqueeze(x, axes), axis=-1)


@fault(
    blocks(
        "causal scores with a past",
        "l# = Shape<start = 1, end = 2>(x)  q# = Shape<start = 0, end = 1>(x)  "
        "d# = Sub(l#, q#)  k# = Squeeze(d#)  y# = Trilu<upper = 0>(x, k#)",
        x="float[Q,K] x",
        y="float[A,B]",
        count=6,
    ),
    feeds=[feed(x=np.ones((2, 5)))],
)
@passes.verify.equality
class PastForgotten(Planted):
    """A causal mask begins at the diagonal, also where there are more keys than queries."""

    def pattern(self, op: Op, x: Var, k: Var) -> Var:
        return op.Trilu(x, k, _outputs=["out"])

    def check(self, context: Any, x: Value, k: Value, out: Value) -> bool:
        return x.is_graph_input() and array(k) is None

    def right(self, op: Op, x: Value, k: Value, out: Value) -> Any:
        turned = op.Transpose(x, perm=[1, 0])
        return op.Transpose(op.Trilu(turned, op.Neg(k), upper=1), perm=[1, 0])

    def wrong(self, op: Op, x: Value, k: Value, out: Value) -> Any:
        return op.Trilu(x, constant(op, 0, np.int64), upper=0)


@fault(
    blocks(
        "sums of products",
        "m# = Mul(x, k)  y# = ReduceSum<keepdims = 0>(m#, a)",
        y="float[4]",
        constants="float[1] k = {3}, float[4] v = {1, 2, 3, 4}, int64[1] a = {1}",
        odd=("Mul(x, k)", "Mul(x, v)"),
    ),
    "y5",
)
@passes.verify.tolerance
class FactorOutOfSum(Unguarded):
    """A factor leaves a sum, though it is a vector along the axis that is summed."""

    def pattern(self, op: Op, x: Var, k: Var, axes: Var) -> Var:
        return op.ReduceSum(op.Mul(x, k), axes, _outputs=["out"])

    def sound(self, **values: Value) -> bool:
        return known(values["k"]).size == 1

    def rewrite(self, op: Op, x: Value, k: Value, axes: Value, out: Value) -> Any:
        return op.Mul(op.ReduceSum(x, axes, keepdims=0), k)


@fault(
    blocks(
        "largest of pairs",
        "p# = MaxPool<kernel_shape = [2], strides = [2]>(x)  y# = Neg(p#)",
        x="float[1,2,L] x",
        y="float[1,2,M]",
        count=6,
    ),
    feeds=[feed(x=np.linspace(-1, 1, 14).reshape(1, 2, 7))],
)
@passes.verify.equality
class OddOneKept(Planted):
    """A pool over pairs becomes a Max of two Slices, and the first may be longer by one."""

    def pattern(self, op: Op, x: Var) -> Var:
        return op.MaxPool(x, _outputs=["out"])

    def paired(self, op: Op, x: Value, size: Any, end: Any) -> Any:
        """Take elements 0, 2, 4 up to an end, and 1, 3, 5 up to the size."""
        axis, step = ints(op, 2), ints(op, 2)
        first = op.Slice(x, ints(op, 0), end, axis, step)
        return op.Max(first, op.Slice(x, ints(op, 1), size, axis, step))

    def right(self, op: Op, x: Value, out: Value) -> Any:
        size = op.Shape(x, start=2, end=3)
        return self.paired(op, x, size, op.Sub(size, op.Mod(size, ints(op, 2))))

    def wrong(self, op: Op, x: Value, out: Value) -> Any:
        size = op.Shape(x, start=2, end=3)
        return self.paired(op, x, size, size)


_C = ", ".join(map(str, range(16)))


@fault(
    blocks(
        "turned sums",
        "a# = Add(x, c)  y# = Transpose<perm = [1, 0]>(a#)",
        constants=f"float[4,4] c = {{{_C}}}, float[4] v = {{1, 2, 3, 4}}",
        odd=("Add(x, c)", "Add(x, v)"),
    ),
    "y5",
)
@passes.verify.equality
class VectorNotTurned(Unguarded):
    """A Transpose moves before a sum, and a vector in it stays a row."""

    def pattern(self, op: Op, x: Var, c: Var) -> Var:
        return op.Transpose(op.Add(x, c), _outputs=["out"])

    def sound(self, **values: Value) -> bool:
        return known(values["c"]).ndim == 2

    def rewrite(self, op: Op, x: Value, c: Value, out: Value) -> Any:
        return op.Add(op.Transpose(x), op.Transpose(c))


@fault(
    blocks(
        "a vector by matrices",
        "m# = MatMul(v, x)  y# = Neg(m#)",
        x="float[4,N] x",
        y="float[M]",
        count=6,
        constants="float[4] v = {1, 2, 3, 4}",
    ),
    feeds=[feed(x=np.ones((4, 1)))],
)
@passes.verify.tolerance
class ProductSqueezed(Planted):
    """A product with a vector becomes one with a row, and loses an axis of size 1 as well."""

    def pattern(self, op: Op, v: Var, x: Var) -> Var:
        return op.MatMul(v, x, _outputs=["out"])

    def check(self, context: Any, v: Value, x: Value, out: Value) -> bool:
        return v.producer() is None

    def right(self, op: Op, v: Value, x: Value, out: Value) -> Any:
        return op.Squeeze(op.MatMul(op.Unsqueeze(v, ints(op, 0)), x), ints(op, 0))

    def wrong(self, op: Op, v: Value, x: Value, out: Value) -> Any:
        return op.Squeeze(op.MatMul(op.Unsqueeze(v, ints(op, 0)), x))


@fault(
    blocks(
        "whether all are large",
        "c# = Greater(x, k)  i# = Cast<to = 7>(c#)  s# = ReduceSum<keepdims = 0>(i#)  "
        "n# = Size(c#)  y# = Equal(s#, n#)",
        x="float[N,4] x",
        y="bool",
        count=6,
        constants="float k = {-2.5}",
    ),
    feeds=[feed(x=np.zeros((0, 4)))],
)
@passes.verify.equality
class AllByMean(Planted):
    """A mean of 1 is to show that all of a tensor is true: not if it is empty."""

    def pattern(self, op: Op, c: Var) -> Var:
        total = op.ReduceSum(op.Cast(c, to=ir.DataType.INT64))
        return op.Equal(total, op.Size(c), _outputs=["out"])

    def right(self, op: Op, c: Value, out: Value) -> Any:
        others = op.Cast(op.Not(c), to=ir.DataType.INT64)
        return op.Equal(op.ReduceSum(others, keepdims=0), constant(op, 0, np.int64))

    def wrong(self, op: Op, c: Value, out: Value) -> Any:
        mean = op.ReduceMean(op.Cast(c, to=ir.DataType.FLOAT), keepdims=0)
        return op.Equal(mean, constant(op, 1, np.float32))


@fault(
    blocks(
        "rows read as columns",
        "h# = Shape(x)  s# = Gather(h#, turn)  f# = Reshape(x, flat)  "
        "r# = Reshape<allowzero = 1>(f#, s#)  y# = Neg(r#)",
        x="float[N,4] x",
        y="float[4,M]",
        count=6,
        constants="int64[2] turn = {1, 0}, int64[1] flat = {-1}",
    ),
    feeds=[feed(x=rows(0))],
)
@passes.verify.equality
class AllowzeroLost(Planted):
    """Two Reshapes are merged without the second's ``allowzero``: not for no rows."""

    def pattern(self, op: Op, x: Var, flat: Var, shape: Var) -> Var:
        return op.Reshape(op.Reshape(x, flat), shape, _outputs=["out"])

    def right(self, op: Op, x: Value, flat: Value, shape: Value, out: Value) -> Any:
        return op.Reshape(x, shape, **attributes(out))

    def wrong(self, op: Op, x: Value, flat: Value, shape: Value, out: Value) -> Any:
        return op.Reshape(x, shape)
