"""Faults of passes that are no rewrite rules, so that there is no rewrite to name."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from benchmarks.faults.case import fault
from benchmarks.faults.models import blocks
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
