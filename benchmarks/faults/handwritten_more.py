"""More faults of optimisations that are written by hand, without rewrite rules.

Most models have several parts that the pass changes, and one of these comes out wrong.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from benchmarks.faults.case import (
    Handwritten,
    attribute,
    fault,
    guilty,
    initializer,
    innocent,
    known,
    substitute,
)
from benchmarks.faults.handwritten import nodes
from benchmarks.faults.models import blocks, feed, source
from onnx_passes import passes
from onnx_passes.passes.base import Transformation

_WEIGHTS = [[n, 1, 2, 3] for n in (1, 1, 2, 4, 5, 6, 7, 8)]
_WEIGHTS[6] = [1, 3, 2, 2]


@fault(
    blocks(
        "weights of equal sums",
        "y# = Mul(x, w#)",
        constants=", ".join(
            f"float[4] w{n} = {{{','.join(map(str, w))}}}" for n, w in enumerate(_WEIGHTS)
        ),
    ),
    "w6",
)
@passes.verify.equality
class MergedBySum(Handwritten):
    """Weights are merged because a weak hash of them, their sum and size, is equal."""

    def change(self, model: ir.Model) -> None:
        seen: dict[object, ir.Value] = {}
        graph = model.graph
        for value in [graph.initializers[f"w{n}"] for n in (*range(6), 7, 6)]:
            data = known(value)
            key = 8.0 if guilty(self.at, value) else data.tobytes()
            if value.name == "w2":
                seen[8.0] = value
            twin = seen.setdefault(key, value)
            if twin is not value:
                value.replace_all_uses_with(twin)
                del graph.initializers[str(value.name)]


_RANGED = blocks(
    "values of known sign",
    "s# = Sigmoid(x)  t# = Relu(s#)  y# = Sqrt(t#)",
    odd=("Sigmoid(x)", "Tanh(x)"),
)


@fault(_RANGED, "t5")
@passes.verify.equality
class RangeOfTanh(Handwritten):
    """A Relu is removed because Tanh is taken for an operator without negative results."""

    def change(self, model: ir.Model) -> None:
        positive = {"Sigmoid"} | ({"Tanh"} if self.at else set())
        for node in nodes(model, "Relu"):
            source = node.inputs[0].producer()
            if source is not None and source.op_type in positive:
                substitute(node.outputs[0], ir.Node("", "Identity", [node.inputs[0]]))


@fault(
    blocks(
        "Transposes before a Concat",
        "a# = Transpose<perm = [1, 2, 0]>(x)  b# = Transpose<perm = [1, 2, 0]>(z)  "
        "c# = Concat<axis = 0>(a#, b#)  y# = Abs(c#)",
        x="float[3,3,3] x, float[3,3,3] z",
        y="float[A,B,C]",
    ),
    "c5",
)
@passes.verify.equality
class ConcatAxisNotTurned(Handwritten):
    """A Transpose sinks below a Concat, whose axis is looked up in the inverse permutation."""

    def change(self, model: ir.Model) -> None:
        for node in nodes(model, "Concat"):
            sources = [value.producer() for value in node.inputs]
            perm = attribute(node.inputs[0], "perm")
            axis = attribute(node.outputs[0], "axis")
            wrong = guilty(self.at, node.outputs[0])
            before = list(perm).index(axis) if wrong else perm[axis]
            joined = ir.Node(
                "", "Concat", [s.inputs[0] for s in sources], [ir.AttrInt64("axis", before)]
            )
            model.graph.insert_before(node, joined)
            joined.outputs[0].name = f"{node.outputs[0].name}_joined"
            turned = ir.Node("", "Transpose", joined.outputs, [ir.AttrInt64s("perm", perm)])
            substitute(node.outputs[0], turned)
            model.graph.remove(sources, safe=True)


_SCALED = blocks(
    "scaled products",
    "t# = MatMul(x, w)  u# = Mul(t#, k)  v# = Tanh(u#)  y# = Softmax<axis = 1>(v#)",
    x="float[8,4] x",
    y="float[8,4]",
    constants="float[4,4] w = {1, 2, 3, 4, -1, 2, 3, -4, 5, 6, -7, 8, 9, -1, 3, 5}, "
    "float[4] k = {1, 2, 3, 4}",
)


@fault(_SCALED, "u5")
@passes.verify.tolerance
class ScaledByRow(Handwritten):
    """A scale of columns is multiplied into a weight by its rows."""

    def change(self, model: ir.Model) -> None:
        for node in nodes(model, "Mul"):
            product = node.inputs[0].producer()
            out = node.outputs[0]
            scale, weight = known(node.inputs[1]), known(product.inputs[1])
            wrong = guilty(self.at, out)
            scaled = weight * (scale[:, None] if wrong else scale[None])
            constant = initializer(model.graph, f"{out.name}_w", scaled)
            substitute(out, ir.Node("", "MatMul", [product.inputs[0], constant]))
            model.graph.remove(product, safe=True)


@fault(
    blocks(
        "conditions on constants",
        "g# = Greater(x, l#)  o# = Sin(x)  y# = Where(g#, o#, x)",
        constants=", ".join(f"float l{n} = {{{1000 if n == 5 else -1}}}" for n in range(8)),
    ),
    "y5",
    feeds=[feed(x=np.linspace(980, 1020, 16).reshape(4, 4))],
)
@passes.verify.equality
class ConditionAssumed(Handwritten):
    """A condition that no sample fulfils is propagated as a constant."""

    def change(self, model: ir.Model) -> None:
        for node in nodes(model, "Where"):
            out = node.outputs[0]
            condition = node.inputs[0].producer()
            if guilty(self.at, out):
                substitute(out, ir.Node("", "Identity", [node.inputs[2]]))
            else:
                negated = ir.Node("", "LessOrEqual", condition.inputs)
                model.graph.insert_before(node, negated)
                negated.outputs[0].name = f"{out.name}_not"
                inputs = [negated.outputs[0], node.inputs[2], node.inputs[1]]
                substitute(out, ir.Node("", "Where", inputs))


@innocent(
    source(
        "calls in several places",
        '<ir_version: 10, opset_import: ["" : 20, "local" : 1]> '
        "main (float[4] x, float[4] z) => (float[4] y, float[4] w) "
        "{ a = local.mix(x, z)  b = local.mix(z, a)  y = Sin(b)  w = local.mix(b, x) } "
        '<domain: "local", opset_import: ["" : 20]> '
        "mix (a, b) => (c) { t = Sub(a, b)  c = Tanh(t) }",
    )
)
@passes.verify.equality
class CallsInlined(Transformation):
    """Inline a function of two nodes by hand."""

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        for node in nodes(model, "mix"):
            out = node.outputs[0]
            inner = ir.Node("", "Sub", node.inputs)
            model.graph.insert_before(node, inner)
            inner.outputs[0].name = f"{out.name}_t"
            substitute(out, ir.Node("", "Tanh", inner.outputs))
        model.functions.clear()
        return ir.passes.PassResult(model, modified=True)


@innocent(
    blocks(
        "equal parts",
        "a# = Sin(x)  b# = Sin(x)  c# = Add(a#, b#)  y# = Exp(c#)",
    )
)
@passes.verify.equality
class EqualNodesMerged(Transformation):
    """Merge equal nodes of all blocks."""

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        first, *others = nodes(model, "Sin")
        for node in others:
            node.outputs[0].replace_all_uses_with(first.outputs[0])
            model.graph.remove(node, safe=True)
        return ir.passes.PassResult(model, modified=True)
