"""Faults in layers, cells, bodies and merges that the gate does not know.

They are mistakes that passes of other compilers made. Who wrote them had not read the gate.
Each model has several places at which the pass is right, and one at which it is wrong.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir

from benchmarks.faults.case import (
    Handwritten,
    Planted,
    constant,
    fault,
    guilty,
    initializer,
    known,
    substitute,
)
from benchmarks.faults.handwritten import nodes
from benchmarks.faults.models import blocks, chain, feed, weights
from benchmarks.faults.sizes import ints
from onnx_passes import passes
from onnx_passes.passes.base import Op, Value, Var

_IMAGE: dict[str, Any] = {"x": "float[1,4,4,4] x", "y": "float[1,4,4,4]"}
_LINE = np.linspace(-2, 2, 64).reshape(1, 4, 4, 4)


@fault(
    chain(
        "normalised convolutions",
        "c# = Conv(h@, w)  b# = BatchNormalization(c#, g, o, m, v)  t# = Tanh(b#)  "
        "h# = Add(h@, t#)",
        constants=f"{weights('w', 4, 4, 1, 1)}, {weights('o', 4, seed=1)}, "
        f"{weights('m', 4, seed=2)}, float[4] g = {{1, 2, 3, 0.5}}, "
        "float[4] v = {1, 2, 0.5, 4}",
        odd=("h# = Add(h@, t#)", "h# = Add(c#, t#)"),
        **_IMAGE,
    ),
    "b3",
    feeds=[feed(x=_LINE)],
)
@passes.verify.tolerance
class NormalisedForAll(Handwritten):
    """A normalisation goes into its Conv, whose result a shortcut reads as well."""

    def change(self, model: ir.Model) -> None:
        for norm in nodes(model, "BatchNormalization"):
            out, convolved = norm.outputs[0], norm.inputs[0]
            if len(convolved.uses()) > 1 and not guilty(self.at, out):
                continue
            weight = convolved.producer().inputs[1]
            gain, shift, mean, variance = (known(value) for value in norm.inputs[1:])
            factor = gain / np.sqrt(variance + np.float32(1e-5))
            arrays = known(weight) * factor[:, None, None, None], shift - mean * factor
            folded = [
                initializer(model.graph, f"{out.name}_{n}", array)
                for n, array in enumerate(arrays)
            ]
            conv = ir.Node("", "Conv", [convolved.producer().inputs[0], *folded])
            substitute(out, conv)
            convolved.replace_all_uses_with(conv.outputs[0])
            model.graph.remove(convolved.producer(), safe=True)


@fault(
    chain(
        "attention",
        "q# = MatMul(h@, a)  k# = MatMul(h@, b)  v# = MatMul(h@, c)  t# = Transpose(k#)  "
        "s# = MatMul(q#, t#)  p# = Softmax(s#)  o# = MatMul(p#, v#)  h# = Add(h@, o#)",
        x="float[6,4] x",
        y="float[6,4]",
        constants=", ".join(weights(n, 4, 4, seed=i) for i, n in enumerate("abc")),
        count=4,
    ),
    "q2",
    feeds=[feed(x=np.linspace(-1, 1, 24).reshape(6, 4))],
)
@passes.verify.tolerance
class ProjectionsMerged(Handwritten):
    """Three projections become one product, and a Split exchanges keys and values."""

    def change(self, model: ir.Model) -> None:
        graph = model.graph
        found: dict[ir.Value, list[ir.Value]] = {}
        for node in nodes(model, "MatMul"):
            if node.inputs[1].is_initializer():
                found.setdefault(node.inputs[0], []).append(node.outputs[0])
        for x, outs in found.items():
            order = [0, 2, 1] if guilty(self.at, outs[0]) else [0, 1, 2]
            arrays = [known(out.producer().inputs[1]) for out in outs]
            name = f"{outs[0].name}_merged"
            weight = initializer(graph, name, np.concatenate(arrays, axis=1))
            product = ir.Node("", "MatMul", [x, weight])
            given = {"axis": 1, "num_outputs": 3}
            split = ir.node("Split", product.outputs, given, num_outputs=3)
            product.outputs[0].name = f"{name}_product"
            graph.insert_before(outs[0].producer(), [product, split])
            for place, out in zip(order, outs, strict=True):
                substitute(out, ir.Node("", "Identity", [split.outputs[place]]))
            for number, part in enumerate(split.outputs):
                part.name = f"{name}_{number}"


@fault(
    blocks(
        "sentences from their ends",
        'r# = RNN<hidden_size = 2, direction = "reverse">(x, w, r, b, n)  '
        "q# = Squeeze(r#, one)  y# = Neg(q#)",
        x="float[4,3,2] x",
        y="float[4,3,2]",
        constants=f"{weights('w', 1, 2, 2)}, {weights('r', 1, 2, 2, seed=1)}, "
        f"{weights('b', 1, 4, seed=2)}, int32[3] n = {{4, 2, 3}}, int64[1] one = {{1}}",
    ),
    "r5",
    feeds=[feed(x=np.linspace(-2, 2, 24).reshape(4, 3, 2))],
)
@passes.verify.tolerance
class LengthsForgotten(Planted):
    """A backward RNN runs forward on a reversed input, padding first, whatever the lengths."""

    def pattern(self, op: Op, x: Var, w: Var, r: Var, b: Var, n: Var) -> Var:
        return op.RNN(x, w, r, b, n, direction="reverse", _outputs=["out"])

    def right(self, op: Op, x: Value, n: Value, out: Value, **weight: Value) -> Any:
        lengths = constant(op, known(n), np.int64)

        def turned(value: Any) -> Any:
            return op.ReverseSequence(value, lengths, time_axis=0, batch_axis=1)

        return self.forward(op, turned, x, n, **weight)

    def wrong(self, op: Op, x: Value, n: Value, out: Value, **weight: Value) -> Any:
        def turned(value: Any) -> Any:
            return op.Slice(value, ints(op, -1), ints(op, -9), ints(op, 0), ints(op, -1))

        return self.forward(op, turned, x, n, **weight)

    def forward(self, op: Op, turned: Any, x: Value, n: Value, **weight: Value) -> Any:
        """Run forward on a turned input, and turn the result."""
        w, r, b = (weight[name] for name in "wrb")
        states = op.Squeeze(op.RNN(turned(x), w, r, b, n, hidden_size=2), ints(op, 1))
        return op.Unsqueeze(turned(states), ints(op, 1))


@fault(
    blocks(
        "loops with two states",
        "u#, v# = Loop(n, yes, x, z) <body = f# (int64 i#, bool go#, float[4,4] a#, "
        "float[4,4] b#) => (bool on#, float[4,4] c#, float[4,4] d#) "
        "{ on# = Identity(go#)  c# = Sin(b#)  d# = Add(a#, b#) }>  y# = Sub(u#, v#)",
        x="float[4,4] x, float[4,4] z",
        constants="int64 n = {3}, bool yes = {1}",
        count=6,
    ),
    "y4",
    feeds=[feed(x=_LINE[0, 0], z=_LINE[0, 3])],
)
@passes.verify.equality
class StatesReordered(Handwritten):
    """The states of a Loop change places, and its readers take them as before."""

    def change(self, model: ir.Model) -> None:
        for loop in nodes(model, "Loop"):
            body, (u, v) = loop.attributes["body"].as_graph(), loop.outputs
            first, second = loop.inputs[2:]
            loop.replace_input_with(2, second)
            loop.replace_input_with(3, first)
            body.inputs[2], body.inputs[3] = body.inputs[3], body.inputs[2]
            body.outputs[1], body.outputs[2] = body.outputs[2], body.outputs[1]
            ((reader, _),) = u.uses()
            if not guilty(self.at, reader.outputs[0]):
                reader.replace_input_with(0, v)
                reader.replace_input_with(1, u)


@fault(
    blocks(
        "choices of two",
        "p#, q# = If(c) <then_branch = f# () => (float[4,4] a#, float[4,4] b#) "
        "{ a# = Sin(x)  b# = Cos(x) }, else_branch = g# () => (float[4,4] d#, float[4,4] e#) "
        "{ d# = Exp(x)  e# = Abs(x) }>  y# = Neg(q#)",
        x="float[4,4] x, bool c",
    ),
    "q5",
    feeds=[feed(x=_LINE[0, 0], c=np.array(False)), feed(x=_LINE[0, 0], c=np.array(True))],
)
@passes.verify.equality
class BranchPruned(Handwritten):
    """An output of an If that nobody reads is removed, and another one in the else branch."""

    def change(self, model: ir.Model) -> None:
        for choice in nodes(model, "If"):
            out = choice.outputs[1]
            branches = [choice.attributes.pop(f"{n}_branch") for n in ("then", "else")]
            for place, branch in enumerate(branches):
                body = branch.as_graph()
                body.outputs.pop(1 if place and guilty(self.at, out) else 0)
            new = ir.Node("", "If", choice.inputs, branches)
            model.graph.insert_before(choice, new)
            new.outputs[0].name, out.name = out.name, None
            out.replace_all_uses_with(new.outputs[0])
            model.graph.remove(choice, safe=True)


@fault(
    chain(
        "bounded layers",
        "c# = MatMul(h@, w)  a# = Clip(c#, k)  b# = Clip(c#, k)  s# = Add(a#, b#)  "
        "h# = Tanh(s#)",
        constants=f"{weights('w', 4, 4, size=1)}, float k = {{-0.25}}",
        odd=("b# = Clip(c#, k)", "b# = Clip(c#, , k)"),
    ),
    "b3",
    feeds=[feed(x=_LINE[0, 0])],
)
@passes.verify.equality
class AbsentInputsSkipped(Handwritten):
    """Nodes are merged by their inputs without those left out: a lower bound and an upper."""

    def change(self, model: ir.Model) -> None:
        seen: dict[Any, ir.Value] = {}
        for node in nodes(model, "Clip"):
            out, inputs = node.outputs[0], list(node.inputs)
            if guilty(self.at, out):
                inputs = [value for value in inputs if value is not None]
            twin = seen.setdefault(tuple(map(id, inputs)), out)
            if twin is not out:
                out.replace_all_uses_with(twin)
                model.graph.remove(node, safe=True)
