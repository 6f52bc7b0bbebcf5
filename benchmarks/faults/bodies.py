"""Faults in bodies of Loop, If and Scan, and in functions that the model brings along."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir

from benchmarks.faults.case import EVERYWHERE, Handwritten, Planted, array, fault, innocent
from benchmarks.faults.models import feed, source
from onnx_passes import passes
from onnx_passes.passes.base import Op, RewriteRulePass, Transformation, Value, Var


class DifferenceBySum(Planted):
    """A difference from a constant becomes a sum, or its opposite."""

    def pattern(self, op: Op, c: Var, x: Var) -> Var:
        return op.Sub(c, x, _outputs=["out"])

    def check(self, context: Any, c: Value, x: Value, out: Value) -> bool:
        return array(c) is not None

    def right(self, op: Op, c: Value, x: Value, out: Value) -> Any:
        return op.Add(op.Neg(x), c)

    def wrong(self, op: Op, c: Value, x: Value, out: Value) -> Any:
        return op.Sub(x, c)


_IF_IN_LOOP = source(
    "an If in a Loop",
    "(float[8] x, int64 n) => (float[8] y) <bool yes = {1}, float c = {0.5}, int64 one = {1}> "
    "{ y = Loop(n, yes, x) <body = step (int64 i, bool go, float[8] s) => "
    "(bool on, float[8] t) { on = Identity(go)  a = Sub(c, s)  first = Less(i, one)  "
    "t = If(first) <then_branch = f () => (float[8] u) { d = Sub(c, a)  u = Sin(d) }, "
    "else_branch = g () => (float[8] v) { e = Sub(c, a)  v = Cos(e) }> }> }",
)


@fault(_IF_IN_LOOP, "d")
@passes.verify.equality
class InIfInLoop(DifferenceBySum):
    """The sign of a difference is lost in a branch of an If in the body of a Loop."""


@fault(
    source(
        "a Scan",
        "(float[8] x, float[5,8] w) => (float[8] y, float[5,8] z) <float c = {0.5}> "
        "{ y, z = Scan(x, w) <num_scan_inputs = 1, body = step (float[8] s, float[8] v) => "
        "(float[8] t, float[8] u) { a = Sub(c, v)  p = Mul(a, s)  b = Sub(c, p)  "
        "t = Tanh(b)  e = Sub(c, t)  u = Sin(e) }> }",
    ),
    "b",
)
@passes.verify.equality
class InScan(DifferenceBySum):
    """The sign of a difference is lost in the body of a Scan, in what it carries along."""


@fault(
    source(
        "a rare branch",
        "(float[8] x) => (float[8] y) <float c = {0.5}, float limit = {900}> "
        "{ m = ReduceMax<keepdims = 0>(x)  big = Greater(m, limit)  o = Sub(c, x)  "
        "y = If(big) <then_branch = f () => (float[8] u) { d = Sub(c, o)  u = Sin(d) }, "
        "else_branch = g () => (float[8] v) { e = Sub(c, o)  v = Cos(e) }> }",
    ),
    "d",
    feeds=[feed(x=np.linspace(0, 1000, 8))],
)
@passes.verify.equality
class InRareBranch(DifferenceBySum):
    """The sign of a difference is lost in a branch that only large inputs take."""


_NESTED = source(
    "functions in a Loop",
    '<ir_version: 10, opset_import: ["" : 20, "local" : 1]> '
    "main (float[8] x, int64 n) => (float[8] y) <bool yes = {1}> "
    "{ r = Loop(n, yes, x) <body = step (int64 i, bool go, float[8] s) => "
    "(bool on, float[8] t) { on = Identity(go)  q = local.outer(s)  t = Sin(q) }>  "
    "y = local.inner(r) } "
    '<domain: "local", opset_import: ["" : 20]> '
    "inner (s) => (t) { c = Constant<value_float = 0.5>()  a = Sub(c, s)  "
    "b = Sub(c, a)  d = Sin(b)  t = Sub(c, d) } "
    '<domain: "local", opset_import: ["" : 20, "local" : 1]> '
    "outer (s) => (t) { k = Constant<value_float = 0.25>()  e = local.inner(s)  "
    "f = Sub(k, e)  t = local.inner(f) }",
)


@fault(_NESTED, "b")
@passes.verify.equality
class InNestedFunction(DifferenceBySum):
    """The sign of a difference is lost in a function that a function calls, in a Loop."""


@fault(
    source(
        "a Loop that stops early",
        "(float[8] x) => (float[8] y, float[8] z) "
        "<int64 n = {6}, bool yes = {1}, float k = {3}, float limit = {40}> { "
        "y = Loop(n, yes, x) <body = f (int64 i, bool go, float[8] s) => "
        "(bool on, float[8] t) { on = Identity(go)  t = Sin(s) }>  "
        "z = Loop(n, yes, x) <body = g (int64 j, bool more, float[8] u) => "
        "(bool still, float[8] v) { v = Mul(u, k)  a = Abs(v)  "
        "m = ReduceMax<keepdims = 0>(a)  still = Less(m, limit) }> }",
    ),
    EVERYWHERE,
)
@passes.verify.equality
class ConditionForgotten(Handwritten):
    """The condition of a Loop is dropped though its body computes one."""

    def change(self, model: ir.Model) -> None:
        for node in [n for n in model.graph if n.op_type == "Loop"]:
            body = node.attributes["body"].as_graph()
            producer = body.outputs[0].producer()
            assert producer is not None
            kept = producer.op_type == "Identity" and producer.inputs[0] is body.inputs[1]
            if kept or self.at:
                node.replace_input_with(1, None)
                if not kept:
                    identity = ir.Node("", "Identity", [body.inputs[1]])
                    body.append(identity)
                    identity.outputs[0].name = "unconditional"
                    identity.outputs[0].type = body.outputs[0].type
                    identity.outputs[0].shape = body.outputs[0].shape
                    body.outputs[0] = identity.outputs[0]


@fault(
    source(
        "values that a Loop could compute once",
        "(float[8] x, float[8] w, int64 n) => (float[8] y) <bool yes = {1}> { "
        "y = Loop(n, yes, x) <body = step (int64 i, bool go, float[8] s) => "
        "(bool on, float[8] t) { on = Identity(go)  a = Sin(w)  b = Cos(s)  "
        "d = Add(a, b)  t = Tanh(d) }> }",
    ),
    "b",
    feeds=[feed(x=np.ones(8), w=np.ones(8), n=np.array(3))],
)
@passes.verify.equality
class StateHoisted(Handwritten):
    """A value of a Loop's body that reads the state is computed once, before the Loop."""

    def change(self, model: ir.Model) -> None:
        (loop,) = [n for n in model.graph if n.op_type == "Loop"]
        body = loop.attributes["body"].as_graph()
        start = dict(zip(body.inputs[2:], loop.inputs[2:], strict=True)) if self.at else {}
        for node in [n for n in body if n.op_type in ("Sin", "Cos")]:
            read = start.get(node.inputs[0], node.inputs[0])
            if read is not None and read.graph is body:
                continue
            body.remove(node)
            node.replace_input_with(0, read)
            model.graph.insert_before(loop, node)


