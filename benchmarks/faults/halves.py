"""Faults in models of half precision, whose rounding is as large as many a fault."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import onnx_ir as ir

from benchmarks.faults.case import (
    Planted,
    array,
    attribute,
    constant,
    fault,
    innocent,
    known,
)
from benchmarks.faults.models import blocks, source
from onnx_passes import passes
from onnx_passes.passes.base import Op, RewriteRulePass, Transformation, Value, Var

HALF, BFLOAT, FLOAT = ir.DataType.FLOAT16, ir.DataType.BFLOAT16, ir.DataType.FLOAT


def bits(*numbers: float) -> str:
    """Write float16 numbers as the text form has them, by their bits."""
    return ", ".join(str(n) for n in np.array(numbers, np.float16).view(np.uint16))


_HALVES: dict[str, Any] = {"x": "float16[4,8] x", "y": "float16[4,8]"}
_W = np.linspace(-1, 1, 64)
_DENSE = blocks(
    "half-precision layers",
    "m# = MatMul(x, w)  s# = Mul(m#, k)  a# = Add(s#, b)  r# = Relu(a#)  y# = Tanh(r#)",
    constants=f"float16[8,8] w = {{{bits(*_W)}}}, float16 k = {{{bits(0.35)}}}, "
    f"float16[8] b = {{{bits(*_W[::8])}}}",
    **_HALVES,
)


@fault(_DENSE, "s5")
@passes.verify.tolerance
class HalfScaleOff(Planted):
    """A factor in half precision is off by a hundredth."""

    def pattern(self, op: Op, x: Var, k: Var) -> Var:
        return op.Mul(x, k, _outputs=["out"])

    def check(self, context: Any, x: Value, k: Value, out: Value) -> bool:
        return array(k) is not None

    def right(self, op: Op, x: Value, k: Value, out: Value) -> Any:
        return op.Mul(constant(op, known(k)), x)

    def wrong(self, op: Op, x: Value, k: Value, out: Value) -> Any:
        return op.Mul(constant(op, known(k) * np.float16(1.01)), x)


@fault(_DENSE, "r5")
@passes.verify.equality
class HalfReluDropped(Planted):
    """A Relu in half precision is dropped."""

    def pattern(self, op: Op, x: Var) -> Var:
        return op.Relu(x, _outputs=["out"])

    def right(self, op: Op, x: Value, out: Value) -> Any:
        return op.Max(x, constant(op, 0, np.float16))

    def wrong(self, op: Op, x: Value, out: Value) -> Any:
        return op.Identity(x)


@fault(
    blocks(
        "roundings to half precision",
        "h# = Cast<to = 10>(x)  f# = Cast<to = 1>(h#)  d# = Sub(x, f#)  y# = Mul(d#, k)",
        constants="float k = {1000}",
    ),
    "f5",
)
@passes.verify.equality
class RoundingForgotten(Planted):
    """Casts to half precision and back are removed, and with them the rounding."""

    def pattern(self, op: Op, x: Var) -> Var:
        return op.Cast(op.Cast(x, to=HALF), to=FLOAT, _outputs=["out"])

    def right(self, op: Op, x: Value, out: Value) -> Any:
        half = op.CastLike(x, constant(op, 0, np.float16))
        return op.CastLike(half, constant(op, 0, np.float32))

    def wrong(self, op: Op, x: Value, out: Value) -> Any:
        return op.Identity(x)


@fault(
    blocks(
        "half-precision norms",
        "t# = Mul(x, k)  y# = LayerNormalization<axis = -1, epsilon = 0.00001>(t#, g)",
        constants=f"float16 k = {{{bits(0.004)}}}, float16[8] g = {{{bits(*[1] * 8)}}}",
        **_HALVES,
    ),
    "y5",
)
@passes.verify.tolerance
class HalfEpsilon(Planted):
    """The epsilon of a LayerNorm over small values in half precision is 1e-6, not 1e-5."""

    def pattern(self, op: Op, x: Var, scale: Var) -> Var:
        return op.LayerNormalization(x, scale, _outputs=["out"])

    def check(self, context: Any, x: Value, scale: Value, out: Value) -> bool:
        return bool(attribute(out, "axis") == -1)

    def right(self, op: Op, x: Value, scale: Value, out: Value) -> Any:
        return op.LayerNormalization(x, scale, axis=1, epsilon=attribute(out, "epsilon"))

    def wrong(self, op: Op, x: Value, scale: Value, out: Value) -> Any:
        return op.LayerNormalization(x, scale, axis=1, epsilon=1e-6)


@fault(
    blocks(
        "bfloat16 bounds",
        "b# = Cast<to = 16>(x)  c# = Clip(b#, low, high)  y# = Cast<to = 1>(c#)",
        constants=f"bfloat16 low = {{{np.array(-1, ml_dtypes.bfloat16).view(np.uint16)}}}, "
        f"bfloat16 high = {{{np.array(1, ml_dtypes.bfloat16).view(np.uint16)}}}",
    ),
    "y5",
)
@passes.verify.equality
class BoundsInFloat(Planted):
    """Bounds in bfloat16 move behind the Cast to float, and one gets a rounded value."""

    def pattern(self, op: Op, x: Var, low: Var, high: Var) -> Var:
        return op.Cast(op.Clip(x, low, high), to=FLOAT, _outputs=["out"])

    def right(self, op: Op, x: Value, low: Value, high: Value, out: Value) -> Any:
        return op.Clip(
            op.Cast(x, to=FLOAT), constant(op, -1, np.float32), constant(op, 1, np.float32)
        )

    def wrong(self, op: Op, x: Value, low: Value, high: Value, out: Value) -> Any:
        return op.Clip(
            op.Cast(x, to=FLOAT), constant(op, -1, np.float32), constant(op, 0.98, np.float32)
        )


@fault(
    blocks(
        "half-precision biases",
        "m# = MatMul(x, w)  a# = Add(m#, b)  c# = Add(a#, d)  y# = Neg(c#)",
        constants=f"float16[8,8] w = {{{bits(*_W)}}}, float16[8] b = {{{bits(*_W[::8])}}}, "
        f"float16[8] d = {{{bits(*(8 * _W[1::8]))}}}",
        **_HALVES,
    ),
    "c5",
)
@passes.verify.tolerance
class HalfBiasesMerged(Planted):
    """Two biases in half precision are added ahead, and 2 % of the second are lost."""

    def pattern(self, op: Op, x: Var, first: Var, second: Var) -> Var:
        return op.Add(op.Add(x, first), second, _outputs=["out"])

    def right(self, op: Op, x: Value, first: Value, second: Value, out: Value) -> Any:
        return op.Add(x, constant(op, known(first) + known(second)))

    def wrong(self, op: Op, x: Value, first: Value, second: Value, out: Value) -> Any:
        return op.Add(x, constant(op, known(first) + known(second) * np.float16(0.98)))


@innocent(
    source(
        "a Slice of everything",
        "(float16[4,8] x) => (float16[4,8] y, float16[4,8] z) "
        f"<float16 k = {{{bits(3)}}}, float16 c = {{{bits(1000)}}}, int64[1] o = {{0}}, "
        "int64[1] e = {100}> { p = Sin(x)  t = Mul(p, c)  s = Slice(t, o, e, o)  "
        "a = Transpose(s)  b = Transpose(a)  y = Mul(b, k)  d = Sub(b, s)  z = Add(d, x) }",
    ),
    source(
        "another Slice of everything",
        "(float16[4,8] x) => (float16[4,8] y) "
        f"<float16[8,8] w = {{{bits(*_W)}}}, float16[8] b = {{{bits(*_W[::8])}}}, "
        f"float16 k = {{{bits(0.3)}}}, int64[1] o = {{0}}, int64[1] e = {{100}}> "
        "{ t = Mul(x, k)  u = Add(t, b)  s = Slice(u, o, e, o)  p = Mul(s, u)  q = Sub(p, x)  "
        "m = MatMul(q, w)  f = Slice(m, o, e, o)  g = Mul(f, k)  h = Sub(g, m)  "
        "y = Add(h, b) }",
    ),
)
@passes.verify.equality
class WholeSliceRemoved(Transformation, RewriteRulePass):
    """Remove a Slice of everything in a half-precision model.

    ONNX Runtime rounds what a Slice reads, and computes without that rounding after.
    """

    def pattern(self, op: Op, x: Var, start: Var, end: Var, axes: Var) -> Var:
        return op.Slice(x, start, end, axes, _outputs=["out"])

    def rewrite(
        self, op: Op, x: Value, start: Value, end: Value, axes: Value, out: Value
    ) -> Any:
        return x


@innocent(_DENSE)
@passes.verify.equality
class HalfNodesMerged(Transformation):
    """Merge the equal nodes of a half-precision model."""

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        seen: dict[Any, ir.Node] = {}
        for node in list(model.graph):
            twin = seen.setdefault((node.op_type, *map(id, node.inputs)), node)
            if twin is not node and not node.outputs[0].is_graph_output():
                node.outputs[0].replace_all_uses_with(twin.outputs[0])
                model.graph.remove(node, safe=True)
        return ir.passes.PassResult(model, modified=True)
