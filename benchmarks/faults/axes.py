"""Axes, indices and bounds that are off."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.faults.case import Planted, array, attribute, constant, fault, known
from benchmarks.faults.models import LLAMA, RESNET, TRANSFORMER, blocks
from onnx_passes import passes
from onnx_passes.passes.base import Op, Value, Var


@fault(TRANSFORMER, 0.6)
@passes.verify.equality
class SoftmaxAxis(Planted):
    """Softmax runs along the wrong axis."""

    def pattern(self, op: Op, x: Var) -> Var:
        return op.Softmax(x, _outputs=["out"])

    def check(self, context: Any, x: Value, out: Value) -> bool:
        return bool(attribute(out, "axis") == -1)

    def right(self, op: Op, x: Value, out: Value) -> Any:
        return op.Softmax(x, axis=3)

    def wrong(self, op: Op, x: Value, out: Value) -> Any:
        return op.Softmax(x, axis=2)


@fault(TRANSFORMER, 0.8)
@passes.verify.equality
class MeanAxis(Planted):
    """A mean is taken over the sequence instead of the features."""

    def pattern(self, op: Op, x: Var) -> Var:
        return op.ReduceMean(x, _outputs=["out"])

    def check(self, context: Any, x: Value, out: Value) -> bool:
        return bool(attribute(out, "axes") == (-1,) or attribute(out, "axes") == [-1])

    def right(self, op: Op, x: Value, out: Value) -> Any:
        return op.ReduceMean(x, axes=[2], keepdims=1)

    def wrong(self, op: Op, x: Value, out: Value) -> Any:
        return op.ReduceMean(x, axes=[1], keepdims=1)


@fault(LLAMA, 0.5)
@passes.verify.equality
class SliceOffByOne(Planted):
    """A slice begins and ends one element too late."""

    def pattern(self, op: Op, x: Var, start: Var, end: Var, axes: Var) -> Var:
        return op.Slice(x, start, end, axes, _outputs=["out"])

    def check(
        self, context: Any, x: Value, start: Value, end: Value, axes: Value, out: Value
    ) -> bool:
        first, last = array(start), array(end)
        return first is not None and last is not None and first[0] == 0 and last[0] < 1 << 30

    def right(
        self, op: Op, x: Value, start: Value, end: Value, axes: Value, out: Value
    ) -> Any:
        return op.Gather(x, constant(op, np.arange(known(end)[0])), axis=int(known(axes)[0]))

    def wrong(
        self, op: Op, x: Value, start: Value, end: Value, axes: Value, out: Value
    ) -> Any:
        late = np.arange(known(end)[0]) + 1
        return op.Gather(x, constant(op, late), axis=int(known(axes)[0]))


@fault(
    blocks(
        "rows",
        "t# = Relu(x)  y# = Gather<axis = 0>(t#, last)",
        x="float[N,4] x",
        y="float[4]",
        constants="int64 last = {-1}",
    )
)
@passes.verify.equality
class NegativeIndex(Planted):
    """A negative index is read as one from the front."""

    def pattern(self, op: Op, x: Var, index: Var) -> Var:
        return op.Gather(x, index, _outputs=["out"])

    def check(self, context: Any, x: Value, index: Value, out: Value) -> bool:
        number = array(index)
        return number is not None and number.ndim == 0 and bool(number < 0)

    def right(self, op: Op, x: Value, index: Value, out: Value) -> Any:
        size = op.Shape(x, start=0, end=1)
        axes = constant(op, [0], np.int64)
        return op.Gather(x, op.Squeeze(op.Add(size, index), axes), axis=0)

    def wrong(self, op: Op, x: Value, index: Value, out: Value) -> Any:
        return op.Gather(x, constant(op, 0, np.int64), axis=0)


@fault(
    blocks(
        "pairs",
        "t# = Neg(x)  c# = Concat<axis = -1>(x, t#)  y# = Reshape(c#, s)",
        constants="int64[2] s = {2, 16}",
        y="float[2,16]",
    )
)
@passes.verify.equality
class ConcatAxis(Planted):
    """Tensors are joined along the wrong axis, and a reshape hides it."""

    def pattern(self, op: Op, a: Var, b: Var) -> Var:
        return op.Concat(a, b, _outputs=["out"])

    def check(self, context: Any, a: Value, b: Value, out: Value) -> bool:
        return bool(attribute(out, "axis") == -1)

    def right(self, op: Op, a: Value, b: Value, out: Value) -> Any:
        return op.Concat(a, b, axis=1)

    def wrong(self, op: Op, a: Value, b: Value, out: Value) -> Any:
        return op.Concat(a, b, axis=0)


@fault(
    blocks(
        "splits",
        "a#, b# = Split<axis = 1>(x, sizes)  t# = Abs(b#)  y# = Concat<axis = 1>(t#, a#)",
        constants="int64[2] sizes = {2, 2}",
    )
)
@passes.verify.equality
class SplitOffset(Planted):
    """The second part of a split begins at the wrong offset."""

    def pattern(self, op: Op, x: Var, sizes: Var) -> Any:
        return op.Split(x, sizes, _outputs=["out", "rest"])

    def parts(self, op: Op, x: Value, axis: int, begin: int, size: int) -> Any:
        """Cut out ``size`` elements from ``begin`` on."""
        bounds = (constant(op, [n], np.int64) for n in (begin, begin + size, axis))
        return op.Slice(x, *bounds)

    def right(self, op: Op, x: Value, sizes: Value, out: Value, rest: Value) -> Any:
        (a, b), axis = known(sizes), attribute(out, "axis")
        return self.parts(op, x, axis, 0, int(a)), self.parts(op, x, axis, int(a), int(b))

    def wrong(self, op: Op, x: Value, sizes: Value, out: Value, rest: Value) -> Any:
        (a, b), axis = known(sizes), attribute(out, "axis")
        return self.parts(op, x, axis, 0, int(a)), self.parts(op, x, axis, int(a) - 1, int(b))


@fault(
    blocks(
        "normalised squares",
        "m# = ReduceMax<keepdims = 1>(x, axes)  y# = Sub(x, m#)",
        constants="int64[1] axes = {1}",
    )
)
@passes.verify.equality
class KeepdimsLost(Planted):
    """``keepdims`` is lost, and broadcasting hides it."""

    def pattern(self, op: Op, x: Var, axes: Var) -> Var:
        return op.ReduceMax(x, axes, _outputs=["out"])

    def check(self, context: Any, x: Value, axes: Value, out: Value) -> bool:
        return bool(known(axes)[0] > 0 and attribute(out, "keepdims") == 1)

    def right(self, op: Op, x: Value, axes: Value, out: Value) -> Any:
        return op.ReduceMax(x, constant(op, [-1], np.int64), keepdims=1)

    def wrong(self, op: Op, x: Value, axes: Value, out: Value) -> Any:
        return op.ReduceMax(x, constant(op, [-1], np.int64), keepdims=0)


@fault(RESNET, 0.0)
@passes.verify.equality
class PoolShifted(Planted):
    """The padding of a pool moves to its other side."""

    def pattern(self, op: Op, x: Var) -> Var:
        return op.MaxPool(x, _outputs=["out"])

    def check(self, context: Any, x: Value, out: Value) -> bool:
        return attribute(out, "dilations") is None

    def right(self, op: Op, x: Value, out: Value) -> Any:
        return op.MaxPool(
            x, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1], dilations=[1, 1]
        )

    def wrong(self, op: Op, x: Value, out: Value) -> Any:
        return op.MaxPool(
            x, kernel_shape=[3, 3], strides=[2, 2], pads=[0, 0, 1, 1], dilations=[1, 1]
        )
