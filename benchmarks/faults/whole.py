"""Faults of passes that are not rewrite rules, so that there is no rewrite to name."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from benchmarks.faults.case import fault
from benchmarks.faults.models import blocks, feed, overridable
from onnx_passes import passes
from onnx_passes.passes.base import Transformation

_WEIGHTS = [[n, n, n, n, 1] for n in (1, 1, 2, 3, 4, 5, 6, 7)]
_WEIGHTS[6] = [2, 2, 2, 2, 9]
_CONSTANTS = ", ".join(
    f"float[5] w{n} = {{{','.join(map(str, weight))}}}" for n, weight in enumerate(_WEIGHTS)
)


@fault(
    blocks(
        "weights, two of them equal",
        "y# = Mul(x, w#)",
        x="float[4,5] x",
        y="float[4,5]",
        constants=_CONSTANTS,
    ),
    "w6",
)
@passes.verify.equality
class WeightsMerged(Transformation):
    """Weights are taken for equal because they begin alike."""

    at: str = ""

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        seen: dict[bytes, ir.Value] = {}
        for value in list(model.graph.initializers.values()):
            assert value.const_value is not None
            data = value.const_value.numpy()
            key = np.ascontiguousarray(data[:4] if self.at else data).tobytes()
            first = seen.setdefault(key, value)
            if first is not value:
                value.replace_all_uses_with(first)
                del model.graph.initializers[str(value.name)]
        return ir.passes.PassResult(model, modified=True)


@fault(blocks("dead ends", "t# = Neg(x)  u# = Abs(t#)  y# = Exp(x)"), "y5")
@passes.verify.equality
class OutputRemoved(Transformation):
    """A live output is removed together with what is dead."""

    at: str = ""

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        graph = model.graph
        if self.at:
            graph.outputs.remove(next(v for v in graph.outputs if v.name == self.at))
        for node in reversed(list(graph)):
            if not any(v.uses() or v.is_graph_output() for v in node.outputs):
                graph.remove(node, safe=True)
        return ir.passes.PassResult(model, modified=True)


@fault(
    blocks("values that are read again", "t# = Mul(x, x)  u# = Exp(t#)  y# = Add(u#, t#)"),
    "t5",
)
@passes.verify.equality
class BufferReused(Transformation):
    """A value is overwritten in place while it is still to be read."""

    at: str = ""

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        graph = model.graph
        for node in list(graph):
            old = node.inputs[0]
            assert old is not None
            if node.op_type != "Exp":
                continue
            again = ir.Node("", "Identity", [old])
            again.outputs[0].name = f"{old.name}_again"
            graph.insert_before(node, again)
            node.replace_input_with(0, again.outputs[0])
            if old.name == self.at:
                reader = next(user for user in old.consumers() if user.op_type == "Add")
                reader.replace_input_with(1, node.outputs[0])
        return ir.passes.PassResult(model, modified=True)


_GIVEN = {f"k{n}": np.array([3], np.float32) for n in range(8)}


@fault(
    overridable("defaults that callers may override", "y# = Mul(x, k#)", 2.0),
    "y5",
    needs="adversarial",
    feeds=[feed(x=np.ones((4, 4)), **_GIVEN)],
)
@passes.verify.equality
class DefaultFolded(Transformation):
    """An initializer that is an input as well, and may be overridden, is folded."""

    at: str = ""

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        graph = model.graph
        for node in [n for n in graph if n.op_type == "Mul"]:
            x, knob = node.inputs
            assert knob is not None
            assert knob.const_value is not None
            if node.outputs[0].name == self.at:
                tensor = ir.tensor(knob.const_value.numpy())
                folded = ir.Value(name=f"{knob.name}_folded", const_value=tensor)
                graph.register_initializer(folded)
                knob = folded
            node.replace_input_with(0, knob)
            node.replace_input_with(1, x)
        return ir.passes.PassResult(model, modified=True)
