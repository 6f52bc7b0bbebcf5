"""Faults in bodies, merges and weights, written without a look at how the gate works."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir

from benchmarks.faults.case import Handwritten, fault, initializer, known, substitute
from benchmarks.faults.handwritten import nodes
from benchmarks.faults.models import blocks, feed, source
from onnx_passes import passes


@fault(
    source(
        "a Loop that collects its state",
        "(float[8] x, int64 n) => (float[8] y, float[T,8] z) <bool yes = {1}> { "
        "r, z = Loop(n, yes, x) <body = step (int64 i, bool go, float[8] s) => "
        "(bool on, float[8] t, float[8] u) { on = Identity(go)  t = Sin(s)  "
        "u = Identity(t) }>  y = Neg(r) }",
    ),
    "r",
    feeds=[feed(x=np.ones(8), n=np.array(0))],
)
@passes.verify.equality
class LastOfCollected(Handwritten):
    """The last state of a Loop is read from those that it collects, which may be none."""

    def change(self, model: ir.Model) -> None:
        graph = model.graph
        (loop,) = nodes(model, "Loop")
        state, collected = loop.outputs
        zero, last = initializer(graph, "first", [0]), initializer(graph, "last", -1)
        start = ir.Node("", "Unsqueeze", [loop.inputs[2], zero])
        joined = ir.Node(
            "", "Concat", [start.outputs[0], collected], [ir.AttrInt64("axis", 0)]
        )
        read = collected if self.at else joined.outputs[0]
        picked = ir.Node("", "Gather", [read, last])
        new = [picked] if self.at else [start, joined, picked]
        for node in new:
            node.outputs[0].name = f"{node.op_type}_of_states"
        graph.insert_after(loop, new)
        state.replace_all_uses_with(picked.outputs[0])


@fault(
    source(
        "Loops that are counted",
        "(float[8] x) => (float[8] y, int64[1] c, float[8] z, int64[1] d) "
        "<int64 n = {6}, bool yes = {1}, float k = {1.5}, float limit = {40}> { "
        "y, p = Loop(n, yes, x) <body = f (int64 i, bool go, float[8] s) => "
        "(bool on, float[8] t, float[8] a) { on = Identity(go)  t = Sin(s)  a = Cos(s) }>  "
        "c = Shape<start = 0, end = 1>(p)  "
        "z, q = Loop(n, yes, x) <body = g (int64 j, bool more, float[8] u) => "
        "(bool still, float[8] v, float[8] w) { v = Mul(u, k)  w = Abs(v)  "
        "m = ReduceMax<keepdims = 0>(w)  still = Less(m, limit) }>  "
        "d = Shape<start = 0, end = 1>(q) }",
    ),
    "d",
    feeds=[feed(x=np.full(8, 20.0))],
)
@passes.verify.equality
class IterationsAssumed(Handwritten):
    """The length of what a Loop collects becomes its trip count, though it may stop early."""

    def change(self, model: ir.Model) -> None:
        for node in nodes(model, "Shape"):
            loop = node.inputs[0].producer()
            body = loop.attributes["body"].as_graph()
            condition = body.outputs[0].producer()
            if condition.op_type == "Identity" or self.at:
                out = node.outputs[0]
                count = known(loop.inputs[0]).reshape(1)
                size = initializer(model.graph, f"{out.name}_size", count)
                substitute(out, ir.Node("", "Identity", [size]))


@fault(
    source(
        "a third row, if there is one",
        "(float[N,4] x, float[4] z) => (float[4] y) <int64 two = {2}> { "
        "c = Shape<start = 0, end = 1>(x)  m = Squeeze(c)  big = Greater(m, two)  "
        "y = If(big) <then_branch = f () => (float[4] u) { a = Gather<axis = 0>(x, two)  "
        "u = Sin(a) }, else_branch = g () => (float[4] v) { b = Neg(z)  v = Cos(b) }> }",
    ),
    "a",
    feeds=[feed(x=np.ones((1, 4)), z=np.ones(4))],
)
@passes.verify.equality
class GatherHoisted(Handwritten):
    """A Gather leaves the branch of an If that makes sure that there is such a row."""

    def change(self, model: ir.Model) -> None:
        (choice,) = nodes(model, "If")
        total = {"Neg", "Gather"} if self.at else {"Neg"}
        for branch in choice.attributes.values():
            body = branch.as_graph()
            for node in [n for n in body if n.op_type in total]:
                body.remove(node)
                model.graph.insert_before(choice, node)


_FIRST = (
    "If(c) <then_branch = f# () => (float[4,4] p#) { p# = Sin(x) }, "
    "else_branch = g# () => (float[4,4] q#) { q# = LeakyRelu<alpha = 0.25>(x) }>"
)
_SECOND = (
    "If(c) <then_branch = h# () => (float[4,4] r#) { r# = Sin(x) }, "
    "else_branch = k# () => (float[4,4] s#) { s# = LeakyRelu<alpha = 0.25>(x) }>"
)


@fault(
    blocks(
        "equal choices",
        f"a# = {_FIRST}  b# = {_SECOND}  y# = Mul(a#, b#)",
        x="float[4,4] x, bool c",
        odd=("s# = LeakyRelu<alpha = 0.25>", "s# = LeakyRelu<alpha = 0.5>"),
    ),
    "b5",
    feeds=[feed(x=np.full((4, 4), -1.0), c=np.array(False))],
)
@passes.verify.equality
class BodiesTakenForEqual(Handwritten):
    """Ifs are merged if the operators in their branches are the same, with any attributes."""

    def change(self, model: ir.Model) -> None:
        seen: dict[Any, ir.Value] = {}
        for node in nodes(model, "If"):
            key = (id(node.inputs[0]), *map(self.key, node.attributes.values()))
            twin = seen.setdefault(key, node.outputs[0])
            if twin is not node.outputs[0]:
                node.outputs[0].replace_all_uses_with(twin)
                model.graph.remove(node, safe=True)

    def key(self, branch: ir.Attr) -> Any:
        """Describe a branch whose nodes read values from outside only."""
        return branch.name, *(
            (
                node.op_type,
                *map(id, node.inputs),
                *((k, v.value) for k, v in node.attributes.items() if not self.at),
            )
            for node in branch.as_graph()
        )


@fault(
    blocks(
        "products of turned matrices",
        "a# = Gemm<transA = 1>(x, z)  b# = Gemm<transA = 1>(x, z)  y# = Mul(a#, b#)",
        x="float[4,4] x, float[4,4] z",
        odd=("b# = Gemm<transA = 1>", "b# = Gemm<transB = 1>"),
    ),
    "b5",
)
@passes.verify.equality
class NamesOfAttributesIgnored(Handwritten):
    """Nodes are merged if the values of their attributes are equal, whatever their names."""

    def change(self, model: ir.Model) -> None:
        seen: dict[Any, ir.Value] = {}
        for node in nodes(model, "Gemm"):
            given = [(k, v.value) for k, v in sorted(node.attributes.items())]
            known_by = tuple(v for _, v in given) if self.at else tuple(given)
            key = (tuple(map(id, node.inputs)), known_by)
            twin = seen.setdefault(key, node.outputs[0])
            if twin is not node.outputs[0]:
                node.outputs[0].replace_all_uses_with(twin)
                model.graph.remove(node, safe=True)


_W = ", ".join(map(str, range(16)))


@fault(
    source(
        "weights that a branch reads too",
        "(float[4,4] x, bool c) => (float[4,4] y, float[4,4] z, float[4,4] o) "
        f"<float[4,4] w = {{{_W}}}, float[4,4] v = {{{_W}}}, float k = {{3}}> {{ "
        "m = MatMul(x, w)  y = Mul(m, k)  n = MatMul(x, v)  z = Mul(n, k)  "
        "o = If(c) <then_branch = f () => (float[4,4] p) { p = Add(x, w) }, "
        "else_branch = g () => (float[4,4] q) { q = Neg(x) }> }",
    ),
    "w",
    feeds=[feed(x=np.ones((4, 4)), c=np.array(True))],
)
@passes.verify.tolerance
class ReadersOfBranchForgotten(Handwritten):
    """A factor is multiplied into a weight in place, which the branch of an If reads too."""

    def change(self, model: ir.Model) -> None:
        graph = model.graph
        for node in nodes(model, "Mul"):
            product, out = node.inputs[0].producer(), node.outputs[0]
            x, weight = product.inputs
            scaled = known(weight) * known(node.inputs[1])
            here = [n for n in graph if weight in n.inputs] if self.at else weight.uses()
            if len(here) == 1:
                weight.const_value = ir.tensor(scaled)
            else:
                weight = initializer(graph, f"{weight.name}_scaled", scaled)
            substitute(out, ir.Node("", "MatMul", [x, weight]))
            graph.remove(product, safe=True)
