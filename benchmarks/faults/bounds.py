"""Bounds merged, shapes and conditions forgotten: rewrites that lack a side condition."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir

from benchmarks.faults.case import Planted, Unguarded, array, constant, fault, known
from benchmarks.faults.models import blocks, feed
from onnx_passes import passes
from onnx_passes.passes.base import Op, Value, Var


@fault(
    blocks(
        "nested Clips",
        "t# = Clip(x, a, b)  y# = Clip(t#, c, d)",
        constants="float a = {0}, float b = {1}, float c = {0.5}, float d = {3}, "
        "float e = {2}",
        odd=("Clip(t#, c, d)", "Clip(t#, e, d)"),
    ),
    "y5",
)
@passes.verify.equality
class ClipBoundsMerged(Unguarded):
    """Bounds of nested Clips are merged as if they overlapped."""

    def pattern(self, op: Op, x: Var, a: Var, b: Var, c: Var, d: Var) -> Var:
        return op.Clip(op.Clip(x, a, b), c, d, _outputs=["out"])

    def sound(self, **values: Value) -> bool:
        a, b, c, d = (known(values[name]) for name in "abcd")
        return bool(max(a, c) <= min(b, d))

    def rewrite(
        self, op: Op, x: Value, a: Value, b: Value, c: Value, d: Value, out: Value
    ) -> Any:
        low, high = max(known(a), known(c)), min(known(b), known(d))
        return op.Clip(x, constant(op, low), constant(op, high))


@fault(
    blocks(
        "sums with zero",
        "t# = Add(x, z)  y# = ReduceSum<keepdims = 0>(t#)",
        x="int64[3] x",
        y="int64",
        constants="int64[1] z = {0}, int64[2,3] zz = {0,0,0,0,0,0}",
        odd=("Add(x, z)", "Add(x, zz)"),
    ),
    "t5",
)
@passes.verify.equality
class BroadcastLost(Unguarded):
    """``x + 0`` becomes ``x`` where the zeros made it bigger."""

    def pattern(self, op: Op, x: Var, zero: Var) -> Var:
        return op.Add(x, zero, _outputs=["out"])

    def applies(self, **values: Value) -> bool:
        zero = array(values["zero"])
        return zero is not None and not zero.any()

    def sound(self, **values: Value) -> bool:
        return known(values["zero"]).size == 1

    def rewrite(self, op: Op, x: Value, zero: Value, out: Value) -> Any:
        return op.Identity(x)


@fault(
    blocks(
        "nested Reshapes",
        "t# = Reshape(x, s)  u# = Reshape(t#, keep)  y# = ReduceSum<keepdims = 0>(u#, a)",
        x="float[4,2] x",
        y="float[K]",
        constants="int64[2] s = {2, 4}, int64[2] keep = {4, -1}, int64[2] zero = {0, -1}, "
        "int64[1] a = {1}",
        odd=("Reshape(t#, keep)", "Reshape(t#, zero)"),
    ),
    "u5",
)
@passes.verify.equality
class ReshapeZero(Unguarded):
    """Reshapes are merged though the second copies a dimension of the first by 0."""

    def pattern(self, op: Op, x: Var, first: Var, second: Var) -> Var:
        return op.Reshape(op.Reshape(x, first), second, _outputs=["out"])

    def sound(self, **values: Value) -> bool:
        return not (known(values["second"]) == 0).any()

    def rewrite(self, op: Op, x: Value, first: Value, second: Value, out: Value) -> Any:
        return op.Reshape(x, second)


@fault(
    blocks(
        "squeezed columns",
        "t# = Squeeze(r)  s# = Shape(t#)  y# = ReduceSum<keepdims = 0>(s#)",
        x="float[N,1,3] x, float[2,1,3] r",
        y="int64",
        odd=("(r)", "(x)"),
    ),
    "t5",
    needs="adversarial",
    feeds=[feed(x=np.ones((1, 1, 3)), r=np.ones((2, 1, 3)))],
)
@passes.verify.equality
class SqueezeDynamic(Unguarded):
    """Squeeze of all dimensions of size 1 forgets that a dynamic one may be 1."""

    def pattern(self, op: Op, x: Var) -> Var:
        return op.Squeeze(x, _outputs=["out"])

    def applies(self, **values: Value) -> bool:
        producer = values["out"].producer()
        return producer is not None and len(producer.inputs) == 1

    def sound(self, **values: Value) -> bool:
        shape = values["x"].shape
        return shape is not None and shape.is_static()

    def rewrite(self, op: Op, x: Value, out: Value) -> Any:
        return op.Squeeze(x, constant(op, [1], np.int64))


@fault(
    blocks(
        "padded twice",
        "t# = Pad(x, p, v)  y# = Pad(t#, p, v)",
        y="float[8,8]",
        constants="int64[4] p = {1, 1, 1, 1}, float v = {2.5}",
    )
)
@passes.verify.equality
class PadValueLost(Planted):
    """Two Pads are merged, and the value is lost."""

    def pattern(self, op: Op, x: Var, p: Var, q: Var, v: Var) -> Var:
        return op.Pad(op.Pad(x, p, v), q, v, _outputs=["out"])

    def right(self, op: Op, x: Value, p: Value, q: Value, v: Value, out: Value) -> Any:
        return op.Pad(x, constant(op, known(p) + known(q)), v)

    def wrong(self, op: Op, x: Value, p: Value, q: Value, v: Value, out: Value) -> Any:
        return op.Pad(x, constant(op, known(p) + known(q)))


@fault(
    blocks(
        "Clips that may be Relu6",
        "t# = Clip(x, a, b)  y# = Neg(t#)",
        constants="float a = {-6}, float b = {6}, float c = {-600}, float d = {600}",
        odd=("Clip(x, a, b)", "Clip(x, c, d)"),
    ),
    "t5",
    needs="adversarial",
    feeds=[feed(x=np.full((4, 4), 100.0))],
)
@passes.verify.equality
class ClipRange(Unguarded):
    """A Clip to [-600, 600] becomes one to [-6, 6], as calibration on small data has it."""

    def pattern(self, op: Op, x: Var, a: Var, b: Var) -> Var:
        return op.Clip(x, a, b, _outputs=["out"])

    def sound(self, **values: Value) -> bool:
        return bool(known(values["b"]) == 6)

    def rewrite(self, op: Op, x: Value, a: Value, b: Value, out: Value) -> Any:
        low, high = (constant(op, v, np.float32) for v in (-6, 6))
        return op.Max(op.Min(x, high), low)


@fault(
    blocks(
        "type changes",
        "y# = Cast<to = 7>(x)",
        x="int32[4] x",
        y="int64[4]",
    )
)
@passes.verify.equality
class OutputTypeChanged(Planted):
    """An output changes its type."""

    def pattern(self, op: Op, x: Var) -> Var:
        return op.Cast(x, _outputs=["out"])

    def check(self, context: Any, x: Value, out: Value) -> bool:
        return x.is_graph_input()

    def right(self, op: Op, x: Value, out: Value) -> Any:
        return op.Cast(op.Identity(x), to=ir.DataType.INT64)

    def wrong(self, op: Op, x: Value, out: Value) -> Any:
        return op.Identity(op.Identity(x))
