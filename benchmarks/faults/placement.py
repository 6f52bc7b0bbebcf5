"""Faults in places where the culprit is hard to separate from its neighbours."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.faults.case import Planted, array, constant, fault, guilty, known
from benchmarks.faults.models import blocks, source
from onnx_passes import passes
from onnx_passes.passes.base import Op, RewriteRuleSetPass, Transformation, Value, Var


def _chain(count: int, step: str, constants: str, dtype: str = "float") -> str:
    """Write a chain from ``x`` to ``y``; ``<`` and ``>`` are what a step reads and makes."""
    names = ["x", *(f"v{n}" for n in range(1, count)), "y"]
    steps = [
        step.replace("#", str(n)).replace("<", names[n]).replace(">", names[n + 1])
        for n in range(count)
    ]
    return f"({dtype}[8] x) => ({dtype}[8] y) <{constants}> {{ {' '.join(steps)} }}"


@fault(
    source(
        "a chain, all of it rewritten",
        _chain(
            8,
            "a# = Mul(<, k)  b# = Add(a#, c)  > = Tanh(b#)",
            "float k = {1.1}, float c = {0.3}",
        ),
    ),
    "b3",
)
@passes.verify.tolerance
class AllRewritten(Transformation, RewriteRuleSetPass):
    """One constant of many is off by a hundredth, where every node is rewritten."""

    at: str = ""

    def pattern(self) -> list[Callable[..., Any]]:
        return [
            lambda op, x, c: op.Add(x, c, _outputs=["out"]),
            lambda op, x, c: op.Mul(x, c, _outputs=["out"]),
            lambda op, x: op.Tanh(x, _outputs=["out"]),
        ]

    def rewrite(self) -> list[Callable[..., Any]]:
        return [self._sum, self._product, self._tanh]

    def _sum(self, op: Op, x: Value, c: Value, out: Value) -> Any:
        factor = np.float32(1.01) if guilty(self.at, out) else np.float32(1)
        return op.Sub(x, constant(op, -known(c) * factor))

    def _product(self, op: Op, x: Value, c: Value, out: Value) -> Any:
        return op.Div(x, constant(op, np.float32(1) / known(c)))

    def _tanh(self, op: Op, x: Value, out: Value) -> Any:
        one, power = constant(op, np.float32(1)), op.Exp(op.Sum(x, x))
        return op.Sub(one, op.Div(constant(op, np.float32(2)), op.Sum(power, one)))


@fault(
    source(
        "a chain of sums",
        _chain(
            9,
            "> = Add(<, c#)",
            ", ".join(f"int64 c{n} = {{{n + 1}}}" for n in range(9)),
            "int64",
        ),
    ),
    0.5,
)
@passes.verify.equality
class MergedAway(Planted):
    """Constants are added up one by one, once wrongly: later rewrites swallow that one."""

    def pattern(self, op: Op, x: Var, a: Var, b: Var) -> Var:
        return op.Add(op.Add(x, a), b, _outputs=["out"])

    def right(self, op: Op, x: Value, a: Value, b: Value, out: Value) -> Any:
        return op.Add(x, constant(op, known(a) + known(b)))

    def wrong(self, op: Op, x: Value, a: Value, b: Value, out: Value) -> Any:
        return op.Add(x, constant(op, known(a) + known(b) + 1))


class _ConstantLast(Planted):
    """Write ``c - x`` as ``-x + c``."""

    def pattern(self, op: Op, x: Var, c: Var) -> Var:
        return op.Sub(c, x, _outputs=["out"])

    def check(self, context: Any, x: Value, c: Value, out: Value) -> bool:
        return array(c) is not None

    def right(self, op: Op, x: Value, c: Value, out: Value) -> Any:
        return op.Add(op.Neg(x), c)

    def wrong(self, op: Op, x: Value, c: Value, out: Value) -> Any:
        return op.Sub(x, c)


@fault(blocks("differences", "y# = Sub(c, x)", constants="float c = {0.5}"), "y2,y5")
@passes.verify.equality
class TwoGuilty(_ConstantLast):
    """Two of the rewrites of one pass are wrong."""


_STEPS = "a = Sub(c, s)  b = Sin(a)  d = Sub(c, b)  e = Sin(d)  f = Sub(c, e)"


@fault(
    source(
        "a loop",
        "(float[8] x, int64 n) => (float[8] y) <bool yes = {1}, float c = {0.5}> { "
        "y = Loop(n, yes, x) <body = step (int64 i, bool go, float[8] s) => "
        f"(bool on, float[8] t) {{ on = Identity(go)  {_STEPS}  t = Sin(f) }}> }}",
    ),
    0.5,
)
@passes.verify.equality
class InLoop(_ConstantLast):
    """One of several rewrites in the body of a Loop is wrong."""


@fault(
    source(
        "a function",
        '<ir_version: 10, opset_import: ["" : 20, "local" : 1]> '
        "main (float[8] x) => (float[8] y) { u = local.f(x)  v = local.f(u)  y = Sin(v) } "
        '<domain: "local", opset_import: ["" : 20]> '
        f"f (s) => (t) {{ c = Constant<value_float = 0.5>()  {_STEPS}  t = Sin(f) }}",
    ),
    0.5,
)
@passes.verify.equality
class InFunction(_ConstantLast):
    """One of several rewrites in a function that is called twice is wrong."""
