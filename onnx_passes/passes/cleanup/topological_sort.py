"""Sort nodes so that producers come first."""

from collections.abc import Sequence

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.model.walk import all_graphs, topological_order
from onnx_passes.passes.context import Application


@passes.verify.equality
@passes.register("cleanup")
class TopologicalSort(passes.Transformation):
    """Sort nodes so that producers come first.

    Before: ``y = Neg(t)  t = Exp(x)``
    After:  ``t = Exp(x)  y = Neg(t)``

    What a subgraph takes from outside counts as used by the node that holds it. A graph that
    is in order keeps its order.

    Sound because the order of nodes carries no meaning in ONNX beyond this rule.

    Leaves alone: graphs that are in order. A cycle is an error that names its nodes.
    """

    @classmethod
    def holds_after(cls, rewrites: Sequence[Application]) -> bool:
        """Nodes that are left keep their order."""
        return not any(one.new_nodes for one in rewrites)

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Sort every graph."""
        modified = False
        for graph in list(all_graphs(model)):
            order = topological_order(graph)
            if order != list(graph):
                graph.extend(order)
                modified = True
        return ir.passes.PassResult(model, modified=modified)
