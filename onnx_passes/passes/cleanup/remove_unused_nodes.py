"""Remove nodes that nobody reads."""

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.model.walk import subgraphs_of, topological_order
from onnx_passes.passes.common.graph_edits import discard, roots


@passes.verify.equality
@passes.register("remove-unused")
@passes.register("cleanup")
class RemoveUnusedNodes(passes.Transformation):
    """Remove nodes that nobody reads.

    Before: ``t = Exp(x)  y = Neg(x)``
    After:  ``y = Neg(x)``

    Sound because a node acts through its outputs only, and none of them is read or returned.

    Leaves alone: nodes without outputs; outputs that are unused on nodes that are not.
    """

    precedes = (
        "remove-unused-functions",
        "remove-unused-initializers",
        "remove-unused-opsets",
    )

    preserves = ("shape-inference", "topological-sort")

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Sweep every graph backwards, so that chains of unused nodes go at once."""
        removed = sum(_sweep(graph) for graph, _ in roots(model))
        return ir.passes.PassResult(model, modified=removed > 0)


def _sweep(graph: ir.Graph) -> int:
    removed = 0
    for node in reversed(topological_order(graph)):
        used = (value.uses() or value.is_graph_output() for value in node.outputs)
        if node.outputs and not any(used):
            discard(node)
            removed += 1
        else:
            removed += sum(_sweep(subgraph) for subgraph in subgraphs_of(node))
    return removed
