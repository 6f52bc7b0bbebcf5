"""Faults in numbers, types, ties and masks, written without a look at how the gate works."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir

from benchmarks.faults.case import Planted, Unguarded, attribute, constant, fault, known
from benchmarks.faults.models import blocks, feed
from onnx_passes import passes
from onnx_passes.passes.base import Op, Value, Var


def _given(out: Value, name: str) -> bool:
    producer = out.producer()
    return producer is not None and name in producer.attributes


@fault(
    blocks(
        "rows behind a Slice",
        "s# = Slice(x, two, far, zero)  g# = Gather<axis = 0>(s#, i)  y# = Sin(g#)",
        x="float[8,4] x, int64[3] i",
        y="float[3,4]",
        constants="int64[1] two = {2}, int64[1] far = {1000000}, int64[1] zero = {0}",
    ),
    feeds=[feed(x=np.linspace(-1, 1, 32).reshape(8, 4), i=np.array([-1, -6, 2]))],
)
@passes.verify.equality
class IndexBehindSlice(Planted):
    """A Gather skips a Slice, and a negative index is moved like one from the front."""

    def pattern(self, op: Op, x: Var, start: Var, end: Var, axes: Var, i: Var) -> Var:
        return op.Gather(op.Slice(x, start, end, axes), i, _outputs=["out"])

    def right(self, op: Op, x: Value, start: Value, i: Value, **rest: Value) -> Any:
        negative = op.Less(i, constant(op, 0, np.int64))
        return op.Gather(x, op.Where(negative, i, op.Add(i, start)), axis=0)

    def wrong(self, op: Op, x: Value, start: Value, i: Value, **rest: Value) -> Any:
        return op.Gather(x, op.Add(i, start), axis=0)


@fault(
    blocks(
        "rounded numbers",
        "f# = Cast<to = 1>(u)  r# = Round(f#)  y# = Abs(r#)",
        x="float[4,4] x, uint8[4,4] u",
        odd=("Round(f#)", "Round(x)"),
    ),
    "r5",
    feeds=[feed(x=np.arange(16).reshape(4, 4) / 2, u=np.zeros((4, 4), np.uint8))],
)
@passes.verify.equality
class RoundByFloor(Unguarded):
    """A Round becomes a Floor of half more, which rounds 2.5 to 3 and not to 2."""

    def pattern(self, op: Op, x: Var) -> Var:
        return op.Round(x, _outputs=["out"])

    def sound(self, **values: Value) -> bool:
        producer = values["x"].producer()
        return producer is not None and producer.op_type == "Cast"

    def rewrite(self, op: Op, x: Value, out: Value) -> Any:
        return op.Floor(op.Add(x, constant(op, 0.5, np.float32)))


@fault(
    blocks(
        "the best four",
        "v#, i# = TopK<axis = 1>(x, k)  y# = Add(i#, one)",
        x="float[4,8] x",
        y="int64[4,4]",
        constants="int64[1] k = {4}, int64 one = {1}",
    ),
    feeds=[feed(x=np.zeros((4, 8)))],
)
@passes.verify.equality
class SortedBackwards(Planted):
    """A TopK reads a whole sorted row from its end, so that equal elements change places."""

    def pattern(self, op: Op, x: Var, k: Var) -> Any:
        return op.TopK(x, k, _outputs=["out", "indices"])

    def check(self, context: Any, out: Value, **values: Value) -> bool:
        return not _given(out, "largest")

    def right(self, op: Op, x: Value, k: Value, **rest: Value) -> Any:
        low, indices = op.TopK(op.Neg(x), k, axis=1, largest=0, _outputs=2)
        return op.Neg(low), indices

    def wrong(self, op: Op, x: Value, k: Value, **rest: Value) -> Any:
        every = constant(op, [8], np.int64)
        ordered = op.TopK(x, every, axis=1, largest=0, _outputs=2)
        bounds = [constant(op, [n], np.int64) for n in (-1, -5, 1, -1)]
        return tuple(op.Slice(value, *bounds) for value in ordered)


@fault(
    blocks(
        "levels with a zero point",
        "y# = QuantizeLinear(x, s, z)",
        y="uint8[4,4]",
        constants="float s = {0.5}, uint8 z = {3}",
    ),
    feeds=[feed(x=np.arange(16).reshape(4, 4) / 4 - 1)],
)
@passes.verify.equality
class RoundedBehindZeroPoint(Planted):
    """A quantiser adds its odd zero point before it rounds, which turns ties around."""

    def pattern(self, op: Op, x: Var, s: Var, z: Var) -> Var:
        return op.QuantizeLinear(x, s, z, _outputs=["out"])

    def stored(self, op: Op, levels: Any) -> Any:
        """Saturate and convert."""
        low, high = (constant(op, v, np.float32) for v in (0, 255))
        return op.Cast(op.Clip(levels, low, high), to=ir.DataType.UINT8)

    def right(self, op: Op, x: Value, s: Value, z: Value, out: Value) -> Any:
        zero = constant(op, known(z), np.float32)
        return self.stored(op, op.Add(op.Round(op.Div(x, s)), zero))

    def wrong(self, op: Op, x: Value, s: Value, z: Value, out: Value) -> Any:
        zero = constant(op, known(z), np.float32)
        return self.stored(op, op.Round(op.Add(op.Div(x, s), zero)))


@fault(
    blocks(
        "magnitudes of bytes",
        "a# = Abs(x)  y# = Cast<to = 6>(a#)",
        x="int8[16] x",
        y="int32[16]",
    ),
    feeds=[{"x": np.full(16, -128, np.int8)}],
)
@passes.verify.equality
class AbsBehindCast(Planted):
    """An Abs of int8 moves behind a Cast, where that of -128 is 128 and no longer -128."""

    def pattern(self, op: Op, x: Var) -> Var:
        return op.Cast(op.Abs(x), _outputs=["out"])

    def wrong(self, op: Op, x: Value, out: Value) -> Any:
        return op.Abs(op.Cast(x, to=ir.DataType.INT32))

    def right(self, op: Op, x: Value, out: Value) -> Any:
        size = op.Abs(op.Cast(x, to=ir.DataType.INT32))
        limit, lowest = (constant(op, n, np.int32) for n in (128, -128))
        return op.Where(op.Equal(size, limit), lowest, size)


@fault(
    blocks(
        "quantised activations",
        "r# = Relu(x)  q# = QuantizeLinear(r#, s, u)  y# = DequantizeLinear(q#, s, u)",
        constants="float s = {0.05}, uint8 u = {0}, int8 i = {0}",
        odd=(
            "(r#, s, u)  y# = DequantizeLinear(q#, s, u)",
            "(r#, s, i)  y# = DequantizeLinear(q#, s, i)",
        ),
    ),
    "q5",
)
@passes.verify.equality
class ReluBySaturation(Unguarded):
    """A Relu is left to a quantiser with a zero point of 0, whose type has a sign."""

    def pattern(self, op: Op, x: Var, s: Var, z: Var) -> Var:
        return op.QuantizeLinear(op.Relu(x), s, z, _outputs=["out"])

    def applies(self, **values: Value) -> bool:
        return not known(values["z"]).any()

    def sound(self, **values: Value) -> bool:
        return values["z"].dtype == ir.DataType.UINT8

    def rewrite(self, op: Op, x: Value, s: Value, z: Value, out: Value) -> Any:
        return op.QuantizeLinear(x, s, z)


@fault(
    blocks(
        "integers by way of floats",
        "f# = Cast<to = 11>(x)  b# = Cast<to = 6>(f#)  y# = BitwiseNot(b#)",
        x="int32[16] x",
        y="int32[16]",
        odd=("to = 11", "to = 1"),
    ),
    "b5",
    feeds=[{"x": np.arange(16, dtype=np.int32) + (1 << 24)}],
)
@passes.verify.equality
class FloatHoldsInt(Unguarded):
    """A Cast of int32 to float and back is removed, though float has 24 bits only."""

    def pattern(self, op: Op, x: Var) -> Var:
        return op.Cast(op.Cast(x, _outputs=["inner"]), _outputs=["out"])

    def sound(self, **values: Value) -> bool:
        return bool(attribute(values["inner"], "to") == ir.DataType.DOUBLE)

    def rewrite(self, op: Op, x: Value, inner: Value, out: Value) -> Any:
        return op.Identity(x)


@fault(
    blocks(
        "scales by channel",
        "y# = DequantizeLinear(x, s, z)",
        x="int8[4,4] x",
        constants="float[4] s = {0.1, 0.2, 0.3, 0.4}, int8[4] z = {0, 1, 2, 3}",
    )
)
@passes.verify.equality
class AxisOfScales(Planted):
    """A DequantizeLinear gets axis 0, and its default is 1."""

    def pattern(self, op: Op, x: Var, s: Var, z: Var) -> Var:
        return op.DequantizeLinear(x, s, z, _outputs=["out"])

    def check(self, context: Any, out: Value, **values: Value) -> bool:
        return not _given(out, "axis")

    def right(self, op: Op, x: Value, s: Value, z: Value, out: Value) -> Any:
        return op.DequantizeLinear(x, s, z, axis=1)

    def wrong(self, op: Op, x: Value, s: Value, z: Value, out: Value) -> Any:
        return op.DequantizeLinear(x, s, z, axis=0)


@fault(
    blocks("old classes", "y# = Softmax(x)", x="float[2,3,4] x", y="float[2,3,4]", opset=12)
)
@passes.verify.tolerance
class SoftmaxOfNewOpset(Planted):
    """A Softmax of opset 12 gets the default axis of opset 13."""

    def pattern(self, op: Op, x: Var) -> Var:
        return op.Softmax(x, _outputs=["out"])

    def check(self, context: Any, x: Value, out: Value) -> bool:
        return not _given(out, "axis")

    def right(self, op: Op, x: Value, out: Value) -> Any:
        return op.Softmax(x, axis=1)

    def wrong(self, op: Op, x: Value, out: Value) -> Any:
        return op.Softmax(x, axis=-1)


@fault(
    blocks(
        "scores with a mask",
        "w# = Where(m, x, low)  y# = Softmax<axis = -1>(w#)",
        x="float[4,8] x, bool[4,8] m",
        y="float[4,8]",
        constants="float low = {-1000000000}",
    ),
    feeds=[feed(x=np.linspace(-1, 1, 32).reshape(4, 8), m=np.zeros((4, 8), bool))],
)
@passes.verify.tolerance
class MaskAdded(Planted):
    """A mask is added to scores and not put in their place: not for rows without a token."""

    def pattern(self, op: Op, m: Var, x: Var, low: Var) -> Var:
        return op.Softmax(op.Where(m, x, low), _outputs=["out"])

    def check(self, context: Any, m: Value, **values: Value) -> bool:
        return m.is_graph_input()

    def right(self, op: Op, m: Value, x: Value, low: Value, out: Value) -> Any:
        return op.Softmax(op.Where(op.Not(m), low, x), axis=1)

    def wrong(self, op: Op, m: Value, x: Value, low: Value, out: Value) -> Any:
        zero, masked = (constant(op, n, np.float32) for n in (0, -10000))
        return op.Softmax(op.Add(x, op.Where(m, zero, masked)), axis=1)
