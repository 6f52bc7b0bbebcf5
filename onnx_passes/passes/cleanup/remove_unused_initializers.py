"""Remove initializers that nobody reads."""

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.model.walk import all_graphs
from onnx_passes.passes.common.graph_edits import annotated_names


@passes.verify.equality
@passes.register("remove-unused")
@passes.register("cleanup")
class RemoveUnusedInitializers(passes.Transformation):
    """Remove initializers that nobody reads.

    Before: ``<float[2] w = {1, 2}> { y = Neg(x) }``
    After:  ``{ y = Neg(x) }``

    Sound because an initializer acts through its readers only.

    Leaves alone: initializers that are inputs or outputs of a graph, or that a quantization
    annotation names.
    """

    preserves = ("shape-inference", "topological-sort")

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Look at the initializers of every graph."""
        annotated = annotated_names(model)
        removed = 0
        for graph in all_graphs(model):
            for name, value in list(graph.initializers.items()):
                belongs = value.is_graph_input() or value.is_graph_output()
                if not (belongs or value.uses() or name in annotated):
                    del graph.initializers[name]
                    removed += 1
        return ir.passes.PassResult(model, modified=removed > 0)
