"""Integers that overflow, round the wrong way or change their sign."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir

from benchmarks.faults.case import Planted, Unguarded, array, attribute, constant, fault, known
from benchmarks.faults.models import blocks
from onnx_passes import passes
from onnx_passes.passes.base import Op, Value, Var


def _unsigned(value: Value) -> bool:
    return value.dtype in (ir.DataType.UINT8, ir.DataType.UINT32, ir.DataType.UINT64)


@fault(
    blocks(
        "scaled indices",
        "t# = Mul(x, one)  y# = Div(t#, one)",
        x="int32[64] x",
        y="int32[64]",
        constants="int32 one = {1}, int32 c = {1000}",
        odd=("Mul(x, one)  y# = Div(t#, one)", "Mul(x, c)  y# = Div(t#, c)"),
    ),
    "y5",
    needs="adversarial",
    feeds=[{"x": np.arange(3_000_000, 3_000_640, 10, dtype=np.int32)}],
)
@passes.verify.equality
class ProductCancelled(Unguarded):
    """``x * c / c`` becomes ``x``, though the product overflows int32."""

    def pattern(self, op: Op, x: Var, c: Var) -> Var:
        return op.Div(op.Mul(x, c), c, _outputs=["out"])

    def sound(self, **values: Value) -> bool:
        return bool(known(values["c"]) == 1)

    def rewrite(self, op: Op, x: Value, c: Value, out: Value) -> Any:
        return op.Identity(x)


@fault(
    blocks(
        "element counts",
        "t# = Mul(x, c)  y# = Mod(t#, m)",
        x="int64[64] x",
        y="int64[64]",
        constants="int64 c = {1000000007}, int64 m = {1009}",
    )
)
@passes.verify.equality
class ComputedInInt32(Planted):
    """A product of sizes is computed in int32."""

    def pattern(self, op: Op, x: Var, c: Var) -> Var:
        return op.Mul(x, c, _outputs=["out"])

    def check(self, context: Any, x: Value, c: Value, out: Value) -> bool:
        return array(c) is not None

    def right(self, op: Op, x: Value, c: Value, out: Value) -> Any:
        return op.Mul(c, x)

    def wrong(self, op: Op, x: Value, c: Value, out: Value) -> Any:
        narrow = [op.Cast(v, to=ir.DataType.INT32) for v in (c, x)]
        return op.Cast(op.Mul(*narrow), to=ir.DataType.INT64)


@fault(
    blocks(
        "bytes",
        "t# = Mul(x, c)  y# = Max(t#, x)",
        x="uint8[64] x",
        y="uint8[64]",
        constants="uint8 c = {4}",
    )
)
@passes.verify.equality
class ShiftTurned(Planted):
    """A product by a power of two becomes a shift to the wrong side."""

    def pattern(self, op: Op, x: Var, c: Var) -> Var:
        return op.Mul(x, c, _outputs=["out"])

    def right(self, op: Op, x: Value, c: Value, out: Value) -> Any:
        return op.BitShift(x, constant(op, 2, np.uint8), direction="LEFT")

    def wrong(self, op: Op, x: Value, c: Value, out: Value) -> Any:
        return op.BitShift(x, constant(op, 2, np.uint8), direction="RIGHT")


@fault(
    blocks(
        "halved numbers",
        "t# = Cast<to = 6>(u)  y# = Div(t#, c)",
        x="int32[64] x, uint8[64] u",
        y="int32[64]",
        constants="int32 c = {4}",
        odd=("Div(t#, c)", "Div(x, c)"),
    ),
    "y5",
)
@passes.verify.equality
class DivisionFloored(Unguarded):
    """Integer division, which rounds to zero, becomes one that rounds down."""

    def pattern(self, op: Op, x: Var, c: Var) -> Var:
        return op.Div(x, c, _outputs=["out"])

    def sound(self, **values: Value) -> bool:
        producer = values["x"].producer()
        source = producer.inputs[0] if producer is not None else None
        return source is not None and _unsigned(source)

    def rewrite(self, op: Op, x: Value, c: Value, out: Value) -> Any:
        wide = op.Cast(x, to=ir.DataType.DOUBLE)
        ratio = op.Mul(wide, constant(op, 1 / known(c), np.float64))
        return op.Cast(op.Floor(ratio), to=ir.DataType.INT32)


@fault(
    blocks(
        "remainders",
        "t# = Abs(x)  y# = Mod<fmod = 1>(t#, c)",
        x="int32[64] x",
        y="int32[64]",
        constants="int32 c = {7}",
        odd=("Mod<fmod = 1>(t#, c)", "Mod<fmod = 1>(x, c)"),
    ),
    "y5",
)
@passes.verify.equality
class FmodLost(Unguarded):
    """Mod loses ``fmod``, and the remainder takes the other operand's sign."""

    def pattern(self, op: Op, x: Var, c: Var) -> Var:
        return op.Mod(x, c, _outputs=["out"])

    def applies(self, **values: Value) -> bool:
        return bool(attribute(values["out"], "fmod", 0) == 1)

    def sound(self, **values: Value) -> bool:
        producer = values["x"].producer()
        return producer is not None and producer.op_type == "Abs"

    def rewrite(self, op: Op, x: Value, c: Value, out: Value) -> Any:
        return op.Mod(x, c)


@fault(
    blocks(
        "integer types there and back",
        "t# = Cast<to = 7>(w)  u# = Cast<to = 6>(t#)  y# = Cast<to = 11>(u#)",
        x="int64[64] x, int32[64] w",
        y="double[64]",
        odd=(
            "t# = Cast<to = 7>(w)  u# = Cast<to = 6>(t#)",
            "t# = Cast<to = 6>(x)  u# = Cast<to = 7>(t#)",
        ),
    ),
    "u5",
    needs="adversarial",
    feeds=[{"x": np.arange(64) + (1 << 40), "w": np.arange(64, dtype=np.int32)}],
)
@passes.verify.equality
class NarrowingCancelled(Unguarded):
    """A Cast to int32 and back is removed, though it cuts off the upper half."""

    def pattern(self, op: Op, x: Var) -> Var:
        return op.Cast(op.Cast(x, _outputs=["inner"]), _outputs=["out"])

    def applies(self, **values: Value) -> bool:
        return bool(attribute(values["out"], "to") != ir.DataType.DOUBLE)

    def sound(self, **values: Value) -> bool:
        return bool(attribute(values["inner"], "to") == ir.DataType.INT64)

    def rewrite(self, op: Op, x: Value, inner: Value, out: Value) -> Any:
        return op.Identity(x)


@fault(
    blocks(
        "quantised tensors",
        "y# = QuantizeLinear(x, s, z)",
        y="int8[4,4]",
        constants="float s = {0.03}, int8 z = {11}",
    )
)
@passes.verify.equality
class ZeroPointLost(Planted):
    """A quantisation loses its zero point."""

    def pattern(self, op: Op, x: Var, s: Var, z: Var) -> Var:
        return op.QuantizeLinear(x, s, z, _outputs=["out"])

    def check(self, context: Any, x: Value, s: Value, z: Value, out: Value) -> bool:
        producer = out.producer()
        return producer is not None and "axis" not in producer.attributes

    def right(self, op: Op, x: Value, s: Value, z: Value, out: Value) -> Any:
        return op.QuantizeLinear(x, s, z, axis=0)

    def wrong(self, op: Op, x: Value, s: Value, z: Value, out: Value) -> Any:
        return op.QuantizeLinear(x, s, constant(op, 0, np.int8), axis=0)
