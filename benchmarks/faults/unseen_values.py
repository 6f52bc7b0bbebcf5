"""Faults in activations, remainders, types and quantisers that the gate does not know.

They are mistakes that passes of other compilers made. Who wrote them had not read the gate.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir

from benchmarks.faults.case import Planted, Unguarded, constant, fault, known
from benchmarks.faults.models import blocks, feed
from onnx_passes import passes
from onnx_passes.passes.base import Op, Value, Var

_LINE = np.linspace(-3, 3, 16).reshape(4, 4)


@fault(
    blocks(
        "likelihoods",
        "p# = Exp(x)  q# = Exp(z)  a# = Log(p#)  b# = Log(q#)  y# = Add(a#, b#)",
        x="float[4,4] x, float[4,4] z",
    ),
    "y5",
    feeds=[feed(x=np.full((4, 4), -60.0), z=np.full((4, 4), -50.0))],
)
@passes.verify.tolerance
class LogsMerged(Planted):
    """A sum of logarithms becomes that of a product, which is 0 for two small numbers."""

    def pattern(self, op: Op, a: Var, b: Var) -> Var:
        return op.Add(op.Log(a), op.Log(b), _outputs=["out"])

    def right(self, op: Op, a: Value, b: Value, out: Value) -> Any:
        return op.Sub(op.Log(a), op.Neg(op.Log(b)))

    def wrong(self, op: Op, a: Value, b: Value, out: Value) -> Any:
        return op.Log(op.Mul(a, b))


@fault(
    blocks(
        "bounded numbers",
        "t# = Min(x, high)  y# = Max(t#, low)",
        constants="float high = {0.5}, float low = {-0.5}, float lower = {-1}",
        odd=("Min(x, high)", "Min(x, lower)"),
    ),
    "y5",
    feeds=[feed(x=_LINE)],
)
@passes.verify.equality
class BoundsCrossed(Unguarded):
    """A maximum of a minimum becomes a Clip, whose upper bound wins if it is lower."""

    def pattern(self, op: Op, x: Var, high: Var, low: Var) -> Var:
        return op.Max(op.Min(x, high), low, _outputs=["out"])

    def sound(self, **values: Value) -> bool:
        return bool(known(values["low"]) <= known(values["high"]))

    def rewrite(self, op: Op, x: Value, high: Value, low: Value, out: Value) -> Any:
        return op.Clip(x, low, high)


@fault(
    blocks(
        "buckets of numbers",
        "m# = Mod(x, eight)  y# = Add(m#, eight)",
        x="int64[16] x",
        y="int64[16]",
        constants="int64 eight = {8}, int64 six = {6}",
        odd=("Mod(x, eight)", "Mod(x, six)"),
    ),
    "m5",
    feeds=[{"x": np.arange(-8, 8)}],
)
@passes.verify.equality
class RemainderByMask(Unguarded):
    """A remainder becomes a mask of bits, also where the divisor is not a power of two."""

    def pattern(self, op: Op, x: Var, k: Var) -> Var:
        return op.Mod(x, k, _outputs=["out"])

    def sound(self, **values: Value) -> bool:
        return int(known(values["k"])).bit_count() == 1

    def rewrite(self, op: Op, x: Value, k: Value, out: Value) -> Any:
        return op.BitwiseAnd(x, constant(op, known(k) - 1))


@fault(
    blocks(
        "bytes as numbers",
        "d# = DequantizeLinear(x, s, z)  y# = Abs(d#)",
        x="uint8[4,4] x",
        constants="float s = {0.125}, uint8 z = {128}",
    ),
    "d5",
    feeds=[{"x": np.arange(0, 256, 16, dtype=np.uint8).reshape(4, 4)}],
)
@passes.verify.equality
class ZeroPointInBytes(Planted):
    """A zero point is subtracted in uint8, where what is below it wraps around."""

    def pattern(self, op: Op, x: Var, s: Var, z: Var) -> Var:
        return op.DequantizeLinear(x, s, z, _outputs=["out"])

    def right(self, op: Op, x: Value, s: Value, z: Value, out: Value) -> Any:
        levels, zero = (op.Cast(value, to=ir.DataType.INT32) for value in (x, z))
        return op.Mul(op.Cast(op.Sub(levels, zero), to=ir.DataType.FLOAT), s)

    def wrong(self, op: Op, x: Value, s: Value, z: Value, out: Value) -> Any:
        return op.Mul(op.Cast(op.Sub(x, z), to=ir.DataType.FLOAT), s)


@fault(
    blocks(
        "quantised twice",
        "q# = QuantizeLinear(x, s, z)  d# = DequantizeLinear(q#, s, z)  "
        "r# = QuantizeLinear(d#, s, z)  y# = DequantizeLinear(r#, s, z)",
        constants="float s = {0.05}, float coarse = {0.12}, uint8 z = {128}",
        odd=(
            "(x, s, z)  d# = DequantizeLinear(q#, s, z)",
            "(x, coarse, z)  d# = DequantizeLinear(q#, coarse, z)",
        ),
    ),
    "r5",
    feeds=[feed(x=_LINE)],
)
@passes.verify.equality
class FirstQuantiserDropped(Unguarded):
    """Of two pairs of quantiser and dequantiser the first is dropped, though it is coarser."""

    def pattern(self, op: Op, x: Var, s: Var, z: Var, scale: Var, zero: Var) -> Var:
        first = op.DequantizeLinear(op.QuantizeLinear(x, s, z), s, z)
        return op.QuantizeLinear(first, scale, zero, _outputs=["out"])

    def sound(self, **values: Value) -> bool:
        pairs = (("s", "scale"), ("z", "zero"))
        return all(known(values[a]) == known(values[b]) for a, b in pairs)

    def rewrite(self, op: Op, x: Value, scale: Value, zero: Value, **rest: Value) -> Any:
        return op.QuantizeLinear(x, scale, zero)


@fault(
    blocks(
        "products of bytes",
        "p# = MatMulInteger(a, b, u, v)  y# = Cast<to = 1>(p#)",
        x="uint8[4,4] a, uint8[4,4] b",
        constants="uint8 u = {3}, uint8 v = {7}",
    ),
    "p5",
    feeds=[
        {
            "a": np.arange(16, dtype=np.uint8).reshape(4, 4),
            "b": np.arange(100, 116, dtype=np.uint8).reshape(4, 4),
        }
    ],
)
@passes.verify.equality
class ZeroPointsSwapped(Planted):
    """The two zero points of an integer product are exchanged when it is written out."""

    def pattern(self, op: Op, a: Var, b: Var, u: Var, v: Var) -> Var:
        return op.MatMulInteger(a, b, u, v, _outputs=["out"])

    def centred(self, op: Op, x: Value, zero: Value) -> Any:
        """Subtract a zero point in int32."""
        return op.Sub(*(op.Cast(value, to=ir.DataType.INT32) for value in (x, zero)))

    def right(self, op: Op, a: Value, b: Value, u: Value, v: Value, out: Value) -> Any:
        return op.MatMul(self.centred(op, a, u), self.centred(op, b, v))

    def wrong(self, op: Op, a: Value, b: Value, u: Value, v: Value, out: Value) -> Any:
        return op.MatMul(self.centred(op, a, v), self.centred(op, b, u))


@fault(
    blocks(
        "whether there is something",
        "i# = Cast<to = 7>(u)  b# = Cast<to = 9>(i#)  y# = Not(b#)",
        x="float[4,4] x, int32[4,4] u",
        y="bool[4,4]",
        odd=("Cast<to = 7>(u)", "Cast<to = 7>(x)"),
    ),
    "b5",
    feeds=[feed(x=_LINE / 4, u=np.zeros((4, 4), np.int32))],
)
@passes.verify.equality
class TruthOfFraction(Unguarded):
    """A Cast to int64 on the way to bool is dropped, where 0.5 became 0."""

    def pattern(self, op: Op, x: Var) -> Var:
        return op.Cast(op.Cast(x), to=ir.DataType.BOOL, _outputs=["out"])

    def sound(self, **values: Value) -> bool:
        return values["x"].dtype == ir.DataType.INT32

    def rewrite(self, op: Op, x: Value, out: Value) -> Any:
        return op.Cast(x, to=ir.DataType.BOOL)


@fault(
    blocks(
        "capped scores",
        "d# = Div(x, cap)  t# = Tanh(d#)  s# = Mul(t#, cap)  y# = Softmax(s#)",
        constants="float cap = {64}",
    ),
    "s5",
    feeds=[feed(x=_LINE * 20)],
)
@passes.verify.tolerance
class CapByClip(Planted):
    """A soft cap of scores becomes a Clip, which is the same for small scores only."""

    def pattern(self, op: Op, x: Var, cap: Var) -> Var:
        return op.Mul(op.Tanh(op.Div(x, cap)), cap, _outputs=["out"])

    def right(self, op: Op, x: Value, cap: Value, out: Value) -> Any:
        return op.Mul(op.Tanh(op.Mul(x, constant(op, 1 / known(cap)))), cap)

    def wrong(self, op: Op, x: Value, cap: Value, out: Value) -> Any:
        return op.Clip(x, constant(op, -known(cap)), cap)


@fault(
    blocks(
        "variances",
        "m# = ReduceMean<keepdims = 1>(x, a)  d# = Sub(x, m#)  q# = Mul(d#, d#)  "
        "s# = ReduceSum<keepdims = 0>(q#, a)  y# = Div(s#, n)",
        y="float[4]",
        constants="int64[1] a = {1}, float n = {4}, float less = {3}",
        odd=("Div(s#, n)", "Div(s#, less)"),
    ),
    "y5",
    feeds=[feed(x=_LINE)],
)
@passes.verify.tolerance
class UnbiasedByMean(Unguarded):
    """A sum divided by one less than the size, as of an unbiased variance, becomes a mean."""

    def pattern(self, op: Op, x: Var, axes: Var, n: Var) -> Var:
        return op.Div(op.ReduceSum(x, axes), n, _outputs=["out"])

    def sound(self, **values: Value) -> bool:
        return bool(known(values["n"]) == 4)

    def rewrite(self, op: Op, x: Value, axes: Value, n: Value, out: Value) -> Any:
        return op.ReduceMean(x, axes, keepdims=0)
