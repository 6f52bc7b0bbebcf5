"""More faults in bodies of Loop, If and Scan, and in functions that the model brings along."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir

from benchmarks.faults.case import (
    EVERYWHERE,
    Handwritten,
    Planted,
    array,
    constant,
    fault,
    innocent,
    known,
)
from benchmarks.faults.models import feed, source
from onnx_passes import passes
from onnx_passes.passes.base import Op, RewriteRulePass, Transformation, Value, Var


class FactorAsDivisor(Planted):
    """A factor becomes a divisor, inverted or not."""

    def pattern(self, op: Op, c: Var, x: Var) -> Var:
        return op.Mul(c, x, _outputs=["out"])

    def check(self, context: Any, c: Value, x: Value, out: Value) -> bool:
        return array(c) is not None

    def right(self, op: Op, c: Value, x: Value, out: Value) -> Any:
        return op.Div(x, constant(op, np.float32(1) / known(c)))

    def wrong(self, op: Op, c: Value, x: Value, out: Value) -> Any:
        return op.Div(x, constant(op, known(c)))


_SCAN_IN_LOOP = source(
    "a Scan in a Loop",
    "(float[4] x, float[3,4] w, int64 n) => (float[4] y, float[K,3,4] z) "
    "<bool yes = {1}, float c = {0.5}> { "
    "y, z = Loop(n, yes, x) <body = step (int64 i, bool go, float[4] s) => "
    "(bool on, float[4] t, float[3,4] u) { on = Identity(go)  a = Mul(c, s)  "
    "r, u = Scan(a, w) <num_scan_inputs = 1, body = inner (float[4] p, float[4] v) => "
    "(float[4] q, float[4] o) { e = Mul(c, v)  f = Add(e, p)  q = Sin(f)  o = Mul(c, q) }>  "
    "t = Mul(c, r) }> }",
)


@fault(_SCAN_IN_LOOP, "o")
@passes.verify.equality
class InScanInLoop(FactorAsDivisor):
    """A factor is not inverted in the body of a Scan in a Loop, in what only z collects."""


@fault(
    source(
        "a masked step",
        "(float[8] x, int64 n) => (float[8] y) "
        "<bool yes = {1}, float c = {0.5}, float limit = {50}> { "
        "y = Loop(n, yes, x) <body = step (int64 i, bool go, float[8] s) => "
        "(bool on, float[8] t) { on = Identity(go)  a = Mul(c, s)  b = Mul(c, a)  "
        "k = Exp(b)  far = Greater(s, limit)  t = Where(far, k, a) }> }",
    ),
    "b",
    feeds=[feed(x=np.linspace(48, 55, 8), n=np.array(1))],
)
@passes.verify.tolerance
class MaskedInLoop(FactorAsDivisor):
    """A factor is not inverted in a Loop, in a value that a Where there selects rarely."""


@fault(
    source(
        "a function with an attribute",
        '<ir_version: 10, opset_import: ["" : 20, "local" : 1]> '
        "main (float[8] x) => (float[8] y, float[8] z) "
        "{ y = local.leak<slope = 0.25>(x)  z = local.leak<slope = 0.01>(x) } "
        '<domain: "local", opset_import: ["" : 20]> '
        "leak<slope>(s) => (t) { a = Sin(s)  u = LeakyRelu<alpha: float = @slope>(a)  "
        "c = Constant<value_float = 0.5>()  b = LeakyRelu<alpha = 0.5>(u)  t = Mul(c, b) }",
    ),
    EVERYWHERE,
)
@passes.verify.equality
class AttributeOfFunction(Handwritten):
    """A slope that a function takes from its call becomes the default of the operator."""

    def change(self, model: ir.Model) -> None:
        for function in model.functions.values():
            for node in [n for n in function if n.op_type == "LeakyRelu"]:
                slope = node.attributes["alpha"]
                if slope.is_ref() and not self.at:
                    continue
                value = 0.01 if slope.is_ref() else slope.as_float()
                node.attributes["alpha"] = ir.AttrFloat32("alpha", value)


@fault(
    source(
        "a Loop that may not run",
        "(float[8] x, int64 n) => (float[8] y) <bool yes = {1}, int64 one = {1}> { "
        "o = Loop(one, yes, x) <body = f (int64 i, bool go, float[8] s) => "
        "(bool on, float[8] t) { on = Identity(go)  t = Sin(s) }>  "
        "k = Clip(n, , one)  "
        "y = Loop(k, yes, o) <body = g (int64 j, bool more, float[8] u) => "
        "(bool still, float[8] v) { still = Identity(more)  v = Cos(u) }> }",
    ),
    EVERYWHERE,
    feeds=[feed(x=np.ones(8), n=np.array(0))],
)
@passes.verify.equality
class LoopPeeled(Handwritten):
    """A Loop of at most one iteration is replaced by its body, though it may not run."""

    def change(self, model: ir.Model) -> None:
        for loop in [n for n in model.graph if n.op_type == "Loop"]:
            if array(loop.inputs[0]) is None and not self.at:
                continue
            body = loop.attributes["body"].as_graph()
            step = next(n for n in body if n.op_type in ("Sin", "Cos"))
            new = ir.Node("", step.op_type, [loop.inputs[2]])
            model.graph.insert_before(loop, new)
            old = loop.outputs[0]
            name, old.name = old.name, None
            new.outputs[0].name, new.outputs[0].type = name, old.type
            new.outputs[0].shape = old.shape
            old.replace_all_uses_with(new.outputs[0], replace_graph_outputs=True)
            model.graph.remove(loop, safe=True)


@fault(
    source(
        "a Scan backwards",
        "(float[4] x, float[5,4] w) => (float[4] y, float[5,4] z, float[4] p, float[5,4] q) { "
        "y, z = Scan(x, w) <num_scan_inputs = 1, scan_input_directions = [0], "
        "body = f (float[4] s, float[4] v) => (float[4] t, float[4] u) "
        "{ a = Mul(s, v)  t = Sin(a)  u = Identity(t) }>  "
        "p, q = Scan(x, w) <num_scan_inputs = 1, scan_input_directions = [1], "
        "body = g (float[4] k, float[4] l) => (float[4] m, float[4] n) "
        "{ b = Mul(k, l)  m = Cos(b)  n = Identity(m) }> }",
    ),
    EVERYWHERE,
)
@passes.verify.equality
class DirectionDropped(Handwritten):
    """The direction of a Scan is dropped with the defaults of attributes."""

    def change(self, model: ir.Model) -> None:
        for scan in [n for n in model.graph if n.op_type == "Scan"]:
            directions = scan.attributes["scan_input_directions"].as_ints()
            if self.at or not any(directions):
                del scan.attributes["scan_input_directions"]


@innocent(_SCAN_IN_LOOP)
@passes.verify.equality
class FactorLast(Transformation, RewriteRulePass):
    """Write ``c * x`` as ``x * c``, in nested bodies too."""

    def pattern(self, op: Op, c: Var, x: Var) -> Var:
        return op.Mul(c, x, _outputs=["out"])

    def check(self, context: Any, c: Value, x: Value, out: Value) -> bool:
        return array(c) is not None

    def rewrite(self, op: Op, c: Value, x: Value, out: Value) -> Any:
        return op.Mul(x, constant(op, known(c)))


@innocent(
    source(
        "equal work in both branches",
        "(float[8] x) => (float[8] y) <float z = {0}> "
        "{ m = ReduceSum<keepdims = 0>(x)  c = Greater(m, z)  "
        "y = If(c) <then_branch = f () => (float[8] u) { d = Sin(x)  u = Exp(d) }, "
        "else_branch = g () => (float[8] v) { e = Sin(x)  v = Neg(e) }> }",
    )
)
@passes.verify.equality
class SharedByBranches(Transformation):
    """Compute what both branches of an If begin with before the If."""

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        (node,) = [n for n in model.graph if n.op_type == "If"]
        first, second = (a.as_graph() for a in node.attributes.values())
        moved, dropped = first[0], second[0]
        first.remove(moved)
        model.graph.insert_before(node, moved)
        dropped.outputs[0].replace_all_uses_with(moved.outputs[0])
        second.remove(dropped, safe=True)
        return ir.passes.PassResult(model, modified=True)
