"""More faults in models of half precision, whose rounding is as large as many a fault."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import onnx_ir as ir

from benchmarks.faults.case import (
    Handwritten,
    Planted,
    array,
    constant,
    fault,
    guilty,
    innocent,
    known,
)
from benchmarks.faults.halves import BFLOAT, FLOAT, bits
from benchmarks.faults.models import blocks, source
from onnx_passes import passes
from onnx_passes.passes.base import Op, RewriteRulePass, Transformation, Value, Var

_HALVES: dict[str, Any] = {"x": "float16[6,6] x", "y": "float16[6,6]"}
_W = np.cos(np.arange(36))


@fault(
    blocks(
        "half-precision bounds",
        "s# = Mul(x, k)  c# = Clip(s#, low, high)  y# = Tanh(c#)",
        constants=f"float16 k = {{{bits(3)}}}, float16 low = {{{bits(-1.1)}}}, "
        f"float16 high = {{{bits(1.1)}}}",
        **_HALVES,
    ),
    "c5",
)
@passes.verify.equality
class BoundRounded(Planted):
    """The bounds of a Clip in half precision pass through float8."""

    def pattern(self, op: Op, x: Var, low: Var, high: Var) -> Var:
        return op.Clip(x, low, high, _outputs=["out"])

    def right(self, op: Op, x: Value, low: Value, high: Value, out: Value) -> Any:
        return op.Max(op.Min(x, high), low)

    def wrong(self, op: Op, x: Value, low: Value, high: Value, out: Value) -> Any:
        bounds = [
            constant(op, known(v).astype(ml_dtypes.float8_e4m3fn).astype(np.float16))
            for v in (low, high)
        ]
        return op.Max(op.Min(x, bounds[1]), bounds[0])


_MIXED = blocks(
    "a product in single precision",
    "f# = Cast<to = 1>(x)  m# = MatMul(f#, w)  d# = Sub(m#, k)  h# = Cast<to = 10>(d#)  "
    "y# = Neg(h#)",
    x="float16[6,6] x",
    y="float16[6,6]",
    constants=f"float[6,6] w = {{{', '.join(f'{n:.4f}' for n in 300 * _W)}}}, "
    "float k = {1000.0}",
)


@fault(_MIXED, "d5")
@passes.verify.tolerance
class ComputedInHalf(Planted):
    """A difference that is computed in single precision moves to half precision."""

    def pattern(self, op: Op, x: Var, k: Var) -> Var:
        return op.Sub(x, k, _outputs=["out"])

    def right(self, op: Op, x: Value, k: Value, out: Value) -> Any:
        return op.Add(x, constant(op, -known(k)))

    def wrong(self, op: Op, x: Value, k: Value, out: Value) -> Any:
        half = op.Cast(x, to=ir.DataType.FLOAT16)
        difference = op.Add(half, constant(op, -known(k), np.float16))
        return op.Cast(difference, to=FLOAT)


@fault(
    blocks(
        "half-precision attention",
        "q# = MatMul(x, w)  s# = Mul(q#, k)  y# = Softmax<axis = -1>(s#)",
        constants=f"float16[6,6] w = {{{bits(*_W)}}}, float16 k = {{{bits(0.4082)}}}",
        **_HALVES,
    ),
    "s5",
)
@passes.verify.tolerance
class ScaleOfAttention(Planted):
    """The scale of scores in half precision is 0.4, and not the root of a sixth."""

    def pattern(self, op: Op, x: Var, k: Var) -> Var:
        return op.Mul(x, k, _outputs=["out"])

    def check(self, context: Any, x: Value, k: Value, out: Value) -> bool:
        return array(k) is not None

    def right(self, op: Op, x: Value, k: Value, out: Value) -> Any:
        return op.Mul(constant(op, known(k)), x)

    def wrong(self, op: Op, x: Value, k: Value, out: Value) -> Any:
        return op.Mul(constant(op, 0.4, np.float16), x)


@fault(
    blocks(
        "bfloat16 in the middle",
        "b# = Cast<to = 16>(x)  t# = Transpose<perm = [1, 0]>(b#)  f# = Cast<to = 1>(t#)  "
        "y# = Sin(f#)",
    ),
    "f5",
)
@passes.verify.equality
class TransposedInFloat(Handwritten):
    """A Transpose in bfloat16 moves to float, and the Cast to bfloat16 is lost once."""

    def change(self, model: ir.Model) -> None:
        for node in [n for n in model.graph if n.op_type == "Transpose"]:
            narrow = node.inputs[0].producer()
            (wide,) = node.outputs[0].consumers()
            value = narrow.inputs[0] if guilty(self.at, wide.outputs[0]) else node.inputs[0]
            back = ir.Node("", "Cast", [value], [ir.AttrInt64("to", 1)])
            model.graph.insert_before(node, back)
            back.outputs[0].name = f"{wide.outputs[0].name}_back"
            turned = ir.Node("", "Transpose", back.outputs, [ir.AttrInt64s("perm", [1, 0])])
            model.graph.insert_before(node, turned)
            turned.outputs[0].name = f"{wide.outputs[0].name}_turned"
            wide.outputs[0].replace_all_uses_with(turned.outputs[0])
            model.graph.remove([wide, node], safe=True)


@fault(
    blocks(
        "half-precision activations",
        "m# = MatMul(x, w)  l# = LeakyRelu<alpha = 0.1>(m#)  n# = MatMul(l#, w)  y# = Neg(n#)",
        constants=f"float16[6,6] w = {{{bits(*_W)}}}",
        **_HALVES,
    ),
    "l5",
)
@passes.verify.tolerance
class SlopeLost(Planted):
    """A LeakyRelu in half precision is written as a PRelu with a slope of 0.08."""

    def pattern(self, op: Op, x: Var) -> Var:
        return op.LeakyRelu(x, _outputs=["out"])

    def right(self, op: Op, x: Value, out: Value) -> Any:
        return op.PRelu(x, constant(op, 0.1, np.float16))

    def wrong(self, op: Op, x: Value, out: Value) -> Any:
        return op.PRelu(x, constant(op, 0.08, np.float16))


@innocent(
    source(
        "half-precision Identities",
        f"(float16[6,6] x) => (float16[6,6] y) <float16[6,6] w = {{{bits(*_W)}}}, "
        f"float16 k = {{{bits(0.7)}}}> "
        "{ a = Mul(x, k)  i = Identity(a)  b = Add(i, x)  j = Identity(b)  c = Sub(j, a)  "
        "m = MatMul(c, w)  l = Identity(m)  d = Sub(l, b)  y = Mul(d, c) }",
    )
)
@passes.verify.equality
class HalfIdentities(Transformation, RewriteRulePass):
    """Remove the Identities of a half-precision model."""

    def pattern(self, op: Op, x: Var) -> Var:
        return op.Identity(x)

    def rewrite(self, op: Op, x: Value) -> Any:
        return x


@innocent(
    blocks(
        "bfloat16 there and back",
        "b# = Cast<to = 16>(x)  f# = Cast<to = 1>(b#)  c# = Cast<to = 16>(f#)  "
        "g# = Cast<to = 1>(c#)  y# = Neg(g#)",
    )
)
@passes.verify.equality
class SecondRounding(Transformation, RewriteRulePass):
    """Remove the second of two roundings to bfloat16."""

    def pattern(self, op: Op, x: Var) -> Var:
        first = op.Cast(op.Cast(x, to=BFLOAT), to=FLOAT, _outputs=["once"])
        return op.Cast(op.Cast(first, to=BFLOAT), to=FLOAT)

    def rewrite(self, op: Op, x: Value, once: Value) -> Any:
        return op.Identity(once)


@innocent(
    source(
        "a Reshape to the same shape",
        "(float16[6,6] x) => (float16[6,6] y, float16[6,6] z) "
        f"<float16 c = {{{bits(700)}}}, int64[2] r = {{6, 6}}, int64[1] o = {{0}}, "
        "int64[1] e = {6}> { p = Tanh(x)  t = Mul(p, c)  s = Reshape(t, r)  "
        "a = Concat<axis = 0>(s, s)  b = Slice(a, o, e, o)  y = Neg(s)  d = Sub(b, s)  "
        "z = Add(d, p) }",
    )
)
@passes.verify.equality
class SameReshapeRemoved(Transformation, RewriteRulePass):
    """Remove a Reshape to the shape that a half-precision value has."""

    def pattern(self, op: Op, x: Var, shape: Var) -> Var:
        return op.Reshape(x, shape)

    def rewrite(self, op: Op, x: Value, shape: Value) -> Any:
        return x