@innocent(_IF_IN_LOOP, _NESTED)
@passes.verify.equality
class NegatedTwice(Transformation, RewriteRulePass):
    """Write ``c - x`` as ``-(x - c)``, in bodies and functions too."""

    def pattern(self, op: Op, c: Var, x: Var) -> Var:
        return op.Sub(c, x, _outputs=["out"])

    def check(self, context: Any, c: Value, x: Value, out: Value) -> bool:
        return array(c) is not None

    def rewrite(self, op: Op, c: Value, x: Value, out: Value) -> Any:
        return op.Neg(op.Sub(x, c))


@innocent(
    source(
        "a Loop with a state that stays",
        "(float[8] x, float[8] w, int64 n) => (float[8] y, float[8] z) <bool yes = {1}> { "
        "y, z = Loop(n, yes, x, w) <body = step (int64 i, bool go, float[8] s, float[8] k) => "
        "(bool on, float[8] t, float[8] l) { on = Identity(go)  a = Sin(k)  b = Cos(s)  "
        "t = Add(a, b)  l = Identity(k) }> }",
    )
)
@passes.verify.equality
class UnchangedStateRead(Transformation):
    """Read a state that the body returns unchanged from outside of the Loop."""

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        (loop,) = [n for n in model.graph if n.op_type == "Loop"]
        body = loop.attributes["body"].as_graph()
        outside = loop.inputs[3]
        for user, index in list(body.inputs[3].uses()):
            if user.op_type == "Sin":
                user.replace_input_with(index, outside)
        return ir.passes.PassResult(model, modified=True)
